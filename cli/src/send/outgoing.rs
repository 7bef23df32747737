//! One message, checked by the very parser that the functions read it with.

use std::net::IpAddr;

use redial_adapters::egress::is_public;
use redial_core::{
    endpoint::Endpoint,
    identity::{DeliveryId, Tenant},
    message::{IdSource, Inbound, Message, QueueKind, To, parse},
    payload::MAX_WEB_PUSH_PLAINTEXT,
    time::Timestamp,
};
use serde::de::IgnoredAny;

use super::documents::{Document, MAX_MESSAGE_BYTES, Unreadable};

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
fn warning(line: u64, message: &Message) -> Option<String> {
    let bytes = message.payload.len();
    let too_long = bytes > MAX_WEB_PUSH_PLAINTEXT;
    let payload = || {
        format!("line {line}: payload: {bytes} bytes, and web push carries at most {MAX_WEB_PUSH_PLAINTEXT}")
    };
    match &message.to {
        To::WebPush(_) => {
            too_long.then(|| format!("{}: it will be a dead letter (payload_too_large)", payload()))
        }
        To::Subscription(_) => too_long.then(|| {
            format!(
                "{}: it will be a dead letter (payload_too_large) if the subscription is a browser's",
                payload()
            )
        }),
        To::Webhook(endpoint) => may_not_be_posted_to(endpoint).then(|| {
            format!(
                "line {line}: to.webhook.url: only public addresses are posted to, on port 443: it will be a dead \
                 letter (endpoint_not_allowed) unless the stack's EgressAllow names its origin"
            )
        }),
    }
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
    // The id is only a placeholder: SQS makes one when the message is sent.
    match parse(&body, QueueKind::Ingest, "", now) {
        Ok(Inbound::Message(message, _)) => Ok(Outgoing {
            line,
            warning: warning(line, &message),
            tenant: message.tenant,
            id: match message.id_source {
                IdSource::Producer | IdSource::IdempotencyKey => Some(message.id),
                IdSource::SqsMessageId => None,
            },
            body,
        }),
        Ok(Inbound::Release(_)) => {
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
