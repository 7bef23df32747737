//! Messages to webhooks: valid and invalid ones, and every name and character of a header.

use redial_core::webhook::MAX_BODY;
use serde_json::{Value, json};

use super::{Schema, assert_agreed, parser_accepts, policy, to, with};

pub(super) const RECIPIENTS: [&str; 4] = [
    r#"{"subscription":"s1"}"#,
    r#"{"web_push":{"endpoint":"https://push.example/x","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}}"#,
    r#"{"webhook":{"url":"https://a.example/hook"}}"#,
    r#"{"audience":{"tag":"news"}}"#,
];

/// Headers that no message sets.
const NEVER: &str = "
    connection content-encoding content-length cookie expect forwarded host keep-alive proxy-authenticate
    proxy-authorization proxy-connection te trailer transfer-encoding upgrade user-agent via
    webhook-id webhook-signature webhook-timestamp x-forwarded-for x-real-ip x-amz-date
";

/// Headers that a message to a URL may set.
const FREE: &str = "
    accept accept-language baggage content-type correlation-id request-id traceparent tracestate x-shop x-
";

/// Headers that a subscription has to permit.
const PERMITTED: &str = "authorization date idempotency-key set-cookie";

fn message(to: &str, rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{to},{rest}}}"#)
}

fn headers(to: &str, headers: &Value) -> String {
    message(to, &format!(r#""headers":{headers}"#))
}

pub(super) fn url(url: &str) -> String {
    to(&format!(r#"{{"webhook":{{"url":{}}}}}"#, Value::from(url)))
}

/// To a webhook, with a payload of this many bytes.
pub(super) fn with_payload(bytes: usize) -> String {
    message(RECIPIENTS[2], &format!(r#""payload":"{}""#, "x".repeat(bytes)))
}

fn many(count: usize) -> Value {
    (0..count).map(|n| (format!("x-{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
}

pub(super) fn good() -> Vec<String> {
    let [subscription, web_push, webhook, _audience] = RECIPIENTS;
    let mut good = vec![
        url("https://a.example"),
        url("HTTPS://a.example:8443/a?b=c#d"),
        url("https://10.0.0.1/"),
        url(&format!("https://a.example/{}", "a".repeat(2048 - 18))),
        message(web_push, r#""ttl":2419200"#),
        message(web_push, r#""acks":true"#),
        message(webhook, r#""acks":false"#),
        message(webhook, r#""ttl":31536000"#),
        message(subscription, r#""ttl":2419201"#),
        with_payload(MAX_BODY),
        headers(webhook, &json!({})),
        headers(subscription, &json!({})),
        headers(webhook, &many(20)),
        headers(webhook, &json!({"x-a": "v".repeat(1024)})),
        headers(webhook, &json!({"x-a": "a  b"})),
        headers(webhook, &json!({(format!("x-{}", "a".repeat(62))): "v"})),
        headers(subscription, &json!({"!#$%&'*+-.^_`|~Az09": "v"})),
        message(webhook, r#""retry":"wait-factor","event_type":"order.created""#),
    ];
    for (to, names) in [(webhook, FREE), (subscription, FREE), (subscription, PERMITTED)] {
        good.extend(names.split_whitespace().map(|name| headers(to, &json!({name: "v"}))));
    }
    good
}

pub(super) fn bad() -> Vec<String> {
    let [subscription, web_push, webhook, _audience] = RECIPIENTS;
    let mut bad = vec![
        to(r#"{"webhook":"https://a.example"}"#),
        to(r#"{"webhook":{"url":"https://a.example","secrets":[]}}"#),
        to(r#"{"webhook":{"url":"https://a.example"},"subscription":"s1"}"#),
        to(r#"{"webhook":{"url":"https://a.example"},"web_push":{}}"#),
        message(web_push, r#""ttl":2419201"#),
        message(webhook, r#""ttl":31536001"#),
        message(webhook, r#""acks":true"#),
        message(webhook, r#""notification":{"title":"T","navigate":"https://a.example/"}"#),
        message(subscription, r#""acks":null"#),
        message(subscription, r#""acks":"true""#),
        headers(webhook, &many(21)),
        headers(subscription, &many(21)),
        headers(webhook, &json!({"x-a": "v".repeat(1025)})),
        headers(webhook, &json!({(format!("x-{}", "a".repeat(63))): "v"})),
        headers(webhook, &json!({"": "v"})),
        headers(web_push, &json!({})),
        headers(web_push, &json!({"x-a": "v"})),
    ];
    bad.extend(["http://a.example", "a.example/x", "https://", "https://u@a.example"].map(url));
    bad.push(url(&format!("https://a.example/{}", "a".repeat(2048 - 17))));
    for (to, names) in [(webhook, NEVER), (subscription, NEVER), (webhook, PERMITTED)] {
        bad.extend(names.split_whitespace().map(|name| headers(to, &json!({name: "v"}))));
    }
    for to in [subscription, webhook] {
        bad.extend(["", " ", " v", "v ", "a\nb", "é"].map(|value| headers(to, &json!({"x-a": value}))));
        bad.extend([json!(1), json!(null), json!(["v"])].map(|value| headers(to, &json!({"x-a": value}))));
    }
    bad
}

/// A name as it may be written: in other cases, and as a part of another name.
fn spellings(name: &str) -> Vec<String> {
    let mixed = name.bytes().enumerate().map(|(n, b)| if n % 2 == 0 { b.to_ascii_uppercase() } else { b });
    let mixed = String::from_utf8(mixed.collect()).expect("ASCII");
    let parts = [format!("{name}x"), format!("x{name}"), format!("{name}-"), format!("x-{name}")];
    let cut = name[..name.len() - 1].to_owned();
    [vec![name.to_owned(), name.to_ascii_uppercase(), mixed, cut], parts.to_vec()].concat()
}

#[test]
fn both_agree_on_every_spelling_of_a_header_s_name() {
    let schema = Schema::published();
    let names = [NEVER, FREE, PERMITTED].into_iter().flat_map(str::split_whitespace);
    for name in names.flat_map(spellings) {
        for to in RECIPIENTS {
            assert_agreed(&schema, &headers(to, &json!({name.clone(): "v"})));
        }
    }
}

#[test]
fn both_agree_on_every_character_of_a_header() {
    let schema = Schema::published();
    for c in (0..=0x17F).filter_map(char::from_u32).chain(['\u{2003}', '\u{FEFF}', 'ſ', 'K']) {
        for to in RECIPIENTS {
            for name in [format!("{c}"), format!("x-{c}"), format!("x-{c}a"), format!("ho{c}t")] {
                assert_agreed(&schema, &headers(to, &json!({name: "v"})));
            }
            for value in [format!("{c}"), format!("a{c}"), format!("{c}a"), format!("a{c}a")] {
                assert_agreed(&schema, &headers(to, &json!({"x-a": value})));
            }
        }
    }
}

#[test]
fn both_agree_on_every_status_in_a_policy_s_lists() {
    let schema = Schema::published();
    for status in 0..=1000 {
        for list in ["retryable", "permanent"] {
            assert_agreed(&schema, &policy(&format!(r#""{list}":[{status}]"#)));
        }
    }
}

#[test]
fn a_longer_payload_is_refused_with_the_limit() {
    assert!(parser_accepts(&with_payload(MAX_BODY)));
    assert!(!parser_accepts(&with_payload(MAX_BODY + 1)));
    let base64 = "AAAA".repeat(MAX_BODY / 3 + 1);
    assert!(!parser_accepts(&with(&format!(r#""payload":{{"base64":"{base64}"}}"#))));
}
