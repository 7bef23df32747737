//! From a dead letter to the message that is sent, or the reason why none is.
//!
//! The stored message is sent as the next lineage of the same id, at its first attempt. If the same dead letter is sent twice, both
//! have the same turn, and the ledger drops one.
//!
//! A body counts as absent once its message's TTL is over, although it stays in the store until the next hourly sweep. An operator who
//! restarts the TTL says that the message is still worth sending, so for that command such a body is present, for as long as the store
//! has it and its dead letter is kept. A body that was kept for a time of its own is absent after that time for every command.

use std::time::Duration;

use redial_adapters::dead_letters_dynamo::{Described, StoredBody};
use redial_core::{
    channel::Channel,
    dead_letter::{Kind, Reference},
    delivery_options::Class,
    identity::{Attempt, DeliveryId, Tenant, Turn},
    lane::Lane,
    message::{Inbound, Message, QueueKind, Travel, parse},
    reason::Reason,
    time::Timestamp,
};

/// What a replay may do beyond the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Permissions {
    /// Restarts each message's TTL, also of a body that counts as absent because the TTL is over.
    pub(super) refresh_ttl: bool,
    /// Sends again what was replayed before.
    pub(super) again: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Resend {
    pub(super) lane: Lane,
    pub(super) tenant: Tenant,
    pub(super) id: DeliveryId,
    /// Never print it.
    pub(super) body: String,
}

/// Why a dead letter is not sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Skip {
    /// It is about an endpoint, and has no body.
    Endpoint,
    /// Its id belongs to a message with other content.
    Conflict,
    Replayed,
    /// The body was not kept, or is not any more.
    Absent,
    TtlOver,
    NoMessage,
}

impl Skip {
    pub(super) const ALL: [Self; 6] =
        [Self::Endpoint, Self::Conflict, Self::Replayed, Self::Absent, Self::TtlOver, Self::NoMessage];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Endpoint => "about_an_endpoint",
            Self::Conflict => "id_conflict",
            Self::Replayed => "replayed_before",
            Self::Absent => "body_absent",
            Self::TtlOver => "ttl_over",
            Self::NoMessage => "no_message",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Endpoint => "about an endpoint that is gone or not found, without a body",
            Self::Conflict => "the id belongs to a message with other content: send it under another id",
            Self::Replayed => {
                "replayed before (--again sends them again; the ledger drops those that arrived)"
            }
            Self::Absent => "the body is not kept any more",
            Self::TtlOver => "past their TTL (--refresh-ttl sends those whose body is still stored)",
            Self::NoMessage => "the body is not a valid message: the producer has to fix and resend it",
        }
    }
}

/// Checks what is known before the body is read.
pub(super) fn worth_reading(described: &Described, may: Permissions) -> Result<(), Skip> {
    match described.reference.kind {
        Kind::Gone | Kind::NotFound => Err(Skip::Endpoint),
        Kind::Failed if described.reference.reason() == Some(Reason::IdConflict) => Err(Skip::Conflict),
        Kind::Failed if described.replayed_at.is_some() && !may.again => Err(Skip::Replayed),
        Kind::Failed => Ok(()),
    }
}

/// The message to send at `now`.
pub(super) fn resend(
    described: &Described,
    stored: Option<StoredBody>,
    may: Permissions,
    now: Timestamp,
) -> Result<Resend, Skip> {
    let reference = &described.reference;
    let stored = stored.ok_or(Skip::Absent)?;
    let is_absent = stored.absent_from <= now;
    let nothing = if is_absent { Skip::Absent } else { Skip::NoMessage };
    let (message, travel) = read(reference, &stored.body).ok_or(nothing)?;
    let channel = channel(reference, &message);
    if is_absent {
        // Only a TTL can restart. All other bodies are absent after their time.
        let ends_with_its_ttl =
            was_parsed(reference) && message.deadline(channel, travel.first_sent).is_limited();
        if !ends_with_its_ttl || kept_until(described) <= now {
            return Err(Skip::Absent);
        }
        if !may.refresh_ttl {
            return Err(Skip::TtlOver);
        }
    }
    let first_sent = if may.refresh_ttl { now } else { travel.first_sent };
    let deadline = message.deadline(channel, first_sent);
    if deadline.is_over(now, 0) {
        return Err(Skip::TtlOver);
    }
    let turn = Turn { lineage: travel.turn.lineage.next(), attempt: Attempt::FIRST };
    let travel = Travel::to(turn, first_sent);
    Ok(Resend {
        lane: stored.lane.unwrap_or(default_lane(message.class)),
        body: message.expose_travel_body(&travel, deadline, now),
        tenant: message.tenant,
        id: message.id,
    })
}

/// A body is a travelling message, or, if it was never parsed, what the producer wrote.
fn read(reference: &Reference, body: &str) -> Option<(Message, Travel)> {
    let first_sent = Timestamp::from_ms(reference.first_sent);
    let read = |kind| match parse(body, kind, &reference.id, first_sent) {
        Ok(Inbound::Message(message, travel)) => Some((*message, travel)),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..)) | Err(_) => None,
    };
    read(QueueKind::Retry).or_else(|| read(QueueKind::Ingest))
}

/// A body that no worker could parse has no channel, and is kept for a day whatever its TTL.
fn was_parsed(reference: &Reference) -> bool {
    Channel::from_label(&reference.channel).is_some()
}

/// When the dead letter expires; the store may remove it later.
fn kept_until(described: &Described) -> Timestamp {
    let Reference { at, retention_days, .. } = described.reference;
    let kept = Duration::from_secs(u64::from(retention_days) * 86_400);
    described.kept_until.unwrap_or(Timestamp::from_ms(at).plus(kept))
}

fn channel(reference: &Reference, message: &Message) -> Channel {
    let labelled = Channel::from_label(&reference.channel);
    labelled.or_else(|| message.to.recipient().map(|to| to.channel())).unwrap_or(Channel::WebPush)
}

/// For dead letters of earlier releases and of poison messages, which do not name a lane.
const fn default_lane(class: Class) -> Lane {
    match class {
        Class::Campaign => Lane::Bulk,
        Class::Otp | Class::Alert => Lane::Transactional,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dead_letters::described_tests::described;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn body(more: Value) -> StoredBody {
        let mut body = json!({
            "tenant": "acme", "id": "d1", "to": {"webhook": {"url": "https://a.example/hook"}}, "payload": "s3cret",
            "ttl": 100, "lineage": 2, "retry_count": 5, "original_timestamp": 900_000, "not_before": 950_000,
            "deferred_from": "m1", "ttl_remaining": 7,
        });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        StoredBody { body: body.to_string(), lane: None, absent_from: at(1_000) }
    }

    fn sent(stored: StoredBody, may: Permissions, now: i64) -> Result<(Lane, Value), Skip> {
        let resend = resend(&described(), Some(stored), may, at(now))?;
        Ok((resend.lane, serde_json::from_str(&resend.body).expect("JSON")))
    }

    const REFRESHED: Permissions = Permissions { refresh_ttl: true, again: false };

    #[test]
    fn the_message_is_sent_as_the_next_lineage_at_its_first_attempt() {
        let (lane, sent) = sent(body(json!({})), Permissions::default(), 960).expect("in time");
        assert_eq!(lane, Lane::Transactional);
        let expected = json!({
            "tenant": "acme", "id": "d1", "to": {"webhook": {"url": "https://a.example/hook"}}, "payload": "s3cret",
            "ttl": 100, "lineage": 3, "retry_count": 0, "original_timestamp": 900_000, "ttl_remaining": 40,
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_message_keeps_its_lane() {
        let to = |class: &str, lane| {
            let stored = StoredBody { lane, ..body(json!({"class": class})) };
            sent(stored, Permissions::default(), 960).expect("in time").0
        };
        for class in ["otp", "alert", "campaign"] {
            for lane in Lane::ALL {
                assert_eq!(to(class, Some(lane)), lane);
            }
        }
        // Without a lane, campaigns go to the bulk lane.
        assert_eq!(to("campaign", None), Lane::Bulk);
        assert_eq!((to("otp", None), to("alert", None)), (Lane::Transactional, Lane::Transactional));
    }

    #[test]
    fn a_message_past_its_ttl_is_sent_only_if_the_ttl_restarts() {
        assert_eq!(sent(body(json!({})), Permissions::default(), 1_000), Err(Skip::TtlOver));
        let kept_longer = StoredBody { absent_from: at(9_000), ..body(json!({})) };
        assert_eq!(sent(kept_longer, Permissions::default(), 1_001), Err(Skip::TtlOver));
        let (_, sent) = sent(body(json!({})), REFRESHED, 5_000).expect("refreshed");
        assert_eq!((&sent["original_timestamp"], &sent["ttl_remaining"]), (&json!(5_000_000), &json!(100)));
    }

    #[test]
    fn an_absent_body_is_sent_only_if_the_ttl_alone_ended() {
        let day = 86_400;
        let skip = |described: &Described, stored: StoredBody, may, now| {
            resend(described, Some(stored), may, at(now)).err()
        };
        let to_browser = described();
        // The store may remove bodies late: those count as absent.
        assert_eq!(skip(&to_browser, body(json!({})), REFRESHED, 14 * day), None);
        assert_eq!(skip(&to_browser, body(json!({})), REFRESHED, 15 * day), Some(Skip::Absent));
        assert_eq!(skip(&to_browser, body(json!({})), Permissions::default(), 15 * day), Some(Skip::Absent));
        let kept_for_an_hour = Described { kept_until: Some(at(4_600)), ..described() };
        assert_eq!(skip(&kept_for_an_hour, body(json!({})), REFRESHED, 4_599), None);
        assert_eq!(skip(&kept_for_an_hour, body(json!({})), REFRESHED, 4_600), Some(Skip::Absent));

        // Messages without a TTL, and bodies that were not parsed, are kept for a time of their own.
        let mut to_webhook = described();
        to_webhook.reference.channel = "webhook".to_owned();
        let without_ttl = || {
            let stored = body(json!({}));
            let mut message: Value = serde_json::from_str(&stored.body).expect("JSON");
            message.as_object_mut().expect("an object").retain(|field, _| !field.starts_with("ttl"));
            StoredBody { body: message.to_string(), ..stored }
        };
        assert_eq!(skip(&to_webhook, without_ttl(), REFRESHED, 999), None);
        assert_eq!(skip(&to_webhook, without_ttl(), REFRESHED, 1_000), Some(Skip::Absent));
        let mut unread = described();
        unread.reference.channel = "unknown".to_owned();
        assert_eq!(skip(&unread, body(json!({})), REFRESHED, 999), None);
        assert_eq!(skip(&unread, body(json!({})), REFRESHED, 1_000), Some(Skip::Absent));
        let broken = StoredBody { body: "{".to_owned(), ..body(json!({})) };
        assert_eq!(skip(&unread, broken, Permissions::default(), 1_000), Some(Skip::Absent));
    }

    #[test]
    fn absent_bodies_and_invalid_messages_are_distinguished() {
        let nothing = resend(&described(), None, REFRESHED, at(1));
        assert_eq!(nothing.err(), Some(Skip::Absent));
        for broken in ["", "{\"tenant\":\"acme\"", "{\"tenant\":\"acme\"}", "{\"release\":1}"] {
            let stored = StoredBody { body: broken.to_owned(), lane: None, absent_from: at(1_000) };
            assert_eq!(sent(stored, Permissions::default(), 1), Err(Skip::NoMessage), "{broken}");
        }
    }

    #[test]
    fn some_dead_letters_are_skipped_before_their_body_is_read() {
        let usual = Permissions::default();
        let with = |change: fn(&mut Described)| {
            let mut it = described();
            change(&mut it);
            it
        };
        assert_eq!(worth_reading(&described(), usual), Ok(()));
        let gone = with(|it| it.reference.kind = Kind::Gone);
        assert_eq!(worth_reading(&gone, usual), Err(Skip::Endpoint));
        let conflict = with(|it| it.reference.reason = "id_conflict".to_owned());
        assert_eq!(worth_reading(&conflict, usual), Err(Skip::Conflict));
        let replayed = with(|it| it.replayed_at = Some(Timestamp::from_ms(1)));
        assert_eq!(worth_reading(&replayed, usual), Err(Skip::Replayed));
        assert_eq!(worth_reading(&replayed, Permissions { again: true, ..usual }), Ok(()));
    }

    #[test]
    fn every_reason_to_skip_has_its_own_label() {
        let labels: std::collections::BTreeSet<_> = Skip::ALL.iter().map(|skip| skip.label()).collect();
        assert_eq!(labels.len(), Skip::ALL.len());
    }
}
