//! The plaintext of a push whose message asks for acknowledgements.
//!
//! `{"redial":1,"id":"<delivery>","ack":"<token>","payload":<the producer's payload>}`, in this order and without spaces. JSON is
//! included byte for byte as it was written, a text as a JSON string, and bytes as `{"base64":"…"}`; a message without a payload has
//! no such field. With the id a service worker drops duplicates; with the token, and no other credential, it acknowledges.
//!
//! It follows from the delivery, its deadline and the stack's keys, so a retry carries the same bytes (after a rotation of keys, a new
//! token). It shares the bytes of a web push with the producer's payload, so it is as short as possible.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::access::{AckToken, TokenKeys};
use crate::identity::DeliveryKey;
use crate::payload::{Media, Payload};
use crate::time::{Deadline, Timestamp};

/// The version of the envelope, by which a service worker knows one.
const VERSION: u32 = 1;

/// A payload with the delivery's id and token. Never log it: its holder can acknowledge.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    plaintext: Payload,
    overhead: usize,
}

impl Envelope {
    /// The envelope of this delivery, whose message is worth delivering until `deadline`.
    pub fn of(key: &DeliveryKey, payload: &Payload, deadline: Deadline, keys: &TokenKeys) -> Self {
        let token = keys.ack(&AckToken {
            tenant: key.tenant.clone(),
            delivery: key.id.clone(),
            expires_at: Self::acknowledged_until(deadline),
        });
        // Neither has a character that JSON would escape.
        let mut text = format!(r#"{{"redial":{VERSION},"id":"{}","ack":"{token}""#, key.id).into_bytes();
        let written = written(payload);
        if let Some(written) = &written {
            text.extend_from_slice(br#","payload":"#);
            text.extend_from_slice(written);
        }
        text.push(b'}');
        let overhead = text.len() - written.map_or(0, |written| written.len());
        Self { plaintext: Payload::written_as(Media::Json, text), overhead }
    }

    /// The end of acknowledgements of a message with this deadline.
    pub fn acknowledged_until(deadline: Deadline) -> Timestamp {
        deadline.at().plus(AckToken::GRACE)
    }

    pub fn into_plaintext(self) -> Payload {
        self.plaintext
    }

    pub fn size(&self) -> usize {
        self.plaintext.len()
    }

    /// Bytes besides the payload.
    pub fn overhead(&self) -> usize {
        self.overhead
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envelope(redacted, {} bytes)", self.plaintext.len())
    }
}

/// A payload as JSON; `None` if there is none.
fn written(payload: &Payload) -> Option<Vec<u8>> {
    let bytes = payload.expose();
    match payload.media() {
        Media::Bytes if bytes.is_empty() => None,
        Media::Bytes => Some(format!(r#"{{"base64":"{}"}}"#, STANDARD.encode(bytes)).into_bytes()),
        Media::Text => {
            let text = std::str::from_utf8(bytes).expect("invariant: a text was read from a JSON string");
            Some(serde_json::Value::from(text).to_string().into_bytes())
        }
        Media::Json => Some(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{delivery, message, token_keys};
    use crate::time::Ttl;

    fn key() -> DeliveryKey {
        delivery("order-17")
    }

    fn deadline() -> Deadline {
        Ttl::from_secs(60).deadline_from(Timestamp::from_secs(1_800_000_000))
    }

    fn envelope(payload: &Payload) -> Envelope {
        Envelope::of(&key(), payload, deadline(), &token_keys())
    }

    fn text(envelope: Envelope) -> String {
        String::from_utf8(envelope.into_plaintext().expose().to_vec()).expect("JSON")
    }

    #[test]
    fn the_payload_is_included_as_it_was_written() {
        let expires_at = deadline().at().plus(AckToken::GRACE);
        let token = token_keys().ack(&AckToken { tenant: key().tenant, delivery: key().id, expires_at });
        for (written, stands) in [
            (r#","payload": {"b" : [1.0,"\u00e9"],"a":2}"#, r#","payload":{"b" : [1.0,"\u00e9"],"a":2}"#),
            (r#","payload":"caf\u00e9 \"x\"\n""#, r#","payload":"café \"x\"\n""#),
            (r#","payload":"""#, r#","payload":"""#),
            (r#","payload":{"base64":"/+8="}"#, r#","payload":{"base64":"/+8="}"#),
            (r#","payload":false"#, r#","payload":false"#),
            (r#","payload":null"#, ""),
            ("", ""),
        ] {
            let text = text(envelope(&message(written).payload));
            assert_eq!(text, format!(r#"{{"redial":1,"id":"order-17","ack":"{token}"{stands}}}"#));
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn its_token_is_valid_until_a_week_after_the_deadline() {
        let value: Value = serde_json::from_str(&text(envelope(&Payload::default()))).expect("JSON");
        let token = value["ack"].as_str().expect("a text");
        let end = deadline().at().plus(AckToken::GRACE);
        let read = token_keys().read_ack(token, Timestamp::from_ms(end.as_ms() - 1)).expect("good");
        assert_eq!((read.tenant, read.delivery, read.expires_at), (key().tenant, key().id, end));
        assert_eq!(token_keys().read_ack(token, end), None);
        assert_eq!(value["redial"], json!(1));
    }

    #[test]
    fn it_is_the_same_each_time_and_knows_its_overhead() {
        let payload = Payload::written_as(Media::Json, br#"{"a":1}"#.to_vec());
        let one = envelope(&payload);
        assert_eq!(one, envelope(&payload));
        assert_eq!(one.overhead(), one.size() - payload.len());
        let bytes = Payload::new(vec![0; 30]);
        assert_eq!(envelope(&bytes).size() - envelope(&bytes).overhead(), r#"{"base64":""}"#.len() + 40);
        let nothing = envelope(&Payload::default());
        assert_eq!(nothing.overhead(), nothing.size());
    }

    #[test]
    fn debug_shows_neither_token_nor_payload() {
        let shown = format!("{:?}", envelope(&Payload::written_as(Media::Text, b"s3cret".to_vec())));
        assert!(shown.starts_with("Envelope(redacted, "), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("order-17"), "{shown}");
    }
}
