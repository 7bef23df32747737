//! What a web push carries: a message's payload, or the envelope around it where the message asks for acknowledgements.

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

/// It is longer than any push can be.
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
    /// What is sealed of a message that is worth delivering until `deadline`.
    pub fn of(message: &'a Message, deadline: Deadline, keys: &TokenKeys) -> Self {
        if !message.acks {
            return Self { bytes: Cow::Borrowed(&message.payload), overhead: 0 };
        }
        let envelope = Envelope::of(&message.key(), &message.payload, deadline, keys);
        Self { overhead: envelope.overhead(), bytes: Cow::Owned(envelope.into_plaintext()) }
    }

    /// The bytes, for the one who seals them.
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
    use crate::message::{Inbound, QueueKind, parse};
    use crate::time::Timestamp;

    fn message(payload: usize, rest: &str) -> Message {
        let text = "x".repeat(payload);
        let body =
            format!(r#"{{"tenant":"acme","id":"m1","to":{{"subscription":"s1"}},"payload":"{text}"{rest}}}"#);
        match parse(&body, QueueKind::Ingest, "m", Timestamp::from_secs(1_800_000_000)).expect("valid") {
            Inbound::Message(message, _) => *message,
            Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..) => panic!("a message"),
        }
    }

    fn told(message: &Message) -> Option<String> {
        let keys = TokenKeys::new([("k1".to_owned(), [7; TokenKeys::KEY_BYTES])]).expect("valid");
        let deadline = message.deadline(Channel::WebPush, Timestamp::from_secs(1_800_000_000));
        Plaintext::of(message, deadline, &keys).too_long().map(|it| it.to_string())
    }

    #[test]
    fn without_acknowledgements_it_is_the_payload() {
        assert_eq!(told(&message(3993, "")), None);
        assert_eq!(
            told(&message(3994, r#","acks":false"#)).as_deref(),
            Some("payload: 3994 bytes, and web push carries at most 3993")
        );
    }

    #[test]
    fn the_envelope_counts() {
        let with_acks = |payload| told(&message(payload, r#","acks":true"#));
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
