//! What a message to a webhook may say, and how everything else is refused.

use super::tests::{body_on, errors, message, parsed, print, sent};
use super::*;
use crate::channel::Channel;
use crate::fixtures::{AUTH, P256DH, to_subscription};
use crate::recipient::Recipient;

fn to_url(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"webhook":{{"url":"https://hooks.example/a?b=c"}}}}{rest}}}"#)
}

fn to_browser(rest: &str) -> String {
    let keys = format!(r#"{{"p256dh":"{P256DH}","auth":"{AUTH}"}}"#);
    let web_push = format!(r#"{{"endpoint":"https://push.example/x","keys":{keys}}}"#);
    format!(r#"{{"tenant":"acme","to":{{"web_push":{web_push}}}{rest}}}"#)
}

#[test]
fn a_webhook_needs_an_address_alone() {
    let read = message(&to_url(r#","payload":{"a":1},"event_type":"order.created""#));
    let Some(Recipient::Webhook(target)) = read.to.recipient() else { panic!("a webhook") };
    assert_eq!(target.endpoint.expose().as_str(), "https://hooks.example/a?b=c");
    assert!(target.secrets.at(sent()).is_empty() && target.headers.is_empty());
    assert_eq!(read.to.subscription(), None);
}

#[test]
fn an_invalid_url_is_an_error_that_does_not_show_it() {
    let long = format!(r#"{{"url":"https://hooks.example/{}"}}"#, "secret".repeat(400));
    let a_url = ".url: expected an https URL without userinfo, at most 2048 bytes";
    for (webhook, error) in [
        (r#"{"url":"http://secret.example/"}"#, format!("{a_url}, found a string")),
        (r#"{"url":"https://secret:x@a.example/"}"#, format!("{a_url}, found a string")),
        (r#"{"url":"secret.example"}"#, format!("{a_url}, found a string")),
        (r#"{"url":"https://"}"#, format!("{a_url}, found a string")),
        (&long, format!("{a_url}, found a string")),
        (r#"{"url":7}"#, format!("{a_url}, found an integer")),
        ("{}", format!("{a_url}, found nothing")),
        (r#""https://secret.example""#, ": expected a JSON object, found a string".to_owned()),
        (
            r#"{"url":"https://a.example","secret":"secret"}"#,
            ".secret: expected no such field, found a string".to_owned(),
        ),
    ] {
        let body = format!(r#"{{"tenant":"acme","to":{{"webhook":{webhook}}}}}"#);
        assert_eq!(errors(&body), [format!("to.webhook{error}")]);
    }
}

#[test]
fn a_webhook_and_another_recipient_are_refused() {
    let found =
        errors(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"},"subscription":"s1"}}"#);
    assert!(found[0].starts_with("to: expected one of"), "{found:?}");
}

#[test]
fn an_address_takes_free_headers_and_a_subscription_any_valid_one() {
    let of = |body: String| message(&body).headers;
    let free = r#","headers":{"X-Shop":"7","Content-Type":"text/csv","traceparent":"00-1"}"#;
    let written = [("x-shop", "7"), ("content-type", "text/csv"), ("traceparent", "00-1")];
    for body in [to_url(free), to_subscription(free)] {
        let headers = of(body);
        let read: Vec<_> = headers.expose().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(read, written);
    }

    let token = r#","headers":{"Authorization":"Bearer secret"}"#;
    assert_eq!(of(to_subscription(token)).get("authorization"), Some("Bearer secret"));
    assert_eq!(
        errors(&to_url(token)),
        ["headers: expected names that any message may set: x-…, content-type, traceparent and the like, \
          found an object"]
    );
    for body in [to_url(r#","headers":{}"#), to_subscription(r#","headers":{}"#), to_url("")] {
        assert!(of(body).is_empty());
    }
}

#[test]
fn forbidden_headers_are_named_and_no_value_is_shown() {
    let another_name =
        ": expected another name: no part of HTTP itself or of the signature, and each once, found an object";
    for (headers, error) in [
        (r#"{"Host":"secret"}"#, format!(".Host{another_name}")),
        (r#"{"webhook-id":"secret"}"#, format!(".webhook-id{another_name}")),
        (r#"{"x-a":"secret","X-A":"secret"}"#, format!(".X-A{another_name}")),
        (
            r#"{"x-a":"secret\r\nx-b: secret"}"#,
            ".x-a: expected 1 to 1024 visible ASCII characters and spaces, found an object".to_owned(),
        ),
        (r#"{"x-a":7}"#, ".x-a: expected a string, found an integer".to_owned()),
        (r#"["x-a"]"#, ": expected an object of names and values, found an array".to_owned()),
        ("null", ": expected an object of names and values, found null".to_owned()),
    ] {
        for to in [to_url, to_subscription] {
            assert_eq!(errors(&to(&format!(r#","headers":{headers}"#))), [format!("headers{error}")]);
        }
    }
    let many: Vec<String> = (0..21).map(|n| format!(r#""x-{n}":"v""#)).collect();
    let found = errors(&to_url(&format!(r#","headers":{{{}}}"#, many.join(","))));
    assert_eq!(found, ["headers.x-20: expected at most 20 headers, found an object"]);
}

#[test]
fn a_web_push_has_no_custom_headers() {
    for headers in [r#"{"x-a":"1"}"#, "{}", "7"] {
        let found = errors(&to_browser(&format!(r#","headers":{headers}"#)));
        assert!(
            found[0].starts_with("headers: expected nothing: a web push has no custom headers"),
            "{headers}: {found:?}"
        );
    }
}

#[test]
fn a_ttl_is_at_most_a_year_and_a_web_push_s_28_days() {
    for (to, most, limit) in [
        (to_url as fn(&str) -> String, 31_536_000, "31536000 (a year)"),
        (to_subscription, 31_536_000, "31536000 (a year)"),
        (to_browser, 2_419_200, "2419200 (28 days)"),
    ] {
        let ttl = |secs: i64| to(&format!(r#","ttl":{secs}"#));
        for secs in [0, 1, most] {
            assert_eq!(message(&ttl(secs)).ttl.map(|ttl| i64::from(ttl.as_secs())), Some(secs));
        }
        for secs in [-1, most + 1, i64::from(u32::MAX), i64::from(u32::MAX) + 1] {
            let expected = format!("ttl: expected whole seconds from 0 to {limit}, found an integer");
            assert_eq!(errors(&ttl(secs)), [expected]);
        }
    }
}

#[test]
fn a_webhook_has_no_default_ttl() {
    for class in ["otp", "alert", "campaign"] {
        let read = message(&to_url(&format!(r#","class":"{class}""#)));
        assert_eq!((read.ttl, read.ttl_on(Channel::Webhook)), (None, Ttl::UNLIMITED));
        let deadline = read.deadline(Channel::Webhook, sent());
        assert!(!deadline.is_limited() && !deadline.is_over(sent().plus(MAX_WAIT * 100), 7));
        let body = body_on(Channel::Webhook, &read, &Travel::start(sent()));
        assert!(!body.contains("ttl_remaining"), "{body}");
    }
    let given = message(&to_url(r#","ttl":60"#));
    let body = body_on(Channel::Webhook, &given, &Travel::start(sent()));
    assert!(body.contains(r#""ttl_remaining":60"#), "{body}");
}

#[test]
fn a_payload_is_at_most_256_kib_and_the_limit_is_named() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let text = |bytes: usize| format!(r#","payload":"{}""#, "x".repeat(bytes));
    let base64 = |bytes: usize| format!(r#","payload":{{"base64":"{}"}}"#, STANDARD.encode(vec![7; bytes]));
    let json = |bytes: usize| format!(r#","payload":["{}"]"#, "x".repeat(bytes - 4));
    for to in [to_url as fn(&str) -> String, to_subscription, to_browser] {
        for written in [&text as &dyn Fn(usize) -> String, &base64, &json] {
            assert_eq!(message(&to(&written(262_144))).payload.len(), 262_144);
            let found = errors(&to(&written(262_145)));
            assert_eq!(found, ["payload: expected at most 262144 bytes, found 262145 bytes"]);
        }
    }
}

#[test]
fn a_payload_s_media_type_follows_from_how_it_is_written() {
    for (written, media, content_type) in [
        (r#""text""#, Media::Text, "text/plain; charset=utf-8"),
        (r#"{"a":1}"#, Media::Json, "application/json"),
        ("[]", Media::Json, "application/json"),
        ("7", Media::Json, "application/json"),
        ("false", Media::Json, "application/json"),
        (r#"{"base64":"AP8=","more":1}"#, Media::Json, "application/json"),
        (r#"{"base64":"AP8="}"#, Media::Bytes, "application/octet-stream"),
    ] {
        let first = message(&to_url(&format!(r#","payload":{written}"#)));
        assert_eq!((first.payload.media(), media.content_type()), (media, content_type), "{written}");
        let body = body_on(Channel::Webhook, &first, &Travel::start(sent()));
        let again = parsed(&body, QueueKind::Retry).expect("valid").0;
        assert_eq!(again.payload, first.payload, "{written}");
    }
    assert!(message(&to_url(r#","payload":null"#)).payload.is_empty());
}

#[test]
fn headers_travel_and_are_checked_again() {
    let first = message(&to_subscription(r#","headers":{"X-Shop":"7","Authorization":"Bearer t"}"#));
    let body = body_on(Channel::Webhook, &first, &Travel::start(sent()));
    assert_eq!(parsed(&body, QueueKind::Retry).expect("valid").0.headers, first.headers);
    let forged = body.replace("X-Shop", "webhook-signature");
    assert!(parsed(&forged, QueueKind::Retry).is_err());
}

#[test]
fn webhooks_to_different_addresses_have_different_fingerprints() {
    let one = to_url(r#","payload":"a""#);
    assert_eq!(print(&one), print(&one));
    assert_ne!(print(&one), print(&one.replace("b=c", "b=d")));
    assert_ne!(print(&one), print(&to_subscription(r#","payload":"a""#)));
}

#[test]
fn only_a_message_that_may_go_to_a_browser_has_acks() {
    let acks = |body: String| message(&body).acks;
    let (yes, no) = (r#","acks":true"#, r#","acks":false"#);
    assert!(acks(to_browser(yes)) && acks(to_subscription(yes)));
    for body in [to_browser(no), to_subscription(no), to_url(no), to_browser(""), to_url("")] {
        assert!(!acks(body));
    }
    assert_eq!(
        errors(&to_url(yes)),
        [
            "acks: expected false or nothing: a webhook's receiver acknowledges by its response, found a boolean"
        ]
    );
    for value in ["null", "1", "\"true\""] {
        let found = errors(&to_subscription(&format!(r#","acks":{value}"#)));
        assert!(found[0].starts_with("acks: expected true or false, found "), "{found:?}");
    }
}
