use super::*;
use crate::fixtures::{self, pairs, record as retried};
use crate::identity::{Attempt, IdSource, Lineage, Turn};
use crate::outcome::NotSent;
use crate::reason::Reason;

fn now() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

fn sent() -> Record {
    Record {
        place: Some(3),
        state: State::Sent,
        status: Some(201),
        verdict: Some("sent"),
        reason: None,
        not_before: None,
        headers: pairs(&[("ttl", "60")]),
        ..retried(0)
    }
}

/// What the claim of that record wrote.
fn claimed() -> Entry {
    let Record { key, turn, lease_token, place, .. } = sent();
    let lease_until = now().plus(Duration::from_secs(40));
    let (status, reason) = (Some(503), Some(Reason::ServerError));
    Entry { key, turn, lease_token, lease_until, place, status, reason, ..fixtures::entry(now()) }
}

fn batch() -> Batch {
    let (place, success) = Success::of(&sent()).expect("a plain success");
    Batch { sent: BTreeMap::from([(place, success)]), is_closed: false }
}

fn ask(lineage: u32, attempt: u32) -> Ask {
    Ask {
        key: claimed().key,
        turn: Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) },
        lease_token: "another".to_owned(),
        lease_until: now(),
        source_message: "m2".to_owned(),
        fingerprint: claimed().fingerprint,
        id_source: IdSource::Producer,
        state: State::Sending,
    }
}

#[test]
fn a_success_is_short_text_and_reads_back() {
    let (place, success) = Success::of(&sent()).expect("a plain success");
    assert_eq!((place, success.to_text().as_str()), (3, r#"{"at":1800000000000,"s":201,"h":{"ttl":"60"}}"#));
    assert_eq!(Success::from_text(&success.to_text()), Some(success));
    assert_eq!(Success::from_text("{}"), None);
}

#[test]
fn only_a_plain_success_with_a_place_is_listed() {
    for other in [
        Record { place: None, ..sent() },
        Record { in_doubt: true, ..sent() },
        Record { state: State::Queued, verdict: None, ..sent() },
        Record { verdict: Some("retry"), ..sent() },
        Record { reason: Some(Reason::ServerError), ..sent() },
        Record { not_sent: Some(NotSent::Tls), ..sent() },
        Record { provider_word: Some("dropped".to_owned()), ..sent() },
        Record { not_before: Some(now()), ..sent() },
        retried(0),
    ] {
        assert_eq!(Success::of(&other), None, "{other:?}");
    }
}

#[test]
fn an_entry_that_its_batch_lists_is_as_if_it_were_recorded_by_itself() {
    let resolved = batch().resolve(claimed());
    let expected =
        Entry { state: State::Sent, status: Some(201), reason: None, updated_at: sent().now, ..claimed() };
    assert_eq!(resolved, expected);
    let Record { kept_until, .. } = batch().sent[&3].record(&claimed());
    assert_eq!(kept_until, Some(claimed().expires_at));
    assert_eq!(Record { kept_until: None, ..batch().sent[&3].record(&claimed()) }, sent());
    // Of another place; of a claim that has none; and one that was recorded, or given back, by itself.
    for other in [
        Entry { place: Some(4), ..claimed() },
        Entry { place: None, ..claimed() },
        Entry { state: State::Retrying, ..claimed() },
        Entry { state: State::Queued, ..claimed() },
    ] {
        assert_eq!(batch().resolve(other.clone()), other);
    }
}

#[test]
fn a_batch_is_closed_before_an_attempt_is_taken_over() {
    let over = now().plus(Duration::from_secs(41));
    let closes = |stored: &Entry, ask: &Ask, at| to_close(stored, ask, at);
    assert!(closes(&claimed(), &ask(0, 0), over), "its lease is over");
    assert!(closes(&claimed(), &ask(1, 0), now()), "a replay");
    assert!(!closes(&claimed(), &ask(0, 0), now()), "its lease goes on");
    assert!(!closes(&Entry { place: None, ..claimed() }, &ask(0, 0), over), "no batch lists it");
    assert!(!closes(&Entry { state: State::Retrying, ..claimed() }, &ask(0, 1), over), "it is recorded");
    let mine = Ask { lease_token: claimed().lease_token, source_message: "m1".to_owned(), ..ask(0, 0) };
    assert!(!closes(&claimed(), &mine, over), "the answer to its claim was lost");
}

#[test]
fn a_batch_outlives_its_deliveries_by_a_week_in_whole_days() {
    let latest = crate::ledger::expires_at(now(), None);
    let day = 86_400_000;
    let kept = expires_at(latest).as_ms() - latest.as_ms();
    assert!((7 * day..=8 * day).contains(&kept), "{kept}");
    assert_eq!(expires_at(latest).as_ms() % day, 0);
    assert_eq!(expires_at(latest), expires_at(latest.plus(Duration::from_secs(900))));
}
