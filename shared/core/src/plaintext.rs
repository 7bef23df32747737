//! The plaintext of a web push: a message's payload, or the envelope around it where the message asks for acknowledgements.
//!
//! The envelope is `{"redial":1,"id":"<delivery>","ack":"<token>","payload":<the producer's payload>}`, in this order and without
//! spaces. JSON is included byte for byte as it was written, a text as a JSON string, and bytes as `{"base64":"…"}`; a message without
//! a payload has no such field. With the id a service worker drops duplicates; with the token, and no other credential, it
//! acknowledges.
//!
//! It follows from the delivery, its deadline and the stack's keys, so a retry carries the same bytes (after a rotation of keys, a new
//! token). It shares the bytes of a web push with the producer's payload, so it is as short as possible.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::access::{AckToken, TokenKeys};
use crate::ack;
use crate::message::Message;
use crate::payload::{MAX_WEB_PUSH_PLAINTEXT, Media, Payload};
use crate::time::Deadline;

/// The version of the envelope, by which a service worker recognises one.
const VERSION: u32 = 1;

/// What is sealed for a browser. Never log it: who has the envelope can acknowledge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plaintext<'a> {
    bytes: Cow<'a, Payload>,
    overhead: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("payload: {payload} bytes{}, and web push carries at most {MAX_WEB_PUSH_PLAINTEXT}", around(*.overhead))]
pub struct TooLong {
    payload: usize,
    overhead: usize,
}

fn around(overhead: usize) -> String {
    match overhead {
        0 => String::new(),
        _ => format!(" in an envelope for acknowledgements that takes {overhead} more"),
    }
}

impl<'a> Plaintext<'a> {
    pub fn of(message: &'a Message, deadline: Deadline, keys: &TokenKeys) -> Self {
        if !message.acks {
            return Self { bytes: Cow::Borrowed(&message.payload), overhead: 0 };
        }
        let token = keys.ack(&AckToken {
            tenant: message.tenant.clone(),
            delivery: message.id.clone(),
            expires_at: ack::accepted_until(deadline),
        });
        // Neither has a character that JSON would escape.
        let mut text = format!(r#"{{"redial":{VERSION},"id":"{}","ack":"{token}""#, message.id).into_bytes();
        let payload = as_json(&message.payload);
        if !payload.is_empty() {
            text.extend_from_slice(br#","payload":"#);
            text.extend_from_slice(&payload);
        }
        text.push(b'}');
        let overhead = text.len() - payload.len();
        Self { bytes: Cow::Owned(Payload::written_as(Media::Json, text)), overhead }
    }

    pub fn as_payload(&self) -> &Payload {
        &self.bytes
    }

    pub fn too_long(&self) -> Option<TooLong> {
        let Self { bytes, overhead } = self;
        let too_long = bytes.len() > MAX_WEB_PUSH_PLAINTEXT;
        too_long.then(|| TooLong { payload: bytes.len() - overhead, overhead: *overhead })
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
        Plaintext::of(message, deadline(message), &token_keys())
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
            assert_eq!(text, format!(r#"{{"redial":1,"id":"m1","ack":"{token}"{included}}}"#));
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            assert_eq!(plaintext(&message), plaintext(&message), "the same each time");
        }
    }

    #[test]
    fn a_payload_and_its_envelope_are_at_most_3993_bytes() {
        // {"redial":1,"id":"m1","ack":"k1.acme.m1.1234567.<22 characters>","payload":} is 83 long, and the quotes are the text's.
        let too_long = "payload: 3911 bytes in an envelope for acknowledgements that takes 83 more, and web push \
                        carries at most 3993";
        for (payload, acks, expected) in [
            (3993, "false", None),
            (3994, "false", Some("payload: 3994 bytes, and web push carries at most 3993")),
            (3993 - 83 - 2, "true", None),
            (3993 - 83 - 1, "true", Some(too_long)),
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
    fn debug_shows_neither_token_nor_payload() {
        let message = message(r#","payload":"s3cret","acks":true"#);
        let shown = format!("{:?}", plaintext(&message));
        assert!(shown.contains("Payload(redacted, "), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("m1"), "{shown}");
    }
}
