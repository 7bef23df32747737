//! A message, checked by the parser of the functions.

use std::net::IpAddr;

use redial_adapters::egress::is_public;
use redial_core::{
    access::TokenKeys,
    channel::Channel,
    endpoint::Endpoint,
    identity::{DeliveryId, IdSource, SubscriptionKey, Tenant},
    message::{Inbound, Message, To, meant_by, parse_to_send},
    plaintext::{Plaintext, TooLong},
    strip::StripFields,
    time::Timestamp,
};
use serde::de::IgnoredAny;

use super::warnings::Warning;
use crate::lines::Document;

/// A placeholder of the form of SQS ids.
const SQS_MESSAGE_ID: &str = "00000000-0000-0000-0000-000000000000";

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The line that it begins in.
    pub(crate) line: u64,
    pub(crate) tenant: Tenant,
    /// The correlation id, unless SQS assigns it.
    pub(crate) id: Option<DeliveryId>,
    /// The document as it is in the input. Never print it.
    pub(crate) body: String,
    pub(crate) warning: Option<Warning>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("line", &self.line).finish_non_exhaustive()
    }
}

/// Why the message that begins in this line will fail, if that is known already.
fn warning(message: &Message, line: u64, now: Timestamp) -> Option<Warning> {
    let dead = |message: &Message, whose: &str| {
        too_long(message, now)
            .map(|it| format!("line {line}: {it}: {whose} will be a dead letter (payload_too_large)"))
    };
    match &message.to {
        To::WebPush(_) => dead(message, "it").map(Warning::TooLong),
        // Redial writes those itself.
        To::Callback(_) => None,
        To::Subscription(id) => {
            let key = SubscriptionKey { tenant: message.tenant.clone(), id: id.clone() };
            dead(message, "it").map(|words| Warning::IfBrowsers { words, key })
        }
        // What is sealed is each recipient's own message, whose id is longer than most.
        To::Audience(_) => {
            let each = || dead(&message.as_long_as_a_recipient_s(true), "each recipient's");
            dead(message, "it").or_else(each).map(Warning::TooLong)
        }
        To::Webhook(endpoint) => may_not_be_posted_to(endpoint).then(|| Warning::UnlessAllowed {
            field: format!("line {line}: to.webhook.url"),
            origin: endpoint.origin(),
        }),
    }
}

/// Too long for a push. The token in an envelope is as long as with the key that a stack generates; a key with a longer id takes a
/// little more.
fn too_long(message: &Message, now: Timestamp) -> Option<TooLong> {
    let keys = TokenKeys::new([("k1".to_owned(), [0; TokenKeys::KEY_BYTES])])
        .expect("invariant: one key with an id");
    Plaintext::of(message, message.deadline(Channel::WebPush, now), &keys, &StripFields::default()).too_long()
}

/// Egress refuses other ports and private addresses unless EgressAllow names them. Host names are not resolved.
fn may_not_be_posted_to(endpoint: &Endpoint) -> bool {
    let url = endpoint.expose();
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    url.port().is_some() || address.is_ok_and(|address| !is_public(address))
}

/// Where JSON is invalid, without the error's own words, which may quote the input; nothing if it is valid.
pub(crate) fn place(body: &str) -> String {
    let error = serde_json::from_str::<IgnoredAny>(body).err();
    error.map_or_else(String::new, |error| format!(" (its line {}, column {})", error.line(), error.column()))
}

/// Checks a document that would be sent at `now`; returns a line for each error.
pub(super) fn read(document: Document, now: Timestamp) -> Result<Outgoing, Vec<String>> {
    let Document { line, text } = document;
    let at_line = |words: String| format!("line {line}: {words}");
    let whole = |words: String| vec![at_line(format!("(the whole text): {words}"))];
    let body = text.map_err(whole)?;
    if let Some(unfit) = body.chars().find(|c| matches!(c, '\u{FFFE}' | '\u{FFFF}')) {
        let found = u32::from(unfit);
        return Err(whole(format!("expected characters that SQS accepts, found U+{found:04X}")));
    }
    // The id stands for the one that SQS assigns, which has the same length.
    match parse_to_send(&body, SQS_MESSAGE_ID, now) {
        Ok(Inbound::Message(message, _)) => Ok(Outgoing {
            line,
            warning: warning(&message, line, now),
            tenant: message.tenant,
            id: match message.id_source {
                IdSource::Producer | IdSource::IdempotencyKey => Some(message.id),
                IdSource::SqsMessageId => None,
            },
            body,
        }),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) | Inbound::Recipient(..)) => {
            Err(vec![at_line("release: expected no such field, found one".to_owned())])
        }
        Err(refusal) => {
            let place = place(&body);
            let hint =
                |error| meant_by(error).map_or(String::new(), |field| format!("; did you mean {field}?"));
            Err(refusal
                .errors
                .iter()
                .map(|error| at_line(format!("{error}{place}{}", hint(error))))
                .collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_core::payload::MAX_WEB_PUSH_PLAINTEXT;

    use super::*;

    fn read(text: &str) -> Result<Outgoing, Vec<String>> {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
        super::read(Document { line: 7, text: Ok(text.to_owned()) }, now)
    }

    fn message(rest: &str) -> Result<Outgoing, Vec<String>> {
        read(&format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#))
    }

    #[test]
    fn the_id_is_the_one_that_dispatch_derives() {
        let of_key = DeliveryId::from_idempotency_key("k");
        for (rest, id) in [
            (r#","id":"order-17""#, Some("order-17")),
            (r#","id":"order-17","idempotency_key":"k""#, Some(of_key.as_str())),
            ("", None),
        ] {
            assert_eq!(message(rest).expect("valid").id.as_ref().map(DeliveryId::as_str), id, "{rest}");
        }
    }

    #[test]
    fn errors_name_line_and_field_and_no_value() {
        for (rest, errors) in [
            (
                r#","class":"s3cret","colour":"s3cret""#,
                &[
                    r#"line 7: class: expected "otp", "alert" or "campaign", found a string"#,
                    "line 7: colour: expected no such field, found a string",
                ][..],
            ),
            (
                ",\"payload\":\"\u{FFFF}\"",
                &["line 7: (the whole text): expected characters that SQS accepts, found U+FFFF"],
            ),
        ] {
            assert_eq!(message(rest).expect_err("wrong"), errors);
        }
        let errors = read(r#"{"tenant":"acme","to":{"audience":{"tag":"s3cret!"}}}"#).expect_err("no tag");
        assert!(errors.iter().all(|it| !it.contains("s3cret")), "{errors:?}");
        let debug = format!("{:?}", message(r#","payload":"s3cret""#).expect("valid"));
        assert!(!debug.contains("s3cret"), "{debug}");
    }

    #[test]
    fn a_payload_too_long_for_web_push_is_warned_of() {
        const MOST: usize = MAX_WEB_PUSH_PLAINTEXT;
        const S1: &str = r#"{"subscription":"s1"}"#;
        const NEWS: &str = r#"{"audience":{"tag":"news","rate":"500/s"}}"#;
        const BROWSER: &str = ": it will be a dead letter (payload_too_large)";
        const ALL: &str = ": it will be a dead letter (payload_too_large)";
        const EACH: &str = ": each recipient's will be a dead letter (payload_too_large)";
        let envelope = "payload: 3895 bytes and 170 more for its id, its end and acknowledgements";
        // Of the message's own id the envelope of a recipient's would take 84 bytes less.
        for (to, acks, bytes, warning) in [
            (S1, false, MOST, None),
            (S1, false, MOST + 1, Some(("payload: 3994 bytes", BROWSER))),
            (S1, true, MOST - 170 - 2, None),
            (S1, true, MOST - 100, Some((envelope, BROWSER))),
            (NEWS, true, MOST - 269, None),
            (NEWS, true, MOST - 169, Some(("payload: ", EACH))),
            (NEWS, true, MOST, Some(("payload: ", ALL))),
            (r#"{"webhook":{"url":"https://a.example/s3cret"}}"#, false, MOST + 1, None),
        ] {
            let (id, payload) = (if to == NEWS { r#""id":"n","# } else { "" }, "x".repeat(bytes));
            let acks = if acks { r#","acks":true"# } else { "" };
            let found = read(&format!(r#"{{"tenant":"acme",{id}"to":{to},"payload":"{payload}"{acks}}}"#));
            let found = found.expect("valid").warning;
            let Some((start, end)) = warning else {
                assert_eq!(found, None, "{to}, {bytes} bytes");
                continue;
            };
            let is_open = to == S1;
            let found = match found.expect("too long") {
                Warning::TooLong(words) if !is_open => words,
                Warning::IfBrowsers { words, key } if is_open && key.id.as_str() == "s1" => words,
                other
                @ (Warning::TooLong(_) | Warning::IfBrowsers { .. } | Warning::UnlessAllowed { .. }) => {
                    panic!("{other:?}")
                }
            };
            assert!(found.starts_with(&format!("line 7: {start}")) && found.ends_with(end), "{found}");
        }
    }

    #[test]
    fn a_webhook_to_a_private_address_is_warned_of() {
        for host in ["a.example:8443", "127.0.0.1", "0x7f.1", "[::1]"] {
            let to = format!(r#"{{"webhook":{{"url":"https://{host}/s3cret"}}}}"#);
            let found = read(&format!(r#"{{"tenant":"acme","to":{to},"payload":"x"}}"#)).expect("valid");
            let Some(Warning::UnlessAllowed { field, origin }) = found.warning else { panic!("{host}") };
            assert_eq!(field, "line 7: to.webhook.url");
            assert!(!origin.as_str().contains("s3cret"), "{origin:?}");
        }
    }
}
