//! Events out: what a producer's own tables are told.
//!
//! One event for each end of a delivery, for each first acknowledgement by its user, and for each subscription that is
//! removed or switched off; at least once each. A delivery's event is durable before its message is acknowledged: whoever
//! dies in between leaves the message to the next worker, which tells it again, word for word.

use serde_json::{Value, json};

use crate::ack::AckEvent;
use crate::identity::{DeliveryKey, SubscriptionId, SubscriptionKey};
use crate::ledger;
use crate::message::ProducerRef;
use crate::queue::{Outgoing, Queue};
use crate::reason::Reason;
use crate::route::DelaySeconds;
use crate::time::Timestamp;

pub const VERSION: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A delivery ended so. A push that is `sent` was accepted by its push service; whether anybody saw it is told apart.
    Delivery(ledger::State),
    Acknowledged(AckEvent),
    /// A subscription was removed: its endpoint is gone.
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

/// An event. What it is about is a delivery, a subscription, or a delivery to a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    tenant: crate::identity::Tenant,
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

    /// With why it ended so, and the HTTP status of its last attempt.
    #[must_use]
    pub fn because(mut self, reason: Option<Reason>, status: Option<u16>) -> Self {
        self.reason = reason;
        self.status = status;
        self
    }

    /// Its JSON: every field is always there, `null` where there is nothing to say. Never log what this returns: it holds the
    /// producer's reference.
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
    use crate::identity::{DeliveryId, Tenant};

    fn tenant() -> Tenant {
        Tenant::parse("acme").expect("valid")
    }

    #[test]
    fn every_field_is_always_there() {
        let key = DeliveryKey { tenant: tenant(), id: DeliveryId::parse("m1").expect("valid") };
        let at = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid");
        let event = Event::of_delivery(&key, State::Delivery(ledger::State::Failed), at)
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
    fn a_subscription_s_event_has_no_delivery() {
        let id = SubscriptionId::parse("s1").expect("valid");
        let key = SubscriptionKey { tenant: tenant(), id };
        let event = Event::of_subscription(&key, State::Pruned, Some(Reason::Gone), Timestamp::from_secs(1));
        let body: Value = serde_json::from_str(&event.to_body()).expect("JSON");
        assert_eq!((&body["id"], &body["subscription"]), (&Value::Null, &json!("s1")));
        assert_eq!((&body["state"], &body["reason"]), (&json!("pruned"), &json!("gone")));
    }
}
