//! From a dead letter to the message that goes out, or why none does.
//!
//! What goes out is the stored message itself, as the next lineage of the same id and at its first attempt. Whoever sends
//! the same letter twice sends the same turn twice, and the ledger drops one of the two.
//!
//! A body counts as absent once its message's TTL is over, though it lies in the store until the next hourly sweep. Who lets
//! the TTL begin anew says that this message is worth sending after all, so to that person alone such a body is there, for as
//! long as it lies there and its letter is kept. A body that was kept for a time of its own is gone for everybody after it.

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

/// What may be done beyond the usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Permissions {
    /// A message's TTL begins anew. A body that counts as absent because the TTL is over goes out as long as it still lies in
    /// the store and its letter is kept.
    pub(crate) refresh_ttl: bool,
    /// Also what was sent again before.
    pub(crate) again: bool,
}

/// A message that goes out.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Resend {
    pub(super) lane: Lane,
    pub(super) tenant: Tenant,
    pub(super) id: DeliveryId,
    /// Never print it.
    pub(super) body: String,
}

/// Why a letter is not sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Skip {
    /// It is about an endpoint, and there is no body to it.
    Endpoint,
    /// Its id belongs to another content.
    Conflict,
    /// It was sent again before.
    Replayed,
    /// No body lies in the store, or it is kept no longer.
    Absent,
    /// The message's TTL is over.
    TtlOver,
    /// The body is no message.
    NoMessage,
}

impl Skip {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Endpoint, Self::Conflict, Self::Replayed, Self::Absent, Self::TtlOver, Self::NoMessage];

    /// Its name in JSON.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Endpoint => "about_an_endpoint",
            Self::Conflict => "id_conflict",
            Self::Replayed => "replayed_before",
            Self::Absent => "body_absent",
            Self::TtlOver => "ttl_over",
            Self::NoMessage => "no_message",
        }
    }

    /// Why, for a person.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Endpoint => {
                "about an endpoint that is gone or not found: there is no body to such a letter"
            }
            Self::Conflict => "the id belongs to another content: send it anew under an id of its own",
            Self::Replayed => "sent again before (--again sends them once more; what has arrived is dropped)",
            Self::Absent => "the body is not kept any more",
            Self::TtlOver => "past their TTL (--refresh-ttl sends those whose body still lies there)",
            Self::NoMessage => "the body is no message: the producer has to mend it and send it anew",
        }
    }
}

/// What is known before the body is read: whether it is worth reading.
pub(super) fn worth_reading(described: &Described, may: Permissions) -> Result<(), Skip> {
    match described.reference.kind {
        Kind::Gone | Kind::NotFound => Err(Skip::Endpoint),
        Kind::Failed if described.reference.reason() == Some(Reason::IdConflict) => Err(Skip::Conflict),
        Kind::Failed if described.replayed_at.is_some() && !may.again => Err(Skip::Replayed),
        Kind::Failed => Ok(()),
    }
}

/// What goes out of a letter at `now`.
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
        // Only a TTL can begin anew. All other bodies are kept for so long and no longer.
        let ends_with_its_ttl =
            was_understood(reference) && message.deadline(channel, travel.first_sent).is_limited();
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
        lane: stored.lane.unwrap_or(usual_lane(message.class)),
        body: message.expose_travel_body(&travel, deadline, now),
        tenant: message.tenant,
        id: message.id,
    })
}

/// A body is a travelling message, or, where it was never understood, whatever a producer wrote.
fn read(reference: &Reference, body: &str) -> Option<(Message, Travel)> {
    let first_sent = Timestamp::from_ms(reference.first_sent);
    let read = |kind| match parse(body, kind, &reference.id, first_sent) {
        Ok(Inbound::Message(message, travel)) => Some((*message, travel)),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..)) | Err(_) => None,
    };
    read(QueueKind::Retry).or_else(|| read(QueueKind::Ingest))
}

/// Whether its body was a message to whoever stored it: one that was not has no channel, and is kept for a day whatever TTL
/// may be read in it.
fn was_understood(reference: &Reference) -> bool {
    Channel::from_label(&reference.channel).is_some()
}

/// Until when a letter is kept, whether the store has tidied up or not.
fn kept_until(described: &Described) -> Timestamp {
    let Reference { at, retention_days, .. } = described.reference;
    let kept = Duration::from_secs(u64::from(retention_days) * 86_400);
    described.kept_until.unwrap_or(Timestamp::from_ms(at).plus(kept))
}

fn channel(reference: &Reference, message: &Message) -> Channel {
    let told = Channel::from_label(&reference.channel);
    told.or_else(|| message.to.recipient().map(|to| to.channel())).unwrap_or(Channel::WebPush)
}

/// Where a message goes whose letter does not say by which lane it came: letters of earlier releases and poison messages do
/// not. Campaigns may take their time; all else may be waited for.
const fn usual_lane(class: Class) -> Lane {
    match class {
        Class::Campaign => Lane::Bulk,
        Class::Otp | Class::Alert => Lane::Transactional,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dead_letters::filter::tests::described;

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
    fn the_message_goes_out_as_the_next_lineage_at_its_first_attempt() {
        let (lane, sent) = sent(body(json!({})), Permissions::default(), 960).expect("in time");
        assert_eq!(lane, Lane::Transactional);
        let expected = json!({
            "tenant": "acme", "id": "d1", "to": {"webhook": {"url": "https://a.example/hook"}}, "payload": "s3cret",
            "ttl": 100, "lineage": 3, "retry_count": 0, "original_timestamp": 900_000, "ttl_remaining": 40,
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn it_goes_to_the_lane_that_its_message_came_by() {
        let to = |class: &str, lane| {
            let stored = StoredBody { lane, ..body(json!({"class": class})) };
            sent(stored, Permissions::default(), 960).expect("in time").0
        };
        for class in ["otp", "alert", "campaign"] {
            for lane in Lane::ALL {
                assert_eq!(to(class, Some(lane)), lane);
            }
        }
        // Where that is not known, campaigns go to the lane of campaigns.
        assert_eq!(to("campaign", None), Lane::Bulk);
        assert_eq!((to("otp", None), to("alert", None)), (Lane::Transactional, Lane::Transactional));
    }

    #[test]
    fn what_is_past_its_ttl_stays_unless_its_ttl_begins_anew() {
        assert_eq!(sent(body(json!({})), Permissions::default(), 1_000), Err(Skip::TtlOver));
        let kept_longer = StoredBody { absent_from: at(9_000), ..body(json!({})) };
        assert_eq!(sent(kept_longer, Permissions::default(), 1_001), Err(Skip::TtlOver));
        let (_, sent) = sent(body(json!({})), REFRESHED, 5_000).expect("anew");
        assert_eq!((&sent["original_timestamp"], &sent["ttl_remaining"]), (&json!(5_000_000), &json!(100)));
    }

    #[test]
    fn an_absent_body_goes_out_only_if_its_ttl_ended_and_its_letter_is_kept() {
        let day = 86_400;
        let skip = |described: &Described, stored: StoredBody, may, now| {
            resend(described, Some(stored), may, at(now)).err()
        };
        let to_browser = described();
        // The store may tidy up late: what it should have removed is not there for anybody.
        assert_eq!(skip(&to_browser, body(json!({})), REFRESHED, 14 * day), None);
        assert_eq!(skip(&to_browser, body(json!({})), REFRESHED, 15 * day), Some(Skip::Absent));
        assert_eq!(skip(&to_browser, body(json!({})), Permissions::default(), 15 * day), Some(Skip::Absent));
        let kept_for_an_hour = Described { kept_until: Some(at(4_600)), ..described() };
        assert_eq!(skip(&kept_for_an_hour, body(json!({})), REFRESHED, 4_599), None);
        assert_eq!(skip(&kept_for_an_hour, body(json!({})), REFRESHED, 4_600), Some(Skip::Absent));

        // A message without a TTL, and what was not understood, were kept for a time of their own.
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
    fn what_has_no_body_or_is_no_message_is_told_apart() {
        let nothing = resend(&described(), None, REFRESHED, at(1));
        assert_eq!(nothing.err(), Some(Skip::Absent));
        for broken in ["", "{\"tenant\":\"acme\"", "{\"tenant\":\"acme\"}", "{\"release\":1}"] {
            let stored = StoredBody { body: broken.to_owned(), lane: None, absent_from: at(1_000) };
            assert_eq!(sent(stored, Permissions::default(), 1), Err(Skip::NoMessage), "{broken}");
        }
    }

    #[test]
    fn some_letters_are_not_worth_a_look_at_their_body() {
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
    fn every_reason_to_skip_has_a_label_of_its_own() {
        let labels: std::collections::BTreeSet<_> = Skip::ALL.iter().map(|skip| skip.label()).collect();
        assert_eq!(labels.len(), Skip::ALL.len());
    }
}
