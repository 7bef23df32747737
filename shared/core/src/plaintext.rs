//! The plaintext of a web push: a message's payload, or the envelope around it where the message asks for acknowledgements.

use std::borrow::Cow;

use crate::access::TokenKeys;
use crate::ack::Envelope;
use crate::message::Message;
use crate::payload::{MAX_WEB_PUSH_PLAINTEXT, Payload};
use crate::time::Deadline;

/// What is sealed for a browser.
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
        let envelope = Envelope::of(&message.key(), &message.payload, deadline, keys);
        Self { overhead: envelope.overhead(), bytes: Cow::Owned(envelope.into_plaintext()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use crate::fixtures;
    use crate::time::Timestamp;

    fn error(payload: usize, rest: &str) -> Option<String> {
        let text = "x".repeat(payload);
        let message = fixtures::message(&format!(r#","id":"m1","payload":"{text}"{rest}"#));
        let deadline = message.deadline(Channel::WebPush, Timestamp::from_secs(1_800_000_000));
        Plaintext::of(&message, deadline, &fixtures::token_keys()).too_long().map(|error| error.to_string())
    }

    #[test]
    fn without_acknowledgements_the_payload_alone_counts() {
        assert_eq!(error(3993, ""), None);
        assert_eq!(
            error(3994, r#","acks":false"#).as_deref(),
            Some("payload: 3994 bytes, and web push carries at most 3993")
        );
    }

    #[test]
    fn with_acknowledgements_the_envelope_counts() {
        let with_acks = |payload| error(payload, r#","acks":true"#);
        // {"redial":1,"id":"m1","ack":"k1.acme.m1.1234567.<22 characters>","payload":} is 83 long, and the quotes are the text's.
        let overhead = 83;
        assert_eq!(with_acks(3993 - overhead - 2), None);
        assert_eq!(
            with_acks(3993 - overhead - 1).as_deref(),
            Some(
                "payload: 3911 bytes in an envelope for acknowledgements that takes 83 more, and web push carries at \
                 most 3993"
            )
        );
    }
}
