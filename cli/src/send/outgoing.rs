//! One message, checked by the very parser that the functions read it with.

use std::net::IpAddr;

use redial_adapters::egress::is_public;
use redial_core::{
    access::TokenKeys,
    channel::Channel,
    endpoint::Endpoint,
    identity::IdSource,
    identity::{DeliveryId, Tenant},
    message::{Inbound, Message, QueueKind, To, parse},
    plaintext::{Plaintext, TooLong},
    time::Timestamp,
};
use serde::de::IgnoredAny;

use super::documents::{Document, MAX_MESSAGE_BYTES, Unreadable};

/// What SQS's ids look like.
const SQS_MESSAGE_ID: &str = "00000000-0000-0000-0000-000000000000";

/// A message that may be sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The line that it begins in.
    pub(crate) line: u64,
    /// Whose it is.
    pub(crate) tenant: Tenant,
    /// Its correlation id, where that is known before SQS gives the message one.
    pub(crate) id: Option<DeliveryId>,
    /// What is sent: the document as it stands in the input. Never print it.
    pub(crate) body: String,
    /// What will become of it, if that is clear already and not good.
    pub(crate) warning: Option<String>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("line", &self.line).finish_non_exhaustive()
    }
}

/// What will become of a message, if that is clear already and not good.
fn warning(line: u64, message: &Message, now: Timestamp) -> Option<String> {
    match &message.to {
        To::WebPush(_) => of_a_push(message, line, now),
        To::Subscription(_) => too_long(message, now).map(|it| {
            format!(
                "line {line}: {it}: it will be a dead letter (payload_too_large) if the subscription is a browser's"
            )
        }),
        // What is sealed is each recipient's own message, whose id is longer than most.
        To::Audience(_) => of_a_push(message, line, now).or_else(|| {
            let too_long = too_long(&message.as_long_as_a_recipient_s(), now)?;
            Some(format!("line {line}: {too_long}: each recipient's will be a dead letter (payload_too_large)"))
        }),
        To::Webhook(endpoint) => may_not_be_posted_to(endpoint).then(|| {
            format!(
                "line {line}: to.webhook.url: only public addresses are posted to, on port 443: it will be a dead \
                 letter (endpoint_not_allowed) unless the stack's EgressAllow names its origin"
            )
        }),
    }
}

fn of_a_push(message: &Message, line: u64, now: Timestamp) -> Option<String> {
    too_long(message, now)
        .map(|it| format!("line {line}: {it}: it will be a dead letter (payload_too_large)"))
}

/// Whether no push carries it. The token in an envelope is as long with this key as with the one that a stack makes for itself; one
/// with a longer id takes a little more.
fn too_long(message: &Message, now: Timestamp) -> Option<TooLong> {
    let keys = TokenKeys::new([("k1".to_owned(), [0; TokenKeys::KEY_BYTES])])
        .expect("invariant: one key with an id");
    Plaintext::of(message, message.deadline(Channel::WebPush, now), &keys).too_long()
}

/// Whether egress refuses it without an exception: a port other than that of https, or an address that is not public. Where
/// a name leads is not asked.
fn may_not_be_posted_to(endpoint: &Endpoint) -> bool {
    let url = endpoint.expose();
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    url.port().is_some() || address.is_ok_and(|address| !is_public(address))
}

/// Checks a document that would be sent at `now`; everything that is wrong, one line each.
pub(super) fn read(document: Document, now: Timestamp) -> Result<Outgoing, Vec<String>> {
    let Document { line, text } = document;
    let body = text.map_err(|unreadable| {
        let (expected, found) = match unreadable {
            Unreadable::TooLong => (format!("at most {MAX_MESSAGE_BYTES} bytes"), "more"),
            Unreadable::NotUtf8 => ("UTF-8".to_owned(), "other bytes"),
        };
        vec![format!("line {line}: (the whole text): expected {expected}, found {found}")]
    })?;
    if let Some(unfit) = body.chars().find(|c| matches!(c, '\u{FFFE}' | '\u{FFFF}')) {
        let unfit = u32::from(unfit);
        let error =
            format!("line {line}: (the whole text): expected characters that SQS takes, found U+{unfit:04X}");
        return Err(vec![error]);
    }
    // The id is only a placeholder as long as that which SQS makes when the message is sent.
    match parse(&body, QueueKind::Ingest, SQS_MESSAGE_ID, now) {
        Ok(Inbound::Message(message, _)) => Ok(Outgoing {
            line,
            warning: warning(line, &message, now),
            tenant: message.tenant,
            id: match message.id_source {
                IdSource::Producer | IdSource::IdempotencyKey => Some(message.id),
                IdSource::SqsMessageId => None,
            },
            body,
        }),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..)) => {
            Err(vec![format!("line {line}: release: expected no such field, found one")])
        }
        Err(refusal) => {
            let place = place_of_the_mistake(&body);
            let told = |error| format!("line {line}: {error}{place}");
            Err(refusal.errors.iter().map(told).collect())
        }
    }
}

/// Where the text stops being JSON; empty if it does not.
fn place_of_the_mistake(body: &str) -> String {
    match serde_json::from_str::<IgnoredAny>(body) {
        Ok(_) => String::new(),
        // The error's own words are left out: they may quote what they found.
        Err(error) => format!(" (its line {}, column {})", error.line(), error.column()),
    }
}

#[cfg(test)]
mod tests {
    use redial_core::payload::MAX_WEB_PUSH_PLAINTEXT;

    use super::*;

    fn document(text: &str) -> Document {
        Document { line: 7, text: Ok(text.to_owned()) }
    }

    fn message(rest: &str) -> Result<Outgoing, Vec<String>> {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
        read(document(&format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#)), now)
    }

    #[test]
    fn the_id_is_the_one_that_dispatch_derives() {
        let id = |rest| message(rest).expect("valid").id.map(|id| id.to_string());
        assert_eq!(id(r#","id":"order-17""#).as_deref(), Some("order-17"));
        let of_key = DeliveryId::from_idempotency_key("k").to_string();
        assert_eq!(id(r#","id":"order-17","idempotency_key":"k""#), Some(of_key));
        assert_eq!(id(""), None);
    }

    #[test]
    fn errors_name_line_and_field_and_no_value() {
        let errors = message(r#","class":"s3cret","colour":"s3cret""#).expect_err("wrong");
        assert_eq!(
            errors,
            [
                r#"line 7: class: expected "otp", "alert" or "campaign", found a string"#,
                "line 7: colour: expected no such field, found a string",
            ]
        );
    }

    #[test]
    fn a_payload_that_web_push_does_not_carry_is_warned_of() {
        let of = |bytes| message(&format!(r#","payload":"{}""#, "x".repeat(bytes))).expect("valid").warning;
        assert_eq!(of(MAX_WEB_PUSH_PLAINTEXT), None);
        let told = of(MAX_WEB_PUSH_PLAINTEXT + 1).expect("too long");
        assert!(told.starts_with("line 7: payload: 3994 bytes"), "{told}");
        assert!(told.ends_with("if the subscription is a browser's"), "{told}");

        let with_acks = |bytes| {
            message(&format!(r#","payload":"{}","acks":true"#, "x".repeat(bytes))).expect("valid").warning
        };
        let told = with_acks(MAX_WEB_PUSH_PLAINTEXT - 100).expect("too long with its envelope");
        assert!(
            told.starts_with(
                "line 7: payload: 3895 bytes in an envelope for acknowledgements that takes 151 more"
            ),
            "{told}"
        );
        assert_eq!(with_acks(MAX_WEB_PUSH_PLAINTEXT - 151 - 2), None);
    }

    #[test]
    fn a_message_to_an_audience_is_read_and_warned_of_where_no_recipient_s_push_carries_it() {
        let to = |audience: &str, bytes: usize| {
            let payload = "x".repeat(bytes);
            let text = format!(
                r#"{{"tenant":"acme","id":"n","to":{{"audience":{audience}}},"acks":true,"payload":"{payload}"}}"#
            );
            read(document(&text), Timestamp::from_secs(1))
        };
        let news = r#"{"tag":"news","rate":"500/s"}"#;
        let known = to(news, 1).expect("valid");
        assert_eq!((known.id.as_ref().map(DeliveryId::as_str), known.warning), (Some("n"), None));
        // Of the message's own id the envelope would take 84 bytes less.
        assert_eq!(to(news, MAX_WEB_PUSH_PLAINTEXT - 250).expect("valid").warning, None);
        let told = to(news, MAX_WEB_PUSH_PLAINTEXT - 150).expect("valid").warning.expect("too long");
        assert!(told.ends_with(": each recipient's will be a dead letter (payload_too_large)"), "{told}");
        let told = to(news, MAX_WEB_PUSH_PLAINTEXT).expect("valid").warning.expect("too long");
        assert!(told.ends_with(": it will be a dead letter (payload_too_large)"), "{told}");
        assert!(to(r#"{"tag":"s3cret!"}"#, 1).expect_err("no tag").iter().all(|it| !it.contains("s3cret")));
    }

    #[test]
    fn a_webhook_that_is_not_posted_to_is_warned_of_and_a_long_one_is_not() {
        let to = |url: &str, bytes: usize| {
            let payload = "x".repeat(bytes);
            let text =
                format!(r#"{{"tenant":"acme","to":{{"webhook":{{"url":"{url}"}}}},"payload":"{payload}"}}"#);
            read(document(&text), Timestamp::from_secs(1)).expect("valid").warning
        };
        assert_eq!(to("https://a.example/s3cret", MAX_WEB_PUSH_PLAINTEXT + 1), None);
        for url in [
            "https://a.example:8443/s3cret",
            "https://127.0.0.1/s3cret",
            "https://0x7f.1/s3cret",
            "https://[::1]/s3cret",
        ] {
            let told = to(url, 1).expect("not posted to");
            assert!(
                told.starts_with("line 7: to.webhook.url: only public") && !told.contains("s3cret"),
                "{told}"
            );
        }
    }

    #[test]
    fn what_sqs_refuses_is_refused_here() {
        let errors = message(",\"payload\":\"\u{FFFF}\"").expect_err("unfit");
        assert_eq!(errors, ["line 7: (the whole text): expected characters that SQS takes, found U+FFFF"]);
        let debug = format!("{:?}", message(r#","payload":"s3cret""#).expect("valid"));
        assert!(!debug.contains("s3cret"), "{debug}");
    }
}
