//! The plaintext of a web push: a message's payload, the envelope around it where the message asks for acknowledgements, or the document
//! of its [`crate::notification`].
//!
//! The envelope is `{"redial":1,"id":"<delivery>","until":<epoch s>,"ack":"<token>","payload":<the producer's payload>}`, in this order
//! and without spaces. JSON is included byte for byte as it was written, a text as a JSON string, and bytes as `{"base64":"…"}`; a message
//! without a payload has no such field. With the id a service worker drops duplicates; by `until`, when the TTL is over, it knows what comes
//! too late; with the token, and no other credential, it acknowledges. A notification's document has the three in its `data`.
//!
//! A payload loses the fields that the operator named ([`crate::strip`]) before.
//!
//! It follows from the delivery, its deadline and the stack's keys, so a retry carries the same bytes (after a rotation of keys, a new
//! token). It shares the bytes of a web push with the producer's payload, so it is as short as possible.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::access::{AckToken, TokenKeys};
use crate::ack;
use crate::message::Message;
use crate::notification::Added;
use crate::payload::{MAX_WEB_PUSH_PLAINTEXT, Media, Payload};
use crate::strip::StripFields;
use crate::time::Deadline;

/// The version of the envelope, by which a service worker recognises one.
const VERSION: u32 = 1;

/// What is sealed for a browser. Never log it: who has the envelope can acknowledge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plaintext<'a> {
    bytes: Cow<'a, Payload>,
    overhead: usize,
    /// The field that is too long if it is.
    field: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {own} bytes{}, and web push carries at most {MAX_WEB_PUSH_PLAINTEXT}", with(*.overhead))]
pub struct TooLong {
    field: &'static str,
    own: usize,
    overhead: usize,
}

fn with(overhead: usize) -> String {
    match overhead {
        0 => String::new(),
        _ => format!(" and {overhead} more for its id, its end and acknowledgements"),
    }
}

impl<'a> Plaintext<'a> {
    pub fn of(message: &'a Message, deadline: Deadline, keys: &TokenKeys, strip: &StripFields) -> Self {
        let token = message.acks.then(|| {
            keys.ack(&AckToken {
                tenant: message.tenant.clone(),
                delivery: message.id.clone(),
                expires_at: ack::accepted_until(deadline),
            })
        });
        let added = Added { id: &message.id, until: deadline.at(), ack: token.as_deref() };
        if let Some(notification) = &message.notification {
            let text = notification.document(Some(added)).into_bytes();
            let overhead = text.len() - message.payload.len();
            return Self::owned(text, overhead, "notification");
        }
        let own = strip.without(&message.payload).map_or(Cow::Borrowed(&message.payload), Cow::Owned);
        if !message.acks {
            return Self { bytes: own, overhead: 0, field: "payload" };
        }
        let mut text = format!(r#"{{"redial":{VERSION},{added}"#).into_bytes();
        let payload = as_json(&own);
        if !payload.is_empty() {
            text.extend_from_slice(br#","payload":"#);
            text.extend_from_slice(&payload);
        }
        text.push(b'}');
        let overhead = text.len() - payload.len();
        Self::owned(text, overhead, "payload")
    }

    fn owned(text: Vec<u8>, overhead: usize, field: &'static str) -> Self {
        Self { bytes: Cow::Owned(Payload::written_as(Media::Json, text)), overhead, field }
    }

    pub fn as_payload(&self) -> &Payload {
        &self.bytes
    }

    pub fn too_long(&self) -> Option<TooLong> {
        let Self { bytes, overhead, field } = self;
        let too_long = bytes.len() > MAX_WEB_PUSH_PLAINTEXT;
        too_long.then(|| TooLong { field, own: bytes.len() - overhead, overhead: *overhead })
    }
}

/// A payload as JSON; empty if there is none.
fn as_json(payload: &Payload) -> Cow<'_, [u8]> {
    let bytes = payload.expose();
    match payload.media() {
        Media::Json => Cow::Borrowed(bytes),
        Media::Bytes if bytes.is_empty() => Cow::Borrowed(bytes),
        Media::Bytes => Cow::Owned(format!(r#"{{"base64":"{}"}}"#, STANDARD.encode(bytes)).into_bytes()),
        Media::Text => {
            let text = std::str::from_utf8(bytes).expect("invariant: a text was read from a JSON string");
            Cow::Owned(serde_json::Value::from(text).to_string().into_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use crate::fixtures::{self, token_keys};
    use crate::time::Timestamp;

    fn message(rest: &str) -> Message {
        fixtures::message(&format!(r#","id":"m1"{rest}"#))
    }

    fn deadline(message: &Message) -> Deadline {
        message.deadline(Channel::WebPush, Timestamp::from_secs(1_800_000_000))
    }

    fn plaintext(message: &Message) -> Plaintext<'_> {
        Plaintext::of(message, deadline(message), &token_keys(), &StripFields::default())
    }

    #[test]
    fn the_payload_is_included_as_it_was_written() {
        for (written, included) in [
            (r#","payload": {"b" : [1.0,"\u00e9"],"a":2}"#, r#","payload":{"b" : [1.0,"\u00e9"],"a":2}"#),
            (r#","payload":"caf\u00e9 \"x\"\n""#, r#","payload":"café \"x\"\n""#),
            (r#","payload":"""#, r#","payload":"""#),
            (r#","payload":{"base64":"/+8="}"#, r#","payload":{"base64":"/+8="}"#),
            (r#","payload":false"#, r#","payload":false"#),
            (r#","payload":null"#, ""),
            ("", ""),
        ] {
            let message = message(&format!(r#"{written},"acks":true"#));
            let end = deadline(&message).at().plus(AckToken::GRACE);
            let token = token_keys().ack(&AckToken {
                tenant: message.tenant.clone(),
                delivery: message.id.clone(),
                expires_at: end,
            });
            let before = Timestamp::from_ms(end.as_ms() - 1);
            assert_eq!(token_keys().read_ack(&token, before).map(|token| token.expires_at), Some(end));
            let text = String::from_utf8(plaintext(&message).as_payload().expose().to_vec()).expect("JSON");
            assert_eq!(
                text,
                format!(r#"{{"redial":1,"id":"m1","until":1800014400,"ack":"{token}"{included}}}"#)
            );
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            assert_eq!(plaintext(&message), plaintext(&message), "the same each time");
        }
    }

    #[test]
    fn a_payload_and_its_envelope_are_at_most_3993_bytes() {
        // {"redial":1,"id":"m1","until":1800014400,"ack":"k1.acme.m1.1234567.<22 characters>","payload":} is 102 long, and the quotes are
        // the text's.
        let too_long = "payload: 3892 bytes and 102 more for its id, its end and acknowledgements, and web push carries \
                        at most 3993";
        for (payload, acks, expected) in [
            (3993, "false", None),
            (3994, "false", Some("payload: 3994 bytes, and web push carries at most 3993")),
            (3993 - 102 - 2, "true", None),
            (3993 - 102 - 1, "true", Some(too_long)),
        ] {
            let message = message(&format!(r#","payload":"{}","acks":{acks}"#, "x".repeat(payload)));
            let error = plaintext(&message).too_long().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{payload} {acks}");
        }
        let bytes = message(r#","payload":{"base64":"AAAA"},"acks":true"#);
        let plaintext = plaintext(&bytes);
        assert_eq!(plaintext.as_payload().len() - plaintext.overhead, r#"{"base64":"AAAA"}"#.len());
    }

    #[test]
    fn a_notification_has_room_for_what_is_left() {
        // 33 for {"web_push":8030,"notification":} and 55 for {"title":"T","navigate":"https://a.example/","body":""}; what Redial adds is
        // ,"data":{"redial":{"id":"m1","until":1800014400}}, and ,"ack":"" with a token of 41 and ,"mutable":true.
        for (acks, room) in [("false", 3993 - 33 - 55 - 49), ("true", 3993 - 33 - 55 - 49 - 9 - 41 - 15)] {
            for (body, fits) in [(room, true), (room + 1, false)] {
                let body = "x".repeat(body);
                let message = message(&format!(
                    r#","acks":{acks},"notification":{{"title":"T","navigate":"https://a.example/","body":"{body}"}}"#
                ));
                let plaintext = plaintext(&message);
                assert_eq!(plaintext.too_long().is_none(), fits, "{acks} {:?}", plaintext.too_long());
                assert!(serde_json::from_slice::<serde_json::Value>(plaintext.as_payload().expose()).is_ok());
            }
        }
    }

    #[test]
    fn named_fields_are_left_out_and_leave_room() {
        let strip = StripFields::parse("trace").expect("a name");
        for (acks, expected) in [("false", r#"{"a":1}"#), ("true", r#","payload":{"a":1}}"#)] {
            let long = "x".repeat(4000);
            let message = message(&format!(r#","acks":{acks},"payload":{{"trace":"{long}", "a":1}}"#));
            let plaintext = Plaintext::of(&message, deadline(&message), &token_keys(), &strip);
            let text = String::from_utf8(plaintext.as_payload().expose().to_vec()).expect("JSON");
            assert!(text.ends_with(expected), "{text}");
            assert_eq!(plaintext.too_long(), None);
        }
    }

    #[test]
    fn debug_shows_neither_token_nor_payload() {
        let message = message(r#","payload":"s3cret","acks":true"#);
        let shown = format!("{:?}", plaintext(&message));
        assert!(shown.contains("Payload(redacted, "), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("m1"), "{shown}");
    }
}
