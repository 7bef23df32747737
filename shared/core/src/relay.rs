//! Events that go on from the stack's own queue to several targets.
//!
//! An event is read only as far as its targets need it, and goes on as it was written, so that a worker passes on what a newer release
//! announces.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::delivery_options::Class;
use crate::identity::{DeliveryId, SubscriptionId, Tenant, hashed};
use crate::message;
use crate::queue::{Attribute, Outgoing, Queue};
use crate::route::DelaySeconds;
use crate::shape;
use crate::targets::Targets;
use crate::time::Timestamp;

/// The `source` of events on a bus.
pub const SOURCE: &str = "redial";

/// The longest name of a state.
const LONGEST_STATE: usize = 64;

/// How long an event waits that some of its targets have, before the others are given it again.
const WAIT: Duration = Duration::from_secs(180);

/// Callbacks keep out of the way of what users wait for.
const CLASS: Class = Class::Campaign;

#[derive(Clone, PartialEq, Eq)]
pub struct Relayed {
    pub tenant: Tenant,
    /// Of the delivery that it is about.
    pub id: Option<DeliveryId>,
    /// The subscription that it is about, or that the delivery went to.
    pub subscription: Option<SubscriptionId>,
    state: String,
    at: String,
    body: String,
}

/// What a bus is given of an event.
#[derive(Clone, PartialEq, Eq)]
pub struct BusEvent {
    pub detail_type: String,
    /// The event's JSON. Never log it.
    pub detail: String,
    /// When that which it reports happened; `None` if this release cannot read the time.
    pub at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Fields {
    tenant: Tenant,
    id: Option<DeliveryId>,
    subscription: Option<SubscriptionId>,
    state: String,
    at: String,
}

impl Relayed {
    /// Reads an event's body; `None` if it is no event.
    pub fn read(body: &str) -> Option<Self> {
        let Fields { tenant, id, subscription, state, at } = serde_json::from_str(body).ok()?;
        let has_length = (1..=LONGEST_STATE).contains(&state.len());
        let is_label = has_length && state.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_label.then(|| Self { tenant, id, subscription, state, at, body: body.to_owned() })
    }

    /// `delivery.` or `subscription.` and the state: `delivery.sent`, `subscription.pruned`.
    pub fn kind(&self) -> String {
        let of = if self.id.is_some() { "delivery" } else { "subscription" };
        format!("{of}.{}", self.state)
    }

    /// The same event once more on the stack's own queue, for these targets alone.
    pub fn to_rest(&self, rest: Targets) -> Outgoing {
        Outgoing {
            queue: Queue::Events,
            delay: DelaySeconds::floor(WAIT, DelaySeconds::MOST),
            attribute: Some(Attribute::Targets(rest)),
            ..self.to_queue()
        }
    }

    pub fn to_queue(&self) -> Outgoing {
        Outgoing {
            attribute: None,
            queue: Queue::ProducersEvents,
            body: self.body.clone(),
            delay: DelaySeconds::ZERO,
            tenant: Some(self.tenant.clone()),
        }
    }

    /// The message that posts the event, whose own message was sent at `sent`, to a webhook. Its id is a digest of both, so that an event that is
    /// relayed twice is one delivery; of the event without its `ref`, because ids are logged. `None` for an event about that
    /// webhook itself.
    pub fn to_callback(&self, webhook: &SubscriptionId, sent: Timestamp) -> Option<Outgoing> {
        if self.id.is_none() && self.subscription.as_ref() == Some(webhook) {
            return None;
        }
        let of = [
            webhook.as_str(),
            self.id.as_ref().map_or("", DeliveryId::as_str),
            self.subscription.as_ref().map_or("", SubscriptionId::as_str),
            &self.state,
            &self.at,
        ];
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let fields = [
            ("v", message::VERSION.to_string()),
            ("tenant", json(self.tenant.as_str())),
            ("id", json(&format!("callback-{}", hashed(&of.join("\0"))))),
            ("to", serde_json::json!({ "callback": webhook }).to_string()),
            ("payload", self.body.clone()),
            ("class", json(CLASS.label())),
            ("event_type", json(&self.kind())),
            ("retry_count", "0".to_owned()),
            ("original_timestamp", sent.as_ms().to_string()),
        ];
        Some(Outgoing {
            attribute: None,
            queue: Queue::Retry(CLASS.lane()),
            body: shape::object(fields.iter().map(|(name, value)| (*name, value.as_str()))),
            delay: DelaySeconds::ZERO,
            tenant: Some(self.tenant.clone()),
        })
    }

    pub fn to_bus(&self) -> BusEvent {
        BusEvent {
            detail_type: self.kind(),
            detail: self.body.clone(),
            at: Timestamp::parse_rfc3339(&self.at),
        }
    }
}

/// An event has its producer's reference.
impl fmt::Debug for Relayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relayed").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl fmt::Debug for BusEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusEvent").field("detail_type", &self.detail_type).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
