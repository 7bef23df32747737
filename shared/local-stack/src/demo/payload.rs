//! What the messages say: each something else, so that one that arrives in another's place is noticed.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use redial_core::payload::MAX_WEB_PUSH_PLAINTEXT;
use serde_json::{Value, json};

/// A payload as it stands in the message, and the bytes that a browser is to see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    /// As in the message.
    pub(super) written: Value,
    /// As it is to arrive.
    pub(super) plaintext: Vec<u8>,
}

/// The payload of the `number`-th message, `id`: text, JSON, bytes, and the longest that a push can carry.
pub(super) fn sample(number: usize, id: &str) -> Sample {
    match number % 4 {
        0 => text(format!("{id}: your parcel is on its way – 📦")),
        1 => {
            let written = json!({"title": id, "options": {"body": "your parcel is on its way", "badge": 1}});
            let plaintext = written.to_string().into_bytes();
            Sample { written, plaintext }
        }
        2 => {
            let plaintext: Vec<u8> = id.bytes().chain(0..=255).collect();
            Sample { written: json!({"base64": STANDARD.encode(&plaintext)}), plaintext }
        }
        _ => text(format!("{id}{}", "x".repeat(MAX_WEB_PUSH_PLAINTEXT - id.len()))),
    }
}

fn text(text: String) -> Sample {
    Sample { plaintext: text.clone().into_bytes(), written: Value::from(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_its_own_and_none_is_too_long() {
        let samples: Vec<Sample> = (0..8).map(|n| sample(n, &format!("m-{n}"))).collect();
        for (at, one) in samples.iter().enumerate() {
            assert!(one.plaintext.len() <= MAX_WEB_PUSH_PLAINTEXT);
            assert!(samples[at + 1..].iter().all(|other| other.plaintext != one.plaintext));
        }
        assert_eq!(samples[3].plaintext.len(), MAX_WEB_PUSH_PLAINTEXT);
    }
}
