//! Events for producers.
//!
//! One event for each end of a delivery, for each first acknowledgement by its user, and for each subscription that is removed,
//! switched off, or becomes suspect; at least once each. A delivery's event is durable before its message is acknowledged: if a worker dies in between, the
//! next one emits the same event again.

use serde_json::{Value, json};

use crate::ack::AckEvent;
use crate::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use crate::ledger;
use crate::message::{Message, ProducerRef, To};
use crate::queue::{Outgoing, Queue};
use crate::reason::Reason;
use crate::route::DelaySeconds;
use crate::tag::MessageTags;
use crate::time::Timestamp;
use crate::traceparent::Traceparent;

pub const VERSION: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The end of a delivery. `sent` means that the push service accepted it; acknowledgements are events of their own.
    Delivery(End),
    Acknowledged(AckEvent),
    Pruned,
    /// A subscription was switched off: its endpoint went with an unusual number of others, and an operator decides.
    Quarantined,
    /// A webhook's subscription was switched off: its receiver answered 410, or failed for days.
    Disabled,
    /// Its dead letters made a browser's subscription suspect.
    Suspect,
    /// A suspect subscription's push service accepted a message.
    Verified,
}

impl State {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Delivery(End(state)) => state.label(),
            Self::Acknowledged(event) => event.label(),
            Self::Pruned => "pruned",
            Self::Quarantined => "quarantined",
            Self::Disabled => "disabled",
            Self::Suspect => "suspect",
            Self::Verified => "verified",
        }
    }
}

/// The end of a delivery that its producer sent. That of a callback is none: it would be announced by an event about an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End(ledger::State);

impl End {
    pub const fn of(message: &Message, state: ledger::State) -> Option<Self> {
        match message.to {
            To::Callback(_) => None,
            To::Subscription(_) | To::WebPush(_) | To::Webhook(_) | To::Audience(_) => Some(Self(state)),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub tenant: Tenant,
    pub id: Option<DeliveryId>,
    pub producer_ref: Option<ProducerRef>,
    /// The subscription that it is about, or that the delivery went to.
    pub subscription: Option<SubscriptionId>,
    pub state: State,
    /// Those of the message.
    pub tags: MessageTags,
    /// That of the message, where the event is about a delivery's end.
    pub traceparent: Option<Traceparent>,
    pub reason: Option<Reason>,
    pub status: Option<u16>,
    pub at: Timestamp,
}

impl Event {
    fn new(tenant: &Tenant, state: State, at: Timestamp) -> Self {
        let (tenant, id, producer_ref, subscription) = (tenant.clone(), None, None, None);
        let (tags, traceparent, reason, status) = (MessageTags::default(), None, None, None);
        Self { tenant, id, producer_ref, subscription, state, tags, traceparent, reason, status, at }
    }

    pub fn of_delivery(key: &DeliveryKey, state: State, at: Timestamp) -> Self {
        Self { id: Some(key.id.clone()), ..Self::new(&key.tenant, state, at) }
    }

    pub fn of_subscription(
        key: &SubscriptionKey,
        state: State,
        reason: Option<Reason>,
        at: Timestamp,
    ) -> Self {
        Self { subscription: Some(key.id.clone()), reason, ..Self::new(&key.tenant, state, at) }
    }

    /// JSON in which every field is always present, perhaps `null`. Never log what this returns: it has the producer's reference.
    pub fn to_body(&self) -> String {
        let body: Value = json!({
            "v": VERSION,
            "tenant": self.tenant.as_str(),
            "id": self.id,
            "ref": self.producer_ref.as_ref().map(ProducerRef::expose),
            "subscription": self.subscription,
            "state": self.state.label(),
            "tags": self.tags,
            "traceparent": self.traceparent.map(|it| it.to_string()),
            "reason": self.reason.map(Reason::label),
            "status": self.status,
            "at": self.at.to_rfc3339(),
        });
        body.to_string()
    }

    pub fn outgoing(&self) -> Outgoing {
        Outgoing {
            queue: Queue::Events,
            body: self.to_body(),
            delay: DelaySeconds::ZERO,
            tenant: Some(self.tenant.clone()),
            attribute: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{delivery, subscription, time};

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn every_field_is_always_present() {
        let at = time("2026-11-21T10:00:00Z");
        let (failed, gone) = (State::Delivery(End(ledger::State::Failed)), Some(Reason::Gone));
        let of_delivery = Event {
            tags: MessageTags::from_text("eu order").expect("two tags"),
            traceparent: Traceparent::parse(TRACEPARENT),
            reason: Some(Reason::RetriesExhausted),
            status: Some(503),
            ..Event::of_delivery(&delivery("m1"), failed, at)
        };
        let of_subscription = Event::of_subscription(&subscription("s1"), State::Pruned, gone, at);
        for (event, id, subscription, state, (tags, traceparent), reason, status) in [
            (
                of_delivery,
                json!("m1"),
                json!(null),
                "failed",
                (json!(["eu", "order"]), json!(TRACEPARENT)),
                "retries_exhausted",
                json!(503),
            ),
            (
                of_subscription,
                json!(null),
                json!("s1"),
                "pruned",
                (json!([]), json!(null)),
                "gone",
                json!(null),
            ),
        ] {
            let body: Value = serde_json::from_str(&event.to_body()).expect("JSON");
            let expected = json!({
                "v": 1, "tenant": "acme", "id": id, "ref": null, "subscription": subscription, "state": state,
                "tags": tags, "traceparent": traceparent, "reason": reason, "status": status, "at": "2026-11-21T10:00:00.000Z",
            });
            assert_eq!(body, expected);
        }
    }
}
