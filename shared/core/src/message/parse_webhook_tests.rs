//! What a message to a webhook may say, and how everything else is refused.

use super::tests::{again, body_on, errors, message, parsed, sent, to_browser, to_url};
use super::*;
use crate::channel::Channel;
use crate::fixtures::to_subscription;
use crate::recipient::Recipient;

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
    let a_url = ".url: expected an https URL without userinfo, at most 2048 bytes";
    let long = format!(r#"{{"url":"https://hooks.example/{}"}}"#, "secret".repeat(400));
    for (webhook, expected, found) in [
        (r#"{"url":"http://secret.example/"}"#, a_url, "a string"),
        (r#"{"url":"https://secret:x@a.example/"}"#, a_url, "a string"),
        (r#"{"url":"secret.example"}"#, a_url, "a string"),
        (r#"{"url":"https://"}"#, a_url, "a string"),
        (&long, a_url, "a string"),
        (r#"{"url":7}"#, a_url, "an integer"),
        ("{}", a_url, "nothing"),
        (r#""https://secret.example""#, ": expected a JSON object", "a string"),
        (r#"{"url":"https://a.example","secret":"secret"}"#, ".secret: expected no such field", "a string"),
    ] {
        let body = format!(r#"{{"tenant":"acme","to":{{"webhook":{webhook}}}}}"#);
        assert_eq!(errors(&body), [format!("to.webhook{expected}, found {found}")]);
    }
}

#[test]
fn an_address_takes_free_headers_and_a_subscription_any_valid_one() {
    let free = r#","headers":{"X-Shop":"7","Content-Type":"text/csv","traceparent":"00-1"}"#;
    let written = [("x-shop", "7"), ("content-type", "text/csv"), ("traceparent", "00-1")];
    let token = r#","headers":{"Authorization":"Bearer secret"}"#;
    for (body, expected) in [
        (to_url(free), &written[..]),
        (to_subscription(free), &written),
        (to_subscription(token), &[("authorization", "Bearer secret")]),
        (to_url(r#","headers":{}"#), &[]),
        (to_subscription(r#","headers":{}"#), &[]),
        (to_url(""), &[]),
    ] {
        let headers = message(&body).headers;
        let read: Vec<_> = headers.expose().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(read, expected, "{body}");
    }
}

#[test]
fn forbidden_headers_are_named_and_no_value_is_shown() {
    let another_name = "another name: no part of HTTP itself or of the signature, and each once";
    let many: Vec<String> = (0..21).map(|n| format!(r#""x-{n}":"v""#)).collect();
    let many = format!("{{{}}}", many.join(","));
    for (headers, path, expected, found) in [
        (r#"{"Host":"secret"}"#, ".Host", another_name, "an object"),
        (r#"{"webhook-id":"secret"}"#, ".webhook-id", another_name, "an object"),
        (r#"{"x-a":"secret","X-A":"secret"}"#, ".X-A", another_name, "an object"),
        (
            r#"{"x-a":"secret\r\nx-b: secret"}"#,
            ".x-a",
            "1 to 1024 visible ASCII characters and spaces",
            "an object",
        ),
        (r#"{"x-a":7}"#, ".x-a", "a string", "an integer"),
        (r#"["x-a"]"#, "", "a JSON object", "an array"),
        ("null", "", "a JSON object", "null"),
        (&many, ".x-20", "at most 20 headers", "an object"),
    ] {
        for to in [to_url, to_subscription] {
            let error = format!("headers{path}: expected {expected}, found {found}");
            assert_eq!(errors(&to(&format!(r#","headers":{headers}"#))), [error]);
        }
    }
    let free =
        "headers: expected names that any message may set: x-…, content-type, traceparent and the like";
    let found = errors(&to_url(r#","headers":{"Authorization":"Bearer secret"}"#));
    assert_eq!(found, [format!("{free}, found an object")]);
    for headers in [r#"{"x-a":"1"}"#, "{}", "7"] {
        let found = errors(&to_browser(&format!(r#","headers":{headers}"#)));
        let none = "headers: expected nothing: a web push has no custom headers";
        assert!(found[0].starts_with(none), "{headers}: {found:?}");
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
fn headers_travel_and_are_checked_again() {
    let first = message(&to_subscription(r#","headers":{"X-Shop":"7","Authorization":"Bearer t"}"#));
    let body = body_on(Channel::Webhook, &first, &Travel::start(sent()));
    assert_eq!(again(&body).headers, first.headers);
    let forged = body.replace("X-Shop", "webhook-signature");
    assert!(parsed(&forged, QueueKind::Retry).is_err());
}

#[test]
fn only_a_message_that_may_go_to_a_browser_has_acks() {
    let (yes, no) = (r#","acks":true"#, r#","acks":false"#);
    for (body, acks) in [
        (to_browser(yes), true),
        (to_subscription(yes), true),
        (to_browser(no), false),
        (to_subscription(no), false),
        (to_url(no), false),
        (to_browser(""), false),
        (to_url(""), false),
    ] {
        assert_eq!(message(&body).acks, acks, "{body}");
    }
    let never = "false or nothing: a webhook's receiver acknowledges by its response, found a boolean";
    assert_eq!(errors(&to_url(yes)), [format!("acks: expected {never}")]);
    for value in ["null", "1", "\"true\""] {
        let found = errors(&to_subscription(&format!(r#","acks":{value}"#)));
        assert!(found[0].starts_with("acks: expected true or false, found "), "{found:?}");
    }
}
