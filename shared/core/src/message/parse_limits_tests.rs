//! What bounds the work that a body can cause, and the length of its refusal.

use super::tests::{errors, message, parsed, sent, to_url};
use super::*;
use crate::channel::Channel;
use crate::endpoint::EndpointHash;
use crate::fixtures::{self, to_subscription};
use crate::identity::{Attempt, Lineage, Turn};
use crate::ledger::{Record, State, Unrecorded};
use crate::message::{MOST_BYTES, MOST_BYTES_TO_AUDIENCE};
use crate::outcome::NotSent;
use crate::shape::{MOST_ERRORS, MOST_FIELDS};

/// SendMessage's own limit (API reference).
const SQS_MAX_BYTES: usize = 1_048_576;

/// `n` fields of their own names, as they stand within an object.
fn fields(n: usize) -> String {
    (0..n).map(|at| format!(r#""f{at}":0"#)).collect::<Vec<_>>().join(",")
}

#[test]
fn reading_stops_at_the_257th_field_with_one_error() {
    let top = format!("{{{}}}", fields(MOST_FIELDS + 1));
    let many = format!("{{{}}}", fields(40_000));
    // The rest is not read: it need not even be JSON.
    let cut = format!("{{{},\"one more\":0, no JSON", fields(MOST_FIELDS));
    for (body, path) in [
        (top.as_str(), "(the whole text)"),
        (&many, "(the whole text)"),
        (&cut, "(the whole text)"),
        (&format!(r#"{{"tenant":"acme","to":{top}}}"#), "to"),
        (&to_url(&format!(r#","headers":{top}"#)), "headers"),
    ] {
        assert_eq!(errors(body), [format!("{path}: expected at most 256 fields, found more")]);
    }
}

#[test]
fn a_payload_s_fields_and_the_space_between_fields_do_not_count() {
    let payload = format!("{{{}}}", fields(10_000));
    let whole = message(&to_subscription(&format!(r#","payload":{payload}"#)));
    assert_eq!(whole.payload.expose(), payload.as_bytes());
    let spaced = to_subscription(&format!(r#", {} "payload":1"#, " ".repeat(1_048_000)));
    assert!(spaced.len() > MOST_BYTES);
    message(&spaced);
}

#[test]
fn a_refusal_has_at_most_32_errors_and_is_short() {
    let long = "é".repeat(1_000);
    let unknown = (0..200).map(|at| format!(r#""{at}{long}":0"#)).collect::<Vec<_>>().join(",");
    let refusal = parsed(&format!("{{{unknown}}}"), QueueKind::Ingest).expect_err("refused");
    assert_eq!(refusal.errors.len(), MOST_ERRORS);
    assert_eq!(MOST_ERRORS, 32);
    assert!(refusal.errors.iter().all(|error| error.path.chars().count() <= 64), "{refusal}");
    assert!(refusal.to_string().len() < 8_192, "{} bytes", refusal.to_string().len());
    // Known fields come before unknown ones.
    assert_eq!((refusal.errors[0].path.as_str(), refusal.errors[1].path.as_str()), ("tenant", "to"));
}

#[test]
fn an_unknown_field_of_any_object_has_its_path_cut_at_64_characters() {
    let long = "x".repeat(500);
    for (body, begins) in [
        (to_subscription(&format!(r#","{long}":1"#)), "xxx"),
        (
            format!(r#"{{"tenant":"acme","to":{{"webhook":{{"url":"https://a.example","{long}":1}}}}}}"#),
            "to.webhook.xxx",
        ),
        (to_subscription(&format!(r#","retry":{{"{long}":1}}"#)), "retry.xxx"),
        (to_subscription(&format!(r#","headers":{{"{long}":1}}"#)), "headers.xxx"),
        (to_subscription(&format!(r#","headers":{{"{long}":"1"}}"#)), "headers.xxx"),
    ] {
        let refusal = parsed(&body, QueueKind::Ingest).expect_err("refused");
        let path = &refusal.errors[0].path;
        assert!(path.starts_with(begins) && path.chars().count() == 64, "{path}");
    }
}

/// A message whose fields take that many bytes as they travel, most of them an escaped payload.
fn of_bytes(bytes: usize) -> String {
    let frame = to_subscription(r#","payload":"""#).len();
    let (escapes, rest) = ((bytes - frame) / 6, (bytes - frame) % 6);
    to_subscription(&format!(r#","payload":"{}{}""#, "\\u0041".repeat(escapes), "A".repeat(rest)))
}

#[test]
fn a_body_that_is_too_long_to_travel_is_refused() {
    let body = of_bytes(MOST_BYTES + 1);
    assert!(body.len() <= SQS_MAX_BYTES, "a producer can send it");
    assert_eq!(errors(&body), ["(the whole text): expected at most 1046528 bytes, found 1046529 bytes"]);
}

#[test]
fn a_message_to_an_audience_that_is_too_long_for_its_run_is_refused() {
    let of_spaces = |spaces: usize| {
        let to = format!(r#"{{"audience":{{"tag":"news"{}}}}}"#, " ".repeat(spaces));
        format!(r#"{{"tenant":"acme","id":"m","to":{to},"payload":"x"}}"#)
    };
    let frame = of_spaces(0).len();
    let spaces = MOST_BYTES_TO_AUDIENCE - frame;
    assert!(parsed(&of_spaces(spaces), QueueKind::Ingest).is_ok());
    let refused = errors(&of_spaces(spaces + 1));
    assert_eq!(refused, ["(the whole text): expected at most 380000 bytes, found 380001 bytes"]);
}

#[test]
fn the_longest_body_travels_with_all_travel_fields() {
    let body = of_bytes(MOST_BYTES);
    let message = message(&body);
    let turn = Turn { lineage: Lineage(u32::MAX), attempt: Attempt(u32::MAX) };
    let late = Timestamp::from_ms(i64::MAX);
    let kept = ["retry-after", "ttl", "apns-id", "x-wns-status", "x-wns-notificationstatus"];
    let record = Record {
        turn,
        lease_token: "t".repeat(64),
        state: State::FailedNoRetries,
        status: Some(u16::MAX),
        verdict: Some("sign_again"),
        reason: Some(Reason::RetriesExhausted),
        not_sent: Some(NotSent::ConnectTimeout),
        provider_word: Some("w".repeat(40)),
        headers: kept.map(|name| (name.to_owned(), "v".repeat(64))).to_vec(),
        not_before: Some(late),
        in_doubt: true,
        kept_until: Some(late),
        ..fixtures::record(0)
    };
    let endpoint_hash = EndpointHash::parse(&format!("hmac:{}:{}", "k".repeat(32), "0".repeat(64)));
    let travel = Travel {
        turn,
        receives: u32::MAX,
        unrecorded: Some(Box::new(Unrecorded { record, endpoint_hash })),
        first_sent: late,
        not_before: Some(late),
        deferred_from: Some("m".repeat(100)),
    };
    let travelling = message.expose_travel_body(&travel, message.deadline(Channel::WebPush, sent()), sent());
    assert!(travelling.len() <= SQS_MAX_BYTES, "{}", travelling.len());
    // A message that travels is never refused for its length.
    assert!(parsed(&travelling, QueueKind::Retry).is_ok());
}

#[test]
fn tags_are_short_words_each_once_and_at_most_ten() {
    let tags = |list: &str| to_subscription(&format!(r#","tags":{list}"#));
    let read = message(&tags(r#"["region:eu","order"]"#)).tags;
    assert_eq!(read.to_text().as_deref(), Some("order region:eu"));
    assert!(message(&tags("[]")).tags.is_empty() && message(&to_subscription("")).tags.is_empty());
    let form = "^[a-z0-9][a-z0-9_.:-]{0,31}$";
    let many = |n: usize| format!("[{}]", (0..n).map(|n| format!("\"t{n}\"")).collect::<Vec<_>>().join(","));
    assert_eq!(message(&tags(&many(10))).tags.iter().count(), 10);
    for (list, expected) in [
        (r#"["a","b","c","S3cret"]"#, format!("tags[3]: expected {form}, found a string")),
        (r#"["a",17]"#, format!("tags[1]: expected {form}, found an integer")),
        (r#""order""#, format!("tags: expected an array, each element {form}, found a string")),
        ("null", format!("tags: expected an array, each element {form}, found null")),
        (r#"["a","b","a"]"#, "tags[2]: expected every tag once, found one that stands before it".to_owned()),
        (&many(11), "tags: expected at most 10 elements, found 11 elements".to_owned()),
    ] {
        assert_eq!(errors(&tags(list)), [expected], "{list}");
    }
}

#[test]
fn a_trace_is_a_field_of_one_form() {
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let of = |value: &str| to_subscription(&format!(r#","traceparent":{value}"#));
    let read = message(&of(&format!("\"{OWN}\""))).traceparent.map(|it| it.to_string());
    assert_eq!((read.as_deref(), message(&to_subscription("")).traceparent), (Some(OWN), None));
    for (value, found) in [
        (format!("\"{}\"", OWN.to_uppercase()), "a string"),
        (format!("\"01{}\"", &OWN[2..]), "a string"),
        ("17".to_owned(), "an integer"),
        ("null".to_owned(), "null"),
    ] {
        let expected = format!("traceparent: expected {}, found {found}", Traceparent::FORM);
        assert_eq!(errors(&of(&value)), [expected], "{value}");
    }
}

#[test]
fn a_message_joins_a_trace_unless_it_has_one_or_no_room_for_it() {
    let [own, other] = ["1", "2"].map(|digit| {
        Traceparent::parse(&format!("00-{}-{}-01", digit.repeat(32), digit.repeat(16))).expect("valid")
    });
    let joined = |body: &str| {
        let mut message = message(body);
        message.join(own);
        message.join(other);
        message
    };
    let read = joined(&to_subscription(""));
    let travelling = read.expose_ingest_body();
    assert_eq!(read.traceparent, Some(own));
    assert_eq!(message(&travelling).traceparent, Some(own), "it travels as a field: {travelling}");
    let added = travelling.len() - message(&to_subscription("")).expose_ingest_body().len();
    assert_eq!(joined(&of_bytes(MOST_BYTES - added)).traceparent, Some(own));
    assert_eq!(joined(&of_bytes(MOST_BYTES - added + 1)).traceparent, None);
}
