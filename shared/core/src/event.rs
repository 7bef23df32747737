//! Events for producers.
//!
//! One event for each end of a delivery, for each first acknowledgement by its user, and for each subscription that is removed or
//! switched off; at least once each. A delivery's event is durable before its message is acknowledged: if a worker dies in between, the
//! next one emits the same event again.

use serde_json::{Value, json};

use crate::ack::AckEvent;
use crate::identity::{DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use crate::ledger;
use crate::message::ProducerRef;
use crate::queue::{Outgoing, Queue};
use crate::reason::Reason;
use crate::route::DelaySeconds;
use crate::time::Timestamp;

pub const VERSION: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The end of a delivery. `sent` means that the push service accepted it; acknowledgements are events of their own.
    Delivery(ledger::State),
    Acknowledged(AckEvent),
    Pruned,
    /// A subscription was switched off: its endpoint went with an unusual number of others, and an operator decides.
    Quarantined,
    /// A webhook's subscription was switched off: its receiver answered 410, or failed for days.
    Disabled,
}

impl State {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Delivery(state) => state.label(),
            Self::Acknowledged(event) => event.label(),
            Self::Pruned => "pruned",
            Self::Quarantined => "quarantined",
            Self::Disabled => "disabled",
        }
    }
}

/// About a delivery, a subscription, or a delivery to a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    tenant: Tenant,
    id: Option<String>,
    producer_ref: Option<ProducerRef>,
    subscription: Option<SubscriptionId>,
    state: State,
    reason: Option<Reason>,
    status: Option<u16>,
    at: Timestamp,
}

impl Event {
    /// A delivery came to `state` at `at`.
    pub fn of_delivery(key: &DeliveryKey, state: State, at: Timestamp) -> Self {
        Self {
            tenant: key.tenant.clone(),
            id: Some(key.id.to_string()),
            producer_ref: None,
            subscription: None,
            state,
            reason: None,
            status: None,
            at,
        }
    }

    /// A subscription came to `state` at `at`.
    pub fn of_subscription(
        key: &SubscriptionKey,
        state: State,
        reason: Option<Reason>,
        at: Timestamp,
    ) -> Self {
        Self {
            tenant: key.tenant.clone(),
            id: None,
            producer_ref: None,
            subscription: Some(key.id.clone()),
            state,
            reason,
            status: None,
            at,
        }
    }

    #[must_use]
    pub fn with_ref(mut self, producer_ref: Option<ProducerRef>) -> Self {
        self.producer_ref = producer_ref;
        self
    }

    /// With the subscription that the delivery went to.
    #[must_use]
    pub fn to(mut self, subscription: Option<SubscriptionId>) -> Self {
        self.subscription = subscription;
        self
    }

    #[must_use]
    pub fn because(mut self, reason: Option<Reason>, status: Option<u16>) -> Self {
        self.reason = reason;
        self.status = status;
        self
    }

    /// JSON in which every field is always present, perhaps `null`. Never log what this returns: it has the producer's reference.
    pub fn to_body(&self) -> String {
        let body: Value = json!({
            "v": VERSION,
            "tenant": self.tenant.as_str(),
            "id": self.id,
            "ref": self.producer_ref.as_ref().map(ProducerRef::expose),
            "subscription": self.subscription.as_ref().map(SubscriptionId::as_str),
            "state": self.state.label(),
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{delivery, subscription, time};

    #[test]
    fn every_field_is_always_present() {
        let at = time("2026-11-21T10:00:00Z");
        let event = Event::of_delivery(&delivery("m1"), State::Delivery(ledger::State::Failed), at)
            .because(Some(Reason::RetriesExhausted), Some(503));
        let body: Value = serde_json::from_str(&event.to_body()).expect("JSON");
        assert_eq!(
            body,
            json!({
                "v": 1, "tenant": "acme", "id": "m1", "ref": null, "subscription": null, "state": "failed",
                "reason": "retries_exhausted", "status": 503, "at": "2026-11-21T10:00:00.000Z",
            })
        );
    }

    #[test]
    fn an_event_of_a_subscription_has_no_delivery() {
        let key = subscription("s1");
        let event = Event::of_subscription(&key, State::Pruned, Some(Reason::Gone), Timestamp::from_secs(1));
        let body: Value = serde_json::from_str(&event.to_body()).expect("JSON");
        assert_eq!((&body["id"], &body["subscription"]), (&Value::Null, &json!("s1")));
        assert_eq!((&body["state"], &body["reason"]), (&json!("pruned"), &json!("gone")));
    }
}
