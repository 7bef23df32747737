//! The form of a delivery's item in the `deliveries` table.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionId, Tenant, Turn};
use redial_core::ledger::HeldBy;
use redial_core::ledger::history::KEPT;
use redial_core::ledger::listing::{self, Position};
use redial_core::ledger::{Ask, Entry, Given, PastAttempt, Record, State};
use redial_core::outcome::NotSent;
use redial_core::reason::Reason;
use redial_core::tag::MessageTags;
use redial_core::time::{Timestamp, Ttl};

use crate::table::attributes::{Item, Read, expiry, item, ms, n, or_null, s};

pub(crate) type Fields = Vec<(&'static str, AttributeValue)>;

/// The attributes of a delivery's history, by their places.
pub const ATTEMPTS: [&str; KEPT as usize] = [
    "attempt_00",
    "attempt_01",
    "attempt_02",
    "attempt_03",
    "attempt_04",
    "attempt_05",
    "attempt_06",
    "attempt_07",
    "attempt_08",
    "attempt_09",
    "attempt_10",
    "attempt_11",
    "attempt_12",
    "attempt_13",
    "attempt_14",
    "attempt_15",
];

/// About how many bytes an entry has after the record of its failures, one at least, by which DynamoDB bills its writes: with ids that
/// are UUIDs, a TTL and no tags. Each attempt that is kept is about a hundred of them.
pub fn bytes_after_failures(failures: u32) -> u32 {
    752 + 102 * failures.min(KEPT)
}

pub(crate) fn entry_key(key: &DeliveryKey) -> Item {
    item([("pk", s(key.to_string()))])
}

/// The attributes of a record.
pub(crate) fn recorded(record: &Record) -> Fields {
    let mut sets = vec![
        ("state", s(record.state.label())),
        ("status", or_null(record.status.map(n))),
        ("reason", or_null(record.reason.map(|reason| s(reason.label())))),
        ("not_sent", or_null(record.not_sent.map(|failure| s(failure.label())))),
        ("provider_word", or_null(record.provider_word.as_ref().map(s))),
        ("headers", headers(&record.headers)),
        ("not_before", or_null(record.not_before.map(ms))),
        ("updated_at", ms(record.now)),
        ("expires_at", expiry(record.expires_at())),
    ];
    if record.in_doubt {
        sets.push(("in_doubt", AttributeValue::Bool(true)));
    }
    sets.extend(past_attempt(record));
    // The claim has removed those of the state before.
    sets.extend(found(&record.key, record.state, record.now).into_iter().flatten());
    sets
}

/// What holds a delivery back, with the time until which it does: once the entry names another time, something else does.
pub(crate) fn held(by: HeldBy, until: Timestamp) -> AttributeValue {
    s(format!("{by} {}", until.as_ms()))
}

fn held_by(text: &str, not_before: Timestamp) -> Option<HeldBy> {
    let (by, until) = text.split_once(' ')?;
    HeldBy::from_label(by).filter(|_| until.parse() == Ok(not_before.as_ms()))
}

/// The attributes of an entry's place in the index by state: absent while its state is not listed.
pub(crate) const FOUND: [&str; 2] = ["found_by", "found_at"];

/// The place in that index of an entry that came to its state at `now`; `None` if that is not listed.
pub(crate) fn found(
    key: &DeliveryKey,
    state: State,
    now: Timestamp,
) -> Option<[(&'static str, AttributeValue); 2]> {
    let position = || Position { at: now, id: key.id.clone() };
    let [by, at] = FOUND;
    state.is_listed().then(|| [(by, s(listing::partition_of(key, state))), (at, s(position().to_sort()))])
}

/// The attribute of its attempt in a delivery's history, if it made one.
pub(crate) fn past_attempt(record: &Record) -> Option<(&'static str, AttributeValue)> {
    let past = PastAttempt::of(record)?;
    Some((attribute(past.place()), s(past.to_text())))
}

/// The attributes that are written once.
pub(crate) fn identity(key: &DeliveryKey, now: Timestamp) -> [(&'static str, AttributeValue); 4] {
    [
        ("pk", s(key.to_string())),
        ("tenant", s(key.tenant.as_str())),
        ("id", s(key.id.as_str())),
        ("created_at", ms(now)),
    ]
}

pub(crate) fn asked(ask: &Ask, expires_at: Timestamp, now: Timestamp) -> Fields {
    vec![
        ("state", s(ask.state.label())),
        ("lineage", n(ask.turn.lineage.0)),
        ("attempt", n(ask.turn.attempt.0)),
        ("fingerprint", s(ask.fingerprint.as_str())),
        ("lease_token", s(&ask.lease_token)),
        ("lease_until", ms(ask.lease_until)),
        ("source_message", s(&ask.source_message)),
        ("updated_at", ms(now)),
        ("expires_at", expiry(expires_at)),
    ]
}

/// The attributes of an entry that is new, and that no worker has claimed.
pub(crate) fn unclaimed(entry: &Entry, channel: Option<Channel>) -> Fields {
    let mut fields = vec![
        ("state", s(entry.state.label())),
        ("lineage", n(entry.turn.lineage.0)),
        ("attempt", n(entry.turn.attempt.0)),
        ("fingerprint", s(entry.fingerprint.as_str())),
        ("lease_token", s(&entry.lease_token)),
        ("lease_until", ms(entry.lease_until)),
        ("source_message", s(&entry.source_message)),
        ("updated_at", ms(entry.updated_at)),
        ("expires_at", expiry(entry.expires_at)),
    ];
    fields.extend(identity(&entry.key, entry.created_at));
    fields.extend(channel.map(|channel| ("channel", s(channel.label()))));
    fields.extend(entry.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
    fields.extend(entry.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
    fields.extend(given(&entry.given));
    fields.extend(entry.not_before.map(|at| ("not_before", ms(at))));
    fields.extend(entry.held_by.zip(entry.not_before).map(|(by, until)| ("held_by", held(by, until))));
    fields.extend(found(&entry.key, entry.state, entry.updated_at).into_iter().flatten());
    fields
}

/// The conditions that an entry is in this turn, in whichever state.
pub(crate) fn in_turn(key: &DeliveryKey, turn: Turn) -> Fields {
    vec![("pk", s(key.to_string())), ("lineage", n(turn.lineage.0)), ("attempt", n(turn.attempt.0))]
}

/// The conditions that an entry is in this turn and state.
pub(crate) fn as_it_was(key: &DeliveryKey, turn: Turn, state: State) -> Fields {
    let mut conditions = in_turn(key, turn);
    conditions.push(("state", s(state.label())));
    conditions
}

pub(crate) fn is_set(sets: &Fields, name: &str) -> bool {
    sets.iter().any(|(set, _)| *set == name)
}

/// The attributes of what a message says of itself.
pub(crate) const GIVEN: [&str; 2] = ["ttl_seconds", "tags"];

/// Those of them that have a value.
pub(crate) fn given(given: &Given) -> Fields {
    let ttl = given.ttl.map(|ttl| n(ttl.as_secs()));
    let values = [ttl, given.tags.to_text().map(s)];
    GIVEN.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(crate) fn read_given(item: &Item) -> Given {
    let [ttl, tags] = GIVEN;
    let tags = item.text(tags).and_then(MessageTags::from_text).unwrap_or_default();
    Given { ttl: item.number(ttl).map(Ttl::from_secs), tags }
}

/// The attributes of what another message of the delivery said of itself, and this one does not.
pub(crate) fn not_given(before: &Given, now: &Given) -> Vec<&'static str> {
    let now = given(now);
    let is_gone = |name: &&str| now.iter().all(|(given, _)| given != name);
    given(before).into_iter().map(|(name, _)| name).filter(is_gone).collect()
}

/// When the first attempt was dispatched.
pub(crate) const DISPATCHED: &str = "dispatched_at";

/// The attribute of a place in a delivery's history.
pub const fn attribute(place: u32) -> &'static str {
    ATTEMPTS[(place % KEPT) as usize]
}

/// A map, or NULL for no headers.
fn headers(kept: &[(String, String)]) -> AttributeValue {
    let map: Item = kept.iter().map(|(name, value)| (name.clone(), s(value))).collect();
    or_null((!map.is_empty()).then_some(AttributeValue::M(map)))
}

/// Reads an item of the `deliveries` table; `None` if it is not one that this version wrote.
pub fn entry(item: &Item) -> Option<Entry> {
    Some(Entry {
        key: DeliveryKey {
            tenant: Tenant::parse(item.text("tenant")?)?,
            id: DeliveryId::parse(item.text("id")?)?,
        },
        state: State::from_label(item.text("state")?)?,
        turn: Turn { lineage: Lineage(item.number("lineage")?), attempt: Attempt(item.number("attempt")?) },
        fingerprint: EndpointHash::parse(item.text("fingerprint")?)?,
        lease_token: item.text("lease_token")?.to_owned(),
        lease_until: item.time("lease_until")?,
        source_message: item.text("source_message")?.to_owned(),
        place: item.number("place"),
        endpoint_hash: item.text("endpoint_hash").and_then(EndpointHash::parse),
        subscription: item.text("subscription").and_then(SubscriptionId::parse),
        status: item.number("status"),
        reason: item.text("reason").and_then(Reason::from_label),
        not_sent: item.text("not_sent").and_then(NotSent::from_label),
        provider_word: item.text("provider_word").map(str::to_owned),
        not_before: item.time("not_before"),
        held_by: item.text("held_by").and_then(|text| held_by(text, item.time("not_before")?)),
        in_doubt: item.truth("in_doubt"),
        given: read_given(item),
        created_at: item.time("created_at")?,
        dispatched_at: item.time(DISPATCHED),
        updated_at: item.time("updated_at")?,
        expires_at: item.expires_at()?,
    })
}
