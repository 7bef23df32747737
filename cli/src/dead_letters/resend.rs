//! From a dead letter to the message that goes out, or why none does.
//!
//! What goes out is the stored message itself, as the next lineage of the same id and at its first attempt. Whoever sends
//! the same letter twice sends the same turn twice, and the ledger drops one of the two.

use redial_adapters::dead_letters_dynamo::{Described, StoredBody};
use redial_core::{
    channel::Channel,
    dead_letter::{Kind, Reference},
    identity::{Attempt, DeliveryId, Tenant, Turn},
    lane::Lane,
    message::{Class, Inbound, Message, QueueKind, Travel, parse},
    reason::Reason,
    time::Timestamp,
};

/// What may be done beyond the usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Permissions {
    /// A message's TTL begins anew, and a body whose time is over goes out if it still lies there.
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
    /// No body lies in the store.
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
    reference: &Reference,
    stored: Option<StoredBody>,
    may: Permissions,
    now: Timestamp,
) -> Result<Resend, Skip> {
    let stored = stored.ok_or(Skip::Absent)?;
    if stored.absent_from <= now && !may.refresh_ttl {
        return Err(Skip::TtlOver);
    }
    let (message, travel) = read(reference, &stored.body).ok_or(Skip::NoMessage)?;
    let first_sent = if may.refresh_ttl { now } else { travel.first_sent };
    let deadline = message.deadline(channel(reference, &message), first_sent);
    if deadline.is_over(now, 0) {
        return Err(Skip::TtlOver);
    }
    let turn = Turn { lineage: travel.turn.lineage.next(), attempt: Attempt::FIRST };
    let travel = Travel { turn, first_sent, not_before: None, deferred_from: None };
    Ok(Resend {
        lane: lane(message.class),
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
        Ok(Inbound::Release(_)) | Err(_) => None,
    };
    read(QueueKind::Retry).or_else(|| read(QueueKind::Ingest))
}

fn channel(reference: &Reference, message: &Message) -> Channel {
    let told = Channel::from_label(&reference.channel);
    told.or_else(|| message.to.recipient().map(|to| to.channel())).unwrap_or(Channel::WebPush)
}

/// A letter does not know by which lane it came. Campaigns may take their time; all else may be waited for.
const fn lane(class: Class) -> Lane {
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
        StoredBody { body: body.to_string(), absent_from: at(1_000) }
    }

    fn sent(stored: StoredBody, may: Permissions, now: i64) -> Result<(Lane, Value), Skip> {
        let resend = resend(&described().reference, Some(stored), may, at(now))?;
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
    fn a_campaign_goes_to_the_lane_of_campaigns() {
        let sent = sent(body(json!({"class": "campaign"})), Permissions::default(), 960).expect("in time");
        assert_eq!(sent.0, Lane::Bulk);
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
    fn what_has_no_body_or_is_no_message_is_told_apart() {
        let nothing = resend(&described().reference, None, REFRESHED, at(1));
        assert_eq!(nothing.err(), Some(Skip::Absent));
        for broken in ["", "{\"tenant\":\"acme\"", "{\"tenant\":\"acme\"}", "{\"release\":1}"] {
            let stored = StoredBody { body: broken.to_owned(), absent_from: at(1_000) };
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
