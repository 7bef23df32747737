use redial_adapters::dead_letters_dynamo::Described;
use redial_core::{
    dead_letter::{Kind, Reference},
    endpoint::HashKeys,
    identity::{Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionId, Tenant},
    ledger::Given,
    page::{Places, Sheet},
};

use super::*;

fn now() -> Timestamp {
    Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
}

pub(crate) fn on_page(sheet: Sheet) -> OnPage {
    let (opened_at, updated_at) = (Timestamp::from_ms(500), Timestamp::from_ms(1_000));
    let subscription = SubscriptionId::parse("s1").expect("valid");
    OnPage { subscription, place: 7, sheet, opened_at, updated_at, given: Given::default() }
}

#[test]
fn a_recipient_without_an_entry_is_where_its_page_says() {
    let places = || [7].into_iter().collect::<Places>();
    let none = Sheet::default();
    for (sheet, words) in [
        (none, "its page has not been sent to it yet"),
        (Sheet { started: places(), ..none }, "being sent with its page"),
        (Sheet { apart: places(), ..none }, "it has left its page, and goes on in a message of its own"),
        (
            Sheet { sent: places(), ..none },
            "accepted by the receiver, by the page, 1970-01-01T00:00:01.000Z (5 s ago)",
        ),
    ] {
        assert_eq!(super::on_page(&on_page(sheet), Timestamp::from_ms(6_000)), words);
    }
}

pub(crate) fn entry(state: State) -> Entry {
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    let key = DeliveryKey {
        tenant: Tenant::parse("acme").expect("valid"),
        id: DeliveryId::parse("d1").expect("valid"),
    };
    let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
    Entry {
        lease_token: "token".to_owned(),
        lease_until: now().plus(Duration::from_secs(30)),
        source_message: "m1".to_owned(),
        status: Some(503),
        reason: Some(Reason::ServerError),
        dispatched_at: Some(now()),
        expires_at: now().plus(Duration::from_secs(86_400)),
        ..Entry::unclaimed(key, state, turn, keys.fingerprint(b"content"), now())
    }
}

fn place(entry: &Entry, letters: &[DeadLetter]) -> String {
    of_entry(entry, Some(Channel::WebPush), letters, &Waits::default(), now())
}

#[test]
fn every_state_has_its_words() {
    let expected = |state| match state {
        State::Queued => "its worker failed",
        State::Deferred => "held back",
        State::Sending => "being sent; its worker has until 2026-11-21T10:05:30.000Z (in 30 s)",
        State::Retrying => "on the retry queue for retry 2",
        State::Sent => "accepted by the push service 2026-11-21T10:05:00.000Z (0 s ago)",
        State::Gone => "the endpoint is gone",
        State::Expired => "its TTL expired",
        State::Failed => "dead letter: server_error; on its way to the dead-letter store",
        State::FailedNoRetries => "failed, under a policy without retries",
        State::Cancelled => "cancelled 2026-11-21T10:05:00.000Z (0 s ago)",
        State::Expanded => "handed on to its audience",
    };
    for state in State::ALL {
        let words = place(&entry(state), &[]);
        assert!(words.starts_with(expected(state)), "{words}");
    }
}

#[test]
fn what_no_policy_ended_does_not_blame_a_policy() {
    let ended = |reason| place(&Entry { reason: Some(reason), ..entry(State::FailedNoRetries) }, &[]);
    let cancelled = "not sent: the message to its audience was cancelled";
    assert_eq!(ended(Reason::Cancelled), cancelled);
    assert!(ended(Reason::EndpointReplaced).starts_with("not sent: another subscription had its endpoint"));
    let by_policy = "failed, under a policy without retries: there is no dead letter";
    assert_eq!(ended(Reason::RetriesDisabled), by_policy);
}

/// As the HTTP API inserts it.
pub(crate) fn accepted() -> Entry {
    let Entry { key, state, fingerprint, .. } = entry(State::Queued);
    Entry::unclaimed(key, state, Turn::default(), fingerprint, now())
}

#[test]
fn an_accepted_message_waits_on_its_queue_or_for_its_time() {
    let place_at = |not_before| place(&Entry { not_before, ..accepted() }, &[]);
    for not_before in [None, Some(now())] {
        assert_eq!(place_at(not_before), "on its queue: no worker has received it yet");
    }
    let scheduled = place_at(Some(now().plus(Duration::from_secs(90))));
    assert_eq!(scheduled, "scheduled for 2026-11-21T10:06:30.000Z (in 90 s)");
}

#[test]
fn what_is_held_back_says_by_what_and_until_when() {
    let until = now().plus(Duration::from_secs(90));
    let waits = Waits { origin_lines: false, ..Waits::default() };
    let held = |by, at| {
        let held = Entry { held_by: by, not_before: Some(at), ..entry(State::Deferred) };
        of_entry(&held, None, &[], &waits, now())
    };
    let moment = "2026-11-21T10:06:30.000Z (in 90 s)";
    for (by, expected) in [
        (Some(HeldBy::Schedule), format!("scheduled for {moment}")),
        (Some(HeldBy::Hours), format!("waits for its hours, which begin {moment}")),
        (Some(HeldBy::Origin), format!("held back because its origin is out, until {moment} or later")),
        (Some(HeldBy::Protection), format!("held back by a breaker or a limit until {moment}")),
        (None, format!("held back until {moment}")),
    ] {
        assert_eq!(held(by, until), expected);
        assert_eq!(held(by, now()), "held back, to be attempted now");
    }
}

#[test]
fn what_lies_in_the_line_of_its_origin_waits_for_no_time() {
    for at in [None, Some(now().minus(Duration::from_secs(5 * 3600))), Some(now().plus(UNTIL_STORED))] {
        let held =
            |state| place(&Entry { held_by: Some(HeldBy::Origin), not_before: at, ..entry(state) }, &[]);
        let words = "waits in line for its origin, which is out or recovering";
        assert_eq!(held(State::Deferred), format!("{words}: `redial breakers list`"));
        assert_eq!(held(State::Retrying), format!("{words}, for retry 2: `redial breakers list`"));
    }
}

#[test]
fn a_retry_waits_on_the_queue_or_parked_as_it_was_routed() {
    let after = |secs| now().plus(Duration::from_secs(secs));
    let by_time = Waits { origin_lines: false, ..Waits::default() };
    let retry_by = |held_by, at, waits: &Waits| {
        let entry = Entry { held_by, not_before: Some(at), ..entry(State::Retrying) };
        of_entry(&entry, None, &[], waits, now())
    };
    let retry = |at, waits: &Waits| retry_by(None, at, waits);
    for (at, expected) in [
        (after(90), "waiting on the retry queue for retry 2 until 2026-11-21T10:06:30.000Z (in 90 s)"),
        (after(3600), "parked for retry 2 until 2026-11-21T11:05:00.000Z (in 60 min)"),
        (
            now().minus(Duration::from_secs(3)),
            "on the retry queue for retry 2, due since 2026-11-21T10:04:57.000Z (3 s ago)",
        ),
    ] {
        assert_eq!(retry(at, &Waits::default()), expected);
        assert_eq!(retry_by(Some(HeldBy::Origin), at, &by_time), expected);
    }
    let settings = WaitSettings { sqs_max_delay: 2, bucket_secs: 1, ..WaitSettings::default() };
    let short = Waits { settings, ..by_time };
    assert!(retry(after(5), &short).starts_with("parked"));
}

#[test]
fn the_channel_says_who_accepted_it_and_after_its_lease_a_worker_has_ended() {
    for (channel, who) in [
        (Some(Channel::Webhook), "the webhook's receiver"),
        (Some(Channel::WebPush), "the push service"),
        (None, "the receiver"),
    ] {
        let place = of_entry(&entry(State::Sent), channel, &[], &Waits::default(), now());
        assert_eq!(place, format!("accepted by {who} 2026-11-21T10:05:00.000Z (0 s ago)"));
    }
    let over = Entry { lease_until: now(), ..entry(State::Sending) };
    assert!(place(&over, &[]).starts_with("its worker ended"));
}

#[test]
fn a_dead_letter_has_the_time_that_its_body_is_kept() {
    let mut letter = dead_letter("lineage-0", Reason::ServerError);
    let failed = entry(State::Failed);
    letter.body_until = Some(now().plus(Duration::from_secs(4 * 3600)));
    let kept = "dead letter: server_error; body kept until 2026-11-21T14:05:00.000Z (in 4 h)";
    assert_eq!(place(&failed, std::slice::from_ref(&letter)), kept);
    letter.body_until = Some(now());
    assert!(place(&failed, std::slice::from_ref(&letter)).ends_with("its body is no longer kept"));
    letter.key.letter = "lineage-1".to_owned();
    assert!(place(&failed, &[letter.clone()]).ends_with("on its way to the dead-letter store"));
    let long_ago = Entry { updated_at: now().minus(Duration::from_secs(3601)), ..failed };
    assert!(place(&long_ago, &[letter.clone()]).contains("not in the dead-letter store: it was purged"));
    assert_eq!(of_dead_letter(&letter, now()), "dead letter: server_error; its body is no longer kept");
}

#[test]
fn durations_are_in_their_largest_unit() {
    let seen = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|secs| rough(Duration::from_secs(secs)));
    assert_eq!(seen, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
}

#[test]
fn an_attempt_that_sent_nothing_names_what_failed() {
    let of = |reason: &str, failed: &str| {
        let text = format!(r#"{{"l":0,"n":1,"at":1000,"v":"retry","w":"{reason}"{failed}}}"#);
        past(&PastAttempt::from_text(&text).expect("valid"))
    };
    let made = "attempt 1 at 1970-01-01T00:00:01.000Z: no answer, retry";
    assert_eq!(of("not_sent", r#","f":"tls""#), format!("{made} (not_sent, tls)"));
    assert_eq!(of("retries_exhausted", r#","f":"dns""#), format!("{made} (retries_exhausted, dns)"));
    assert_eq!(of("not_sent", ""), format!("{made} (not_sent)"));
}

#[test]
fn every_failure_has_words_and_a_handshake_a_hint() {
    for failure in NotSent::ALL {
        assert!(not_sent(failure).starts_with(&format!("{}: ", failure.label())));
        let hint = hint(failure).unwrap_or_default();
        assert_eq!(hint.contains("--egress-ca"), failure == NotSent::Tls, "{hint}");
    }
}

#[test]
fn an_attempt_of_a_replay_names_the_replay() {
    assert_eq!(attempt(Turn { lineage: Lineage(1), attempt: Attempt(2) }), "2 (of replay 1)");
}

/// One with a description of one attempt, and without a body.
pub(crate) fn dead_letter(name: &str, reason: Reason) -> DeadLetter {
    let letter = name.to_owned();
    let key = DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter };
    let reference =
        Reference::new(&key, Kind::Failed, reason, Timestamp::default(), Timestamp::from_ms(5_000));
    let reference = Reference { attempts: 1, ..reference };
    let described = Some(Described { reference, replayed_at: None, kept_until: None });
    DeadLetter { key, described, body_until: None, lane: None }
}

#[test]
fn a_dead_letter_is_printed_with_the_fields_that_it_has() {
    let mut letter = dead_letter("lineage-0", Reason::RetriesExhausted);
    let (failed, at) = ("lineage-0: retries_exhausted", "at 1970-01-01T00:00:05.000Z");
    assert_eq!(dead_letter_in_words(&letter), format!("{failed}, 1 attempt, {at}"));
    let it = &mut letter.described.as_mut().expect("described").reference;
    (it.attempts, it.status, it.detail) = (6, Some(503), Some("busy".to_owned()));
    assert_eq!(dead_letter_in_words(&letter), format!("{failed} (busy), 6 attempts, last status 503, {at}"));
    letter.described = None;
    assert_eq!(dead_letter_in_words(&letter), "lineage-0");
}

#[test]
fn json_has_every_field_before_the_description_is_stored() {
    let mut letter = dead_letter("lineage-0", Reason::RetriesExhausted);
    letter.body_until = Some(Timestamp::from_ms(7_000));
    assert_eq!(
        dead_letter_to_json(&letter),
        json!({
            "letter": "lineage-0", "described": true, "kind": "failed", "reason": "retries_exhausted",
            "detail": null, "status": null, "attempts": 1, "at": "1970-01-01T00:00:05.000Z",
            "body_until": "1970-01-01T00:00:07.000Z",
        })
    );
    letter.described = None;
    let shown = dead_letter_to_json(&letter);
    let fields = ["described", "kind", "at", "body_until"].map(|field| shown.get(field).cloned());
    assert_eq!(json!(fields), json!([false, null, null, "1970-01-01T00:00:07.000Z"]));
}
