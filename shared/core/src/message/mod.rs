//! The message: what a producer puts on an ingest queue, parsed.
//!
//! A [`Message`] that exists is valid: [`parse()`] is the only way to one. It keeps the fields as they were written, so that it
//! travels on to retry queues, parking and the dead-letter store with its payload byte for byte.

mod delivery_options;
pub mod parse;
mod refusal;
mod to;
pub mod travel;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

pub use delivery_options::{Class, EventType, Topic, Urgency};
pub use parse::{Inbound, QueueKind, parse};
pub use refusal::Refusal;
pub(crate) use to::PushFields;
pub use to::To;
pub use travel::Travel;

use crate::audience::{RecipientRef, RunKey};
use crate::channel::Channel;
use crate::endpoint::{EndpointHash, HashKeys};
use crate::identity::{DeliveryId, DeliveryKey, SubscriptionId, Tenant};
use crate::payload::Payload;
use crate::policy::Policy;
use crate::time::{Deadline, Timestamp, Ttl};
use crate::webhook::CustomHeaders;

/// The version of the wire format.
pub const VERSION: u64 = 1;

/// The longest message that a producer may send, in bytes of its fields: SQS's own limit (SendMessage API reference), less what
/// is written beside them when the message travels.
pub const MOST_BYTES: usize = 1_048_576 - 2_048;

/// The published JSON Schema of a message.
pub const SCHEMA: &str = include_str!("../../../../infra/schema/message.v1.json");

/// A valid message.
#[derive(Clone)]
pub struct Message {
    /// Whose it is.
    pub tenant: Tenant,
    /// Its correlation id.
    pub id: DeliveryId,
    /// Where the id comes from.
    pub id_source: IdSource,
    /// Who is to get it.
    pub to: To,
    /// What they are to get.
    pub payload: Payload,
    /// The producer's own reference.
    pub producer_ref: Option<ProducerRef>,
    /// How long it is worth delivering, if it says so itself; see [`Message::ttl_on`].
    pub ttl: Option<Ttl>,
    /// Its class.
    pub class: Class,
    /// How urgent it is.
    pub urgency: Option<Urgency>,
    /// What it replaces.
    pub topic: Option<Topic>,
    /// The policy that it asks for; without one, [`crate::policy::choice`] finds it.
    pub retry: Option<Arc<Policy>>,
    /// Headers for a webhook, beside Redial's own.
    pub headers: CustomHeaders,
    /// What kind of event it tells of.
    pub event_type: Option<EventType>,
    /// Not to be sent before this.
    pub deliver_at: Option<Timestamp>,
    /// Whether a browser is to acknowledge it: it gets an [`crate::ack::Envelope`]. Of no consequence to a webhook.
    pub acks: bool,
    /// The recipient of an audience that it is for: then it travels as a reference.
    recipient: Option<RecipientRef>,
    fields: Vec<(String, Box<RawValue>)>,
}

/// Where a message's id comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdSource {
    /// The producer gave it: reusing it for another content is a conflict.
    Producer,
    /// A hash of the producer's idempotency key: the same key is the same delivery.
    IdempotencyKey,
    /// The SQS MessageId.
    SqsMessageId,
}

/// A producer's own reference: opaque, handed back in events, never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct ProducerRef(String);

impl ProducerRef {
    /// The text, for events. Never log what this returns.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProducerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProducerRef(redacted)")
    }
}

impl Message {
    /// The key of its delivery.
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }

    /// How long it is worth delivering on this channel: as it says itself; else a web push as long as its class's, and a
    /// webhook whenever it is.
    pub fn ttl_on(&self, channel: Channel) -> Ttl {
        self.ttl.unwrap_or(match channel {
            Channel::WebPush => self.class.web_push_ttl(),
            Channel::Webhook => Ttl::UNLIMITED,
        })
    }

    /// When its TTL on this channel is over. The clock starts at the later of its first SentTimestamp and `deliver_at`.
    pub fn deadline(&self, channel: Channel, first_sent: Timestamp) -> Deadline {
        let start = self.deliver_at.map_or(first_sent, |at| at.max(first_sent));
        self.ttl_on(channel).deadline_from(start)
    }

    /// A fingerprint of what is delivered to whom: two messages with the same id and another fingerprint conflict.
    pub fn fingerprint(&self, keys: &HashKeys) -> EndpointHash {
        let mut content = Vec::with_capacity(self.payload.len() + 128);
        match &self.to {
            To::Subscription(id) => {
                content.extend_from_slice(b"subscription\0");
                content.extend_from_slice(id.as_str().as_bytes());
            }
            To::WebPush(target) => {
                content.extend_from_slice(b"web_push\0");
                content.extend_from_slice(target.endpoint.expose().as_str().as_bytes());
            }
            To::Webhook(endpoint) => {
                content.extend_from_slice(b"webhook\0");
                content.extend_from_slice(endpoint.expose().as_str().as_bytes());
            }
            To::Audience(audience) => {
                content.extend_from_slice(b"audience\0");
                content.extend_from_slice(audience.tag.as_str().as_bytes());
            }
        }
        content.push(0);
        content.extend_from_slice(self.payload.expose());
        keys.fingerprint(&content)
    }

    /// The same message, for one recipient of its audience.
    #[must_use]
    pub fn to_recipient(&self, recipient: &RecipientRef) -> Self {
        let json = |value: serde_json::Value| {
            RawValue::from_string(value.to_string()).expect("invariant: serde_json writes JSON")
        };
        let own = ["id", "idempotency_key", "to"];
        let mut message = self.clone();
        message.fields.retain(|(name, _)| !own.contains(&name.as_str()));
        message.fields.push(("id".to_owned(), json(recipient.id.as_str().into())));
        let to = serde_json::json!({ "subscription": recipient.subscription.as_str() });
        message.fields.push(("to".to_owned(), json(to)));
        message.id = recipient.id.clone();
        message.id_source = IdSource::Producer;
        message.to = To::Subscription(recipient.subscription.clone());
        message.recipient = Some(recipient.clone());
        message
    }

    /// Whether it is for one recipient of an audience.
    pub fn is_for_a_recipient(&self) -> bool {
        self.recipient.is_some()
    }

    /// The same message, as long as any recipient's of its audience; itself where it is for none.
    #[must_use]
    pub fn as_long_as_a_recipient_s(&self) -> Cow<'_, Self> {
        match &self.to {
            To::Audience(_) => {
                let anybody = SubscriptionId::parse("anybody").expect("invariant: the constant is an id");
                Cow::Owned(
                    self.to_recipient(&RecipientRef::new(&RunKey::without_opening(&self.key()), anybody)),
                )
            }
            To::Subscription(_) | To::WebPush(_) | To::Webhook(_) => Cow::Borrowed(self),
        }
    }

    /// The length of its own fields as they travel, in bytes.
    fn bytes(&self) -> usize {
        let of_field =
            |(name, value): &(String, Box<RawValue>)| r#""":,"#.len() + name.len() + value.get().len();
        // Two braces, and one comma less than fields.
        1 + self.fields.iter().map(of_field).sum::<usize>()
    }

    /// The message as JSON with these fields added; a field of its own of that name is left out.
    fn body_with(&self, added: &[(&str, String)]) -> String {
        let mut body = String::with_capacity(256 + self.payload.len() * 2);
        body.push('{');
        let mut push = |name: &str, value: &str| {
            if body.len() > 1 {
                body.push(',');
            }
            body.push_str(&serde_json::Value::from(name).to_string());
            body.push(':');
            body.push_str(value);
        };
        for (name, value) in &self.fields {
            if !added.iter().any(|(known, _)| known == name) {
                push(name, value.get());
            }
        }
        if self.id_source == IdSource::SqsMessageId {
            push("id", &serde_json::Value::from(self.id.as_str()).to_string());
        }
        for (name, value) in added {
            push(name, value);
        }
        body.push('}');
        body
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("tenant", &self.tenant)
            .field("id", &self.id)
            .field("class", &self.class)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}
