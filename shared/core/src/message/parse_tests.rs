use super::*;
use crate::channel::Channel;
use crate::identity::{Attempt, Lineage, Turn};
use crate::shape::raw_fields;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

pub(super) fn sent() -> Timestamp {
    Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
}

pub(super) fn read(body: &str, kind: QueueKind) -> Result<(Message, Travel), Refusal> {
    match parse(body, kind, "0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11", sent())? {
        Inbound::Message(message, travel) => Ok((*message, travel)),
        Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..) => panic!("a message"),
    }
}

pub(super) fn message(body: &str) -> Message {
    read(body, QueueKind::Ingest).expect("valid").0
}

pub(super) fn errors(body: &str) -> Vec<String> {
    let refusal = read(body, QueueKind::Ingest).expect_err("refused");
    refusal.errors.iter().map(ToString::to_string).collect()
}

pub(super) fn to_subscription(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#)
}

/// The body in which a message travels on, if it is for a browser.
fn travelling(message: &Message, travel: &Travel) -> String {
    message.expose_travel_body(travel, message.deadline(Channel::WebPush, travel.first_sent), sent())
}

#[test]
fn a_browser_s_subscription_is_taken_as_it_is() {
    let body = format!(
        r#"{{"tenant":"acme","to":{{"web_push":{{"endpoint":"https://push.example/x","expirationTime":null,"keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}}},"payload":"hello"}}"#
    );
    let message = message(&body);
    assert!(
        matches!(&message.to, To::WebPush(target) if target.endpoint.origin().as_str() == "https://push.example")
    );
    assert_eq!(message.payload.expose(), b"hello");
}

#[test]
fn payloads_travel_as_they_are_written() {
    for (written, bytes) in [
        (r#""héllo\n""#, "héllo\n".as_bytes()),
        (r#"{"base64":"AP8="}"#, &[0, 255]),
        ("null", b""),
        (r#"{ "a" : 1.0,  "b":[ 1e2 ] }"#, br#"{ "a" : 1.0,  "b":[ 1e2 ] }"#),
        ("12345678901234567890123", b"12345678901234567890123"),
        (r#"{"base64":"AP8=","more":1}"#, br#"{"base64":"AP8=","more":1}"#),
        ("true", b"true"),
    ] {
        let message = message(&to_subscription(&format!(r#","payload":{written}"#)));
        assert_eq!(message.payload.expose(), bytes, "{written}");

        let travel = Travel::start(sent());
        let body = travelling(&message, &travel);
        let again = read(&body, QueueKind::Retry).expect("valid").0;
        assert_eq!(again.payload, message.payload, "{written}");
        let fields = raw_fields(&body).expect("an object");
        assert!(fields.iter().any(|(name, raw)| name == "payload" && raw.get() == written), "{body}");
    }
    assert!(message(&to_subscription("")).payload.is_empty());
}

#[test]
fn the_idempotency_key_wins_over_the_id_and_both_over_the_message_id() {
    let both = message(&to_subscription(r#","id":"mine","idempotency_key":"k""#));
    assert_eq!((both.id, both.id_source), (DeliveryId::from_idempotency_key("k"), IdSource::IdempotencyKey));
    let id = message(&to_subscription(r#","id":"mine""#));
    assert_eq!((id.id.as_str(), id.id_source), ("mine", IdSource::Producer));
    let none = message(&to_subscription(""));
    assert_eq!(none.id.as_str(), "0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11");
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
    let body = travelling(&first, &travel);
    let (again, seen) = read(&body, QueueKind::Retry).expect("valid");
    assert_eq!((again.id, seen), (first.id, travel.clone()));
    let twice = travelling(&read(&body, QueueKind::Retry).expect("valid").0, &travel);
    assert_eq!(twice, body, "going round again adds nothing");
}

#[test]
fn a_producer_may_not_write_travelling_fields() {
    let refused = errors(&to_subscription(r#","retry_count":3"#));
    assert_eq!(refused, ["retry_count: expected no such field, found an integer"]);
}

#[test]
fn ttl_comes_from_the_class_unless_the_message_has_one() {
    for (rest, secs) in [
        ("", 14_400),
        (r#","class":"otp""#, 60),
        (r#","class":"campaign""#, 86_400),
        (r#","class":"otp","ttl":0"#, 0),
        (r#","ttl":2419200"#, 2_419_200),
    ] {
        assert_eq!(message(&to_subscription(rest)).ttl_on(Channel::WebPush).as_secs(), secs, "{rest}");
    }
}

#[test]
fn the_ttl_s_clock_starts_at_deliver_at_if_that_is_later() {
    let later = message(&to_subscription(r#","ttl":60,"deliver_at":"2026-11-21T11:00:00Z""#));
    assert_eq!(
        later.deadline(Channel::WebPush, sent()).at(),
        Timestamp::parse_rfc3339("2026-11-21T11:01:00Z").expect("valid")
    );
    let past = message(&to_subscription(r#","ttl":60,"deliver_at":"2026-11-21T09:00:00Z""#));
    assert_eq!(
        past.deadline(Channel::WebPush, sent()).at(),
        Timestamp::parse_rfc3339("2026-11-21T10:06:00Z").expect("valid")
    );
}

#[test]
fn every_wrong_field_is_named_and_no_value_shown() {
    let body = r#"{"v":2,"tenant":"Acme","to":{"web_push":{"endpoint":"http://secret.example/secret",
        "keys":{"p256dh":"secret","auth":"secret"}}},"ttl":-1,"class":"secret","urgency":"secret","topic":"a",
        "id":"a b","ref":7,"retry":"secret","deliver_at":"secret","colour":"secret"}"#;
    let found = errors(body);
    for path in [
        "v",
        "tenant",
        "to.web_push.endpoint",
        "to.web_push.keys.p256dh",
        "ttl",
        "class",
        "urgency",
        "topic",
        "id",
        "ref",
        "retry",
        "deliver_at",
        "colour",
    ] {
        assert!(found.iter().any(|error| error.starts_with(&format!("{path}: "))), "{path}: {found:?}");
    }
    assert!(!found.concat().contains("secret"), "{found:?}");
}

#[test]
fn to_is_exactly_one_recipient() {
    for to in ["{}", r#"{"subscription":"a","web_push":{}}"#] {
        let found = errors(&format!(r#"{{"tenant":"acme","to":{to}}}"#));
        assert!(found[0].starts_with("to: expected one of"), "{found:?}");
    }
    assert!(errors(r#"{"tenant":"acme"}"#)[0].starts_with("to: expected one of"));
    assert!(errors(r#"{"tenant":"acme","to":"x"}"#)[0].starts_with("to: expected a JSON object"));
}

#[test]
fn a_release_is_one_on_a_retry_queue_only() {
    let body = r#"{"release":"w60-transactional-20261121T100500Z"}"#;
    assert!(matches!(parse(body, QueueKind::Retry, "m", sent()), Ok(Inbound::Release(_))));
    assert!(parse(body, QueueKind::Ingest, "m", sent()).is_err());
}

#[test]
fn the_same_content_has_the_same_fingerprint_and_another_payload_has_not() {
    let keys = crate::endpoint::HashKeys::parse("k1:0123456789abcdef").expect("valid");
    let print = |rest: &str| message(&to_subscription(rest)).fingerprint(&keys);
    assert_eq!(print(r#","payload":"a""#), print(r#","payload":"a","ttl":5"#));
    assert_ne!(print(r#","payload":"a""#), print(r#","payload":"b""#));
}

#[test]
fn whatever_comes_in_nothing_panics() {
    proptest::proptest!(|(body in ".{0,200}")| {
        let _ = parse(&body, QueueKind::Retry, &body, sent());
    });
    proptest::proptest!(|(value in proptest::sample::select(vec!["null", "1", "-1.5", "[]", "{}", "\"\"", "true"]),
        field in proptest::sample::select(vec!["v", "tenant", "to", "payload", "id", "idempotency_key", "ref", "ttl",
            "class", "urgency", "topic", "retry", "headers", "deliver_at", "event_type"]))| {
        let body = format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}},"{field}":{value}}}"#);
        let _ = parse(&body, QueueKind::Ingest, "m", sent());
    });
}
