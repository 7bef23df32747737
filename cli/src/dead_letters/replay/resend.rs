//! What a replay sends of a dead letter, as [`redial_core::replay`] decides it, with the words of this command.

use std::time::Duration;

use redial_adapters::dead_letters_dynamo::{Described, StoredBody};
use redial_core::{
    dead_letter::Reference,
    lane::Lane,
    replay::{self, Replay, Stored},
    time::Timestamp,
};

use crate::send::outgoing::Outgoing;

pub(super) use redial_core::replay::{Permissions, Skip};

pub(super) const fn words(skip: Skip) -> &'static str {
    match skip {
        Skip::AboutAnEndpoint => "about an endpoint that is gone or not found, without a body",
        Skip::IdConflict => "the id belongs to a message with other content: send it under another id",
        Skip::ReplayedBefore => {
            "replayed before (--again sends them again; the ledger drops those that arrived)"
        }
        Skip::BodyAbsent => "the body is not kept any more",
        Skip::TtlOver => "past their TTL (--refresh-ttl sends those whose body is still stored)",
        Skip::NoMessage => "the body is not a valid message: the producer has to fix and resend it",
    }
}

pub(super) fn worth_reading(described: &Described, may: Permissions) -> Result<(), Skip> {
    replay::worth_reading(&described.reference, described.replayed_at.is_some(), may)
}

/// The message to send at `now`, and its lane.
pub(super) fn resend(
    described: &Described,
    stored: Option<&StoredBody>,
    may: Permissions,
    now: Timestamp,
) -> Result<(Lane, Outgoing), Skip> {
    let stored = stored.map(|StoredBody { body, lane, absent_from }| Stored {
        body,
        lane: *lane,
        absent_from: *absent_from,
        kept_until: kept_until(described),
    });
    let Replay { lane, message, body } = replay::replay(&described.reference, stored, may, now)?;
    let id = Some(message.id);
    Ok((lane, Outgoing { line: 0, tenant: message.tenant, id, body, warning: None }))
}

/// When the dead letter expires; the store may remove it later.
fn kept_until(described: &Described) -> Timestamp {
    let Reference { at, retention_days, .. } = described.reference;
    let kept = Duration::from_secs(u64::from(retention_days) * 86_400);
    described.kept_until.unwrap_or(Timestamp::from_ms(at).plus(kept))
}

#[cfg(test)]
mod tests {
    use redial_core::dead_letter::Kind;
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
        let (lane, message) = resend(&described(), Some(&stored), may, at(now))?;
        Ok((lane, serde_json::from_str(&message.body).expect("JSON")))
    }

    const USUAL: Permissions = Permissions { refresh_ttl: false, again: false };
    const REFRESHED: Permissions = Permissions { refresh_ttl: true, again: false };

    #[test]
    fn the_message_is_sent_as_the_next_lineage_at_its_first_attempt() {
        let expected = json!({
            "tenant": "acme", "id": "d1", "to": {"webhook": {"url": "https://a.example/hook"}}, "payload": "s3cret",
            "ttl": 100, "lineage": 3, "retry_count": 0, "original_timestamp": 900_000, "ttl_remaining": 40,
        });
        assert_eq!(sent(body(json!({})), USUAL, 960), Ok((Lane::Transactional, expected)));
        let (_, refreshed) = sent(body(json!({})), REFRESHED, 5_000).expect("sent");
        assert_eq!(
            (&refreshed["original_timestamp"], &refreshed["ttl_remaining"]),
            (&json!(5_000_000), &json!(100))
        );
    }

    #[test]
    fn a_message_keeps_its_lane_and_without_one_campaigns_are_sent_on_the_bulk_lane() {
        let (high, bulk) = (Lane::Transactional, Lane::Bulk);
        for (class, without) in [("otp", high), ("alert", high), ("campaign", bulk)] {
            for (lane, expected) in [(Some(high), high), (Some(bulk), bulk), (None, without)] {
                let stored = StoredBody { lane, ..body(json!({"class": class})) };
                assert_eq!(sent(stored, USUAL, 960).expect("in time").0, expected, "{class} {lane:?}");
            }
        }
    }

    #[test]
    fn a_message_without_a_valid_body_or_time_left_is_skipped() {
        const DAY: i64 = 86_400;
        let of_channel = |channel: &str| {
            let mut it = described();
            it.reference.channel = channel.to_owned();
            it
        };
        let [to_browser, to_webhook, unread] = ["web_push", "webhook", "unknown"].map(of_channel);
        let kept_for_an_hour = Described { kept_until: Some(at(4_600)), ..described() };
        let usual = || Some(body(json!({})));
        let kept_longer = || usual().map(|it| StoredBody { absent_from: at(9_000), ..it });
        let without_ttl = || {
            let stored = body(json!({}));
            let mut message: Value = serde_json::from_str(&stored.body).expect("JSON");
            message.as_object_mut().expect("an object").retain(|field, _| !field.starts_with("ttl"));
            Some(StoredBody { body: message.to_string(), ..stored })
        };
        let broken = |text: &str| usual().map(|it| StoredBody { body: text.to_owned(), ..it });
        for (described, stored, may, now, skip) in [
            (&to_browser, None, REFRESHED, 1, Some(Skip::BodyAbsent)),
            (&to_browser, usual(), USUAL, 1_000, Some(Skip::TtlOver)),
            (&to_browser, kept_longer(), USUAL, 1_001, Some(Skip::TtlOver)),
            // The store may remove bodies late: those count as absent.
            (&to_browser, usual(), REFRESHED, 14 * DAY, None),
            (&to_browser, usual(), REFRESHED, 15 * DAY, Some(Skip::BodyAbsent)),
            (&to_browser, usual(), USUAL, 15 * DAY, Some(Skip::BodyAbsent)),
            (&kept_for_an_hour, usual(), REFRESHED, 4_599, None),
            (&kept_for_an_hour, usual(), REFRESHED, 4_600, Some(Skip::BodyAbsent)),
            // Messages without a TTL, and bodies that were not parsed, are kept for a time of their own.
            (&to_webhook, without_ttl(), REFRESHED, 999, None),
            (&to_webhook, without_ttl(), REFRESHED, 1_000, Some(Skip::BodyAbsent)),
            (&unread, usual(), REFRESHED, 999, None),
            (&unread, usual(), REFRESHED, 1_000, Some(Skip::BodyAbsent)),
            (&unread, broken("{"), USUAL, 1_000, Some(Skip::BodyAbsent)),
            (&to_browser, broken(""), USUAL, 1, Some(Skip::NoMessage)),
            (&to_browser, broken(r#"{"tenant":"acme""#), USUAL, 1, Some(Skip::NoMessage)),
            (&to_browser, broken(r#"{"tenant":"acme"}"#), USUAL, 1, Some(Skip::NoMessage)),
            (&to_browser, broken(r#"{"release":1}"#), USUAL, 1, Some(Skip::NoMessage)),
        ] {
            let case = format!("{} {stored:?} {may:?} at {now}", described.reference.channel);
            assert_eq!(resend(described, stored.as_ref(), may, at(now)).err(), skip, "{case}");
        }
    }

    #[test]
    fn some_dead_letters_are_skipped_before_their_body_is_read() {
        let [mut gone, mut conflict, mut replayed] = [described(), described(), described()];
        gone.reference.kind = Kind::Gone;
        conflict.reference.reason = "id_conflict".to_owned();
        replayed.replayed_at = Some(at(1));
        for (described, again, worth) in [
            (&described(), false, Ok(())),
            (&gone, false, Err(Skip::AboutAnEndpoint)),
            (&conflict, false, Err(Skip::IdConflict)),
            (&replayed, false, Err(Skip::ReplayedBefore)),
            (&replayed, true, Ok(())),
        ] {
            assert_eq!(worth_reading(described, Permissions { again, ..USUAL }), worth);
        }
    }
}
