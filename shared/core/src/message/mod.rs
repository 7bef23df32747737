//! The message: what a producer puts on an ingest queue, parsed.
//!
//! A [`Message`] that exists is valid: [`parse()`] is the only way to one. It keeps the fields as they were written, so that it
//! travels on to retry queues, parking and the dead-letter store with its payload byte for byte.

pub mod parse;
mod refusal;
mod to;
pub mod travel;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

pub use parse::{Inbound, QueueKind, parse, parse_to_send};
pub use refusal::{Refusal, meant_by};
pub use to::To;
pub use travel::Travel;

use crate::ack;
use crate::audience::{Opening, RecipientRef, RunKey, SHARDS};
use crate::channel::Channel;
use crate::delivery_options::{Class, EventType, Topic, Urgency};
use crate::endpoint::{EndpointHash, HashKeys};
use crate::hours::Hours;
use crate::identity::{DeliveryId, DeliveryKey, IdSource, SubscriptionId, Tenant, Turn};
use crate::ledger::{DEDUPE_WINDOW, Given};
use crate::notification::Notification;
use crate::page::Position;
use crate::payload::Payload;
use crate::policy::{Circumstances, Policy, TenantPolicies};
use crate::shape;
use crate::subscription::Terms;
use crate::tag::MessageTags;
use crate::text::redacted;
use crate::time::{Deadline, Timestamp, Ttl};
use crate::traceparent::Traceparent;
use crate::webhook::CustomHeaders;
use crate::zone::Zone;

pub const VERSION: u64 = 1;

/// The longest message that a producer may send, in bytes of its fields: SQS's own limit (SendMessage API reference), less what
/// is written beside them when the message travels.
pub const MOST_BYTES: usize = 1_048_576 - 2_048;

/// The longest message to an audience, in bytes of its fields. Its run is one item of DynamoDB's, which takes 400 KB, and holds what is
/// written beside them.
pub const MOST_BYTES_TO_AUDIENCE: usize = 380_000;

pub const SCHEMA: &str = include_str!("../../../../infra/schema/message.v1.json");

#[derive(Clone)]
pub struct Message {
    pub tenant: Tenant,
    pub id: DeliveryId,
    pub id_source: IdSource,
    pub to: To,
    /// That of a webhook, and what tells two messages of one id apart; for a browser see [`crate::plaintext`].
    pub payload: Payload,
    /// What a browser shows; `payload` is its document then.
    pub notification: Option<Box<Notification>>,
    pub producer_ref: Option<ProducerRef>,
    /// Its own TTL; see [`Message::ttl_on`].
    pub ttl: Option<Ttl>,
    pub class: Class,
    pub urgency: Option<Urgency>,
    pub topic: Option<Topic>,
    /// Its own policy; see [`Message::circumstances`].
    pub retry: Option<Arc<Policy>>,
    pub headers: CustomHeaders,
    pub event_type: Option<EventType>,
    pub deliver_at: Option<Timestamp>,
    pub deliver_between: Option<Hours>,
    /// Whether a browser is to acknowledge it: its payload comes in an envelope ([`crate::plaintext`]). Without effect on a webhook.
    pub acks: bool,
    /// By which its delivery is found again.
    pub tags: MessageTags,
    /// The span of its producer's that its attempts belong to.
    pub traceparent: Option<Traceparent>,
    /// The recipient of an audience: then the message travels as a reference.
    recipient: Option<RecipientRef>,
    fields: Vec<(String, Box<RawValue>)>,
}

/// A producer's own reference: opaque, returned in events, never logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerRef(String);

impl ProducerRef {
    pub const MOST_BYTES: usize = 128;

    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= Self::MOST_BYTES).then(|| Self(text.to_owned()))
    }

    /// The text, for events. Never log what this returns.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

redacted!(ProducerRef);

impl Message {
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }

    /// How long it is worth delivering on this channel: its own TTL; else its class's for a web push, and no limit for a webhook.
    pub fn ttl_on(&self, channel: Channel) -> Ttl {
        match channel {
            // A message to a subscription may have the TTL of a webhook, whose address is not known when it is read.
            Channel::WebPush => self.ttl.map_or(self.class.web_push_ttl(), |ttl| ttl.min(Ttl::MAX_WEB_PUSH)),
            Channel::Webhook => self.ttl.unwrap_or(Ttl::UNLIMITED),
        }
    }

    /// When its clock starts: at the later of its first SentTimestamp and `deliver_at`.
    pub fn starts_at(&self, first_sent: Timestamp) -> Timestamp {
        self.deliver_at.map_or(first_sent, |at| at.max(first_sent))
    }

    /// The first moment, not before `at`, at which its hours let it be delivered; `zone` is that of its recipient, where the message has
    /// none of its own.
    pub fn opening(&self, at: Timestamp, zone: impl FnOnce() -> Zone) -> Timestamp {
        let Some(hours) = &self.deliver_between else { return at };
        match hours.zone {
            Some(own) => hours.opening(at, own),
            // Its recipients have zones of their own: each of them waits for its hours.
            None if matches!(self.to, To::Audience(_)) => at,
            None => hours.opening(at, zone()),
        }
    }

    /// What the ledger holds of it, where its channel is known or the message says it all itself.
    pub fn given(&self, channel: Option<Channel>) -> Given {
        let ttl = channel.map_or(self.ttl, |channel| Some(self.ttl_on(channel)));
        Given { ttl: ttl.filter(|ttl| *ttl != Ttl::UNLIMITED), tags: self.tags.clone() }
    }

    /// When its TTL on this channel is over.
    pub fn deadline(&self, channel: Channel, first_sent: Timestamp) -> Deadline {
        self.ttl_on(channel).deadline_from(self.starts_at(first_sent))
    }

    /// A fingerprint of what is delivered to whom: two messages with the same id and another fingerprint conflict.
    pub fn fingerprint(&self, keys: &HashKeys) -> EndpointHash {
        let (kind, recipient) = match &self.to {
            To::Subscription(id) => ("subscription", id.as_str()),
            To::WebPush(target) => ("web_push", target.endpoint.expose().as_str()),
            To::Webhook(endpoint) => ("webhook", endpoint.expose().as_str()),
            To::Audience(audience) => ("audience", audience.tag.as_str()),
            To::Callback(id) => ("callback", id.as_str()),
        };
        let content = [kind.as_bytes(), recipient.as_bytes(), self.payload.expose()];
        keys.fingerprint(&content.join(&0))
    }

    pub fn circumstances<'a>(
        &'a self,
        channel: Channel,
        terms: &'a Terms,
        stored: &'a TenantPolicies,
    ) -> Circumstances<'a> {
        Circumstances {
            own: self.retry.as_ref(),
            subscription: terms.policy.as_ref(),
            topic: self.event_type.as_ref().or(terms.topic.as_ref()),
            stored,
            channel,
            class: self.class,
        }
    }

    #[must_use]
    pub fn to_recipient(&self, recipient: &RecipientRef) -> Self {
        let json = |value: serde_json::Value| {
            RawValue::from_string(value.to_string()).expect("invariant: serde_json writes JSON")
        };
        let mut fields = self.fields.clone();
        fields.retain(|(name, _)| !["id", "idempotency_key", "to"].contains(&name.as_str()));
        fields.push(("id".to_owned(), json(recipient.id.as_str().into())));
        let to = serde_json::json!({ "subscription": recipient.subscription.as_str() });
        fields.push(("to".to_owned(), json(to)));
        Self {
            id: recipient.id.clone(),
            id_source: IdSource::Producer,
            to: To::Subscription(recipient.subscription.clone()),
            recipient: Some(recipient.clone()),
            fields,
            ..self.clone()
        }
    }

    /// It, in this trace, unless it names one itself or would be too long with it.
    pub fn join(&mut self, traceparent: Traceparent) {
        let most = self.most_bytes() - (r#""":"","#.len() + Traceparent::NAME.len() + Traceparent::LENGTH);
        if self.traceparent.is_some() || self.bytes() > most {
            return;
        }
        let value = serde_json::Value::from(traceparent.to_string()).to_string();
        let value = RawValue::from_string(value).expect("invariant: serde_json writes JSON");
        self.fields.push((Traceparent::NAME.to_owned(), value));
        self.traceparent = Some(traceparent);
    }

    fn most_bytes(&self) -> usize {
        if matches!(self.to, To::Audience(_)) { MOST_BYTES_TO_AUDIENCE } else { MOST_BYTES }
    }

    pub fn is_for_a_recipient(&self) -> bool {
        self.recipient.is_some()
    }

    /// What its ledger entry has to outlast. A recipient's message may be on its way twice, because a page that is repeated after a
    /// crash is sent again, and the second may be held back for as long as its TTL lasts.
    pub fn entry_kept_until(&self, channel: Channel, deadline: Deadline) -> Option<Timestamp> {
        let may_come_twice = self.is_for_a_recipient() && deadline.is_limited();
        let outlives_its_copies = may_come_twice.then(|| deadline.at().plus(DEDUPE_WINDOW));
        // What is acknowledged of an audience are its recipients.
        let is_one_s = !matches!(self.to, To::Audience(_));
        let is_acknowledged = self.acks && channel == Channel::WebPush && is_one_s;
        let by_its_browser = is_acknowledged.then(|| ack::accepted_until(deadline));
        by_its_browser.max(outlives_its_copies)
    }

    /// The longest message that a recipient of its audience gets; the message itself where it has no audience. The ids of deliveries are
    /// longer where it is sent by the page.
    #[must_use]
    pub fn as_long_as_a_recipient_s(&self, by_the_page: bool) -> Cow<'_, Self> {
        if !matches!(self.to, To::Audience(_)) {
            return Cow::Borrowed(self);
        }
        let subscription = SubscriptionId::parse("anybody").expect("invariant: the constant is an id");
        let run = RunKey::new(&self.key(), Opening { turn: Turn::default(), at: Timestamp::default() });
        let recipient = RecipientRef::new(&run, subscription);
        let last = Position { run, shard: SHARDS - 1, number: u32::MAX };
        let id = if by_the_page { last.delivery() } else { recipient.id };
        Cow::Owned(self.to_recipient(&RecipientRef { id, ..recipient }))
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
        let is_own = |(name, _): &&(String, Box<RawValue>)| added.iter().all(|(known, _)| known != name);
        let own = self.fields.iter().filter(is_own).map(|(name, value)| (name.as_str(), value.get()));
        let id = serde_json::Value::from(self.id.as_str()).to_string();
        let id = (self.id_source == IdSource::SqsMessageId).then_some(("id", id.as_str()));
        let added = added.iter().map(|(name, value)| (*name, value.as_str()));
        shape::object(own.chain(id).chain(added))
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
