use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

use super::*;
use crate::channel::Channel;
use crate::fixtures::{AUTH, P256DH, as_message, hash_keys, texts, time, to_subscription};
use crate::identity::{Attempt, Lineage, Turn};
use crate::shape::raw_fields;

pub(super) fn sent() -> Timestamp {
    time("2026-11-21T10:05:00Z")
}

pub(super) fn parsed(body: &str, kind: QueueKind) -> Result<(Message, Travel), Refusal> {
    parse(body, kind, "0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11", sent()).map(as_message)
}

pub(super) fn to_url(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"webhook":{{"url":"https://hooks.example/a?b=c"}}}}{rest}}}"#)
}

pub(super) fn to_browser(rest: &str) -> String {
    let keys = format!(r#"{{"p256dh":"{P256DH}","auth":"{AUTH}"}}"#);
    let web_push = format!(r#"{{"endpoint":"https://push.example/x","expirationTime":null,"keys":{keys}}}"#);
    format!(r#"{{"tenant":"acme","to":{{"web_push":{web_push}}}{rest}}}"#)
}

pub(super) fn message(body: &str) -> Message {
    parsed(body, QueueKind::Ingest).expect("valid").0
}

pub(super) fn errors(body: &str) -> Vec<String> {
    texts(&parsed(body, QueueKind::Ingest).expect_err("refused").errors)
}

/// The body in which a message travels on.
pub(super) fn body_on(channel: Channel, message: &Message, travel: &Travel) -> String {
    message.expose_travel_body(travel, message.deadline(channel, travel.first_sent), sent())
}

/// As it arrives by a retry queue after it travelled.
pub(super) fn again(body: &str) -> Message {
    parsed(body, QueueKind::Retry).expect("valid").0
}

#[test]
fn a_browser_s_subscription_is_accepted_unchanged() {
    let message = message(&to_browser(r#","payload":"hello""#));
    let To::WebPush(target) = &message.to else { panic!("a browser") };
    assert_eq!(target.endpoint.origin().as_str(), "https://push.example");
    assert_eq!(message.payload.expose(), b"hello");
}

#[test]
fn payloads_travel_unchanged_with_the_media_type_of_how_they_are_written() {
    for (written, bytes, media) in [
        (r#""héllo\n""#, "héllo\n".as_bytes(), "text/plain; charset=utf-8"),
        (r#"{"base64":"AP8="}"#, &[0, 255], "application/octet-stream"),
        ("null", b"", "application/octet-stream"),
        (r#"{ "a" : 1.0,  "b":[ 1e2 ] }"#, br#"{ "a" : 1.0,  "b":[ 1e2 ] }"#, "application/json"),
        ("12345678901234567890123", b"12345678901234567890123", "application/json"),
        (r#"{"base64":"AP8=","more":1}"#, br#"{"base64":"AP8=","more":1}"#, "application/json"),
        ("true", b"true", "application/json"),
        ("[]", b"[]", "application/json"),
    ] {
        for (to, channel) in
            [(to_subscription as fn(&str) -> String, Channel::WebPush), (to_url, Channel::Webhook)]
        {
            let message = message(&to(&format!(r#","payload":{written}"#)));
            assert_eq!(message.payload.expose(), bytes, "{written}");
            assert_eq!(message.payload.media().content_type(), media, "{written}");
            let body = body_on(channel, &message, &Travel::start(sent()));
            assert_eq!(again(&body).payload, message.payload, "{written}");
            let fields = raw_fields(&body).expect("an object");
            assert!(fields.iter().any(|(name, raw)| name == "payload" && raw.get() == written), "{body}");
        }
    }
    assert!(message(&to_subscription("")).payload.is_empty());
}

#[test]
fn the_idempotency_key_precedes_the_id_and_both_the_message_id() {
    for (rest, id, source) in [
        (
            r#","id":"mine","idempotency_key":"k""#,
            DeliveryId::from_idempotency_key("k").as_str(),
            IdSource::IdempotencyKey,
        ),
        (r#","id":"mine""#, "mine", IdSource::Producer),
        ("", "0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11", IdSource::SqsMessageId),
    ] {
        let message = message(&to_subscription(rest));
        assert_eq!((message.id.as_str(), message.id_source), (id, source), "{rest}");
    }
}

#[test]
fn a_travelling_message_keeps_its_id_and_its_turn() {
    let first = message(&to_subscription(""));
    let travel = Travel {
        not_before: Some(Timestamp::from_secs(1_800_000_000)),
        deferred_from: Some("0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11".to_owned()),
        receives: 15,
        ..Travel::to(Turn { lineage: Lineage(2), attempt: Attempt(3) }, sent())
    };
    let body = body_on(Channel::WebPush, &first, &travel);
    let (again, seen) = parsed(&body, QueueKind::Retry).expect("valid");
    assert_eq!((&again.id, &seen), (&first.id, &travel));
    assert_eq!(body_on(Channel::WebPush, &again, &travel), body, "another round adds nothing");
}

#[test]
fn ttl_comes_from_the_class_unless_the_message_has_one() {
    for (rest, secs) in [
        ("", 14_400),
        (r#","class":"otp""#, 60),
        (r#","class":"campaign""#, 86_400),
        (r#","class":"otp","ttl":0"#, 0),
        (r#","ttl":2419200"#, 2_419_200),
        (r#","ttl":31536000"#, 2_419_200),
    ] {
        assert_eq!(message(&to_subscription(rest)).ttl_on(Channel::WebPush).as_secs(), secs, "{rest}");
    }
}

#[test]
fn the_ttl_starts_at_deliver_at_if_that_is_later() {
    for (deliver_at, deadline) in
        [("2026-11-21T11:00:00Z", "2026-11-21T11:01:00Z"), ("2026-11-21T09:00:00Z", "2026-11-21T10:06:00Z")]
    {
        let message = message(&to_subscription(&format!(r#","ttl":60,"deliver_at":"{deliver_at}""#)));
        assert_eq!(message.deadline(Channel::WebPush, sent()).at(), time(deadline));
    }
}

#[test]
fn a_time_that_was_360_days_ahead_by_another_clock_is_accepted() {
    let body = |ahead: u64| {
        let time = sent().plus(MAX_WAIT).plus(Duration::from_secs(ahead)).to_rfc3339();
        to_subscription(&format!(r#","deliver_at":"{time}""#))
    };
    for ahead in [0, 2, 86_400] {
        assert!(parsed(&body(ahead), QueueKind::Ingest).is_ok(), "{ahead}");
    }
    let expected = "deliver_at: expected an RFC 3339 time at most 360 days ahead, found a string";
    assert_eq!(errors(&body(86_401)), [expected]);
}

#[test]
fn every_invalid_field_is_named_and_no_value_is_shown() {
    let body = r#"{"v":2,"tenant":"Acme","to":{"web_push":{"endpoint":"http://secret.example/secret",
        "keys":{"p256dh":"secret","auth":"secret"}}},"ttl":-1,"class":"secret","urgency":"secret","topic":"a",
        "id":"a b","ref":7,"retry":"secret","deliver_at":"secret","colour":"secret"}"#;
    let found = errors(body);
    let at_top = "v tenant ttl class urgency topic id ref retry deliver_at colour";
    for path in at_top.split(' ').chain(["to.web_push.endpoint", "to.web_push.keys.p256dh"]) {
        assert!(found.iter().any(|error| error.starts_with(&format!("{path}: "))), "{path}: {found:?}");
    }
    assert!(!found.concat().contains("secret"), "{found:?}");
}

#[test]
fn to_has_exactly_one_recipient() {
    for (to, expected) in [
        (r#","to":{}"#, "one of"),
        (r#","to":{"subscription":"a","web_push":{}}"#, "one of"),
        (r#","to":{"webhook":{"url":"https://a.example"},"subscription":"s1"}"#, "one of"),
        ("", "one of"),
        (r#","to":"x""#, "a JSON object"),
    ] {
        let found = errors(&format!(r#"{{"tenant":"acme"{to}}}"#));
        assert!(found[0].starts_with(&format!("to: expected {expected}")), "{to}: {found:?}");
    }
}

#[test]
fn what_redial_itself_writes_is_accepted_on_a_retry_queue_alone() {
    let release = r#"{"release":"w60-transactional-20261121T100500Z"}"#;
    assert!(matches!(parse(release, QueueKind::Retry, "m", sent()), Ok(Inbound::Release(_))));
    assert!(parse(release, QueueKind::Ingest, "m", sent()).is_err());
    let refused = errors(&to_subscription(r#","retry_count":3"#));
    assert_eq!(refused, ["retry_count: expected no such field, found an integer"]);
}

#[test]
fn a_fingerprint_depends_on_the_recipient_and_the_payload_and_not_on_the_ttl() {
    let print = |body: &str| message(body).fingerprint(&hash_keys());
    let (a, url) = (r#","payload":"a""#, to_url(r#","payload":"a""#));
    assert_eq!(print(&to_subscription(a)), print(&to_subscription(r#","payload":"a","ttl":5"#)));
    assert_eq!(print(&url), print(&url));
    for other in [to_subscription(r#","payload":"b""#), url.clone(), url.replace("b=c", "b=d")] {
        assert_ne!(print(&other), print(&to_subscription(a)), "{other}");
    }
    assert_ne!(print(&url), print(&url.replace("b=c", "b=d")));
}

/// Valid messages of which one character is removed, doubled or replaced. A share of them still parses, so that what comes after the
/// first check is reached, too.
#[test]
fn no_mutated_message_causes_a_panic() {
    let valid = [
        to_subscription(r#","payload":"hello","ttl":3600,"class":"otp","ref":"order 17","v":1"#),
        to_subscription(
            r#","retry":{"retry_delays":[5,30],"jitter":"none"},"deliver_at":"2026-11-21T11:05:00Z""#,
        ),
        to_subscription(
            r#","payload":{"base64":"AP8="},"urgency":"high","topic":"news","event_type":"order.created""#,
        ),
        to_url(r#","headers":{"x-shop":"7"}"#),
        to_browser(""),
    ];
    let parsed = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2_000));
    let mutation = (select(valid.to_vec()), any::<Index>(), 0..3, any::<char>(), any::<bool>());
    let run = runner.run(&mutation, |(mut body, at, change, character, digit)| {
        let at = at.index(body.len());
        let character = if digit { '7' } else { character };
        let same = body[at..=at].to_owned();
        match change {
            0 => body.replace_range(at..=at, ""),
            1 => body.insert_str(at, &same),
            _ => body.replace_range(at..=at, &character.to_string()),
        }
        for kind in [QueueKind::Ingest, QueueKind::Retry] {
            parsed.set(parsed.get() + u32::from(parse(&body, kind, "m", sent()).is_ok()));
        }
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    assert!(parsed.get() > 200, "only {} of 4000 were parsed", parsed.get());
}
