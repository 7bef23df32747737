//! What a message carries from one attempt to the next.
//!
//! On the retry queues, in parking and in the dead-letter store a message keeps its own fields as they were written, and these besides:
//! `lineage`, `retry_count`, `original_timestamp` (epoch ms), `ttl_remaining` (seconds, when it was enqueued; a message without a TTL
//! has none), `not_before` (epoch ms), and `deferred_from`, the MessageId of the SQS message that this one replaces, if that was held
//! back: the ledger treats both as one, and the second finishes what a crash left undone of the first. A message that our own errors
//! delayed for long is sent again with `receives`, the number of receives of its SQS messages so far, and with `unrecorded`, the record
//! that its ledger entry still lacks ([`Unrecorded`]).

use super::Message;
use crate::audience::{RecipientRef, RunKey};
use crate::identity::{
    Attempt, DeliveryId, DeliveryKey, ID_FORM, Lineage, RunId, SubscriptionId, Tenant, Turn,
};
use crate::ledger::Unrecorded;
use crate::shape::{self, Object, text};
use crate::time::{Deadline, Timestamp};

/// Whether a field travels, so that a producer may not use its name.
pub(super) fn is_field(name: &str) -> bool {
    let of_the_turn = matches!(name, "lineage" | "retry_count" | "original_timestamp" | "ttl_remaining");
    of_the_turn || matches!(name, "not_before" | "deferred_from" | "receives" | "unrecorded")
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Travel {
    pub turn: Turn,
    /// When the first message of this delivery was sent to an ingest queue.
    pub first_sent: Timestamp,
    pub not_before: Option<Timestamp>,
    /// The MessageId of the SQS message that was held back for this turn, the first if several were.
    pub deferred_from: Option<String>,
    /// How often the SQS messages before this one were received: the back-off continues from here.
    pub receives: u32,
    /// The record that the ledger lacks of this turn. It is written before anything else is done.
    pub unrecorded: Option<Box<Unrecorded>>,
}

impl Travel {
    pub fn start(sent: Timestamp) -> Self {
        Self::to(Turn::default(), sent)
    }

    pub fn to(turn: Turn, first_sent: Timestamp) -> Self {
        Self { turn, first_sent, not_before: None, deferred_from: None, receives: 0, unrecorded: None }
    }

    /// Without what concerns only the SQS message that it came by.
    #[must_use]
    pub fn for_the_store(&self) -> Self {
        Self { not_before: self.not_before, ..Self::to(self.turn, self.first_sent) }
    }

    fn fields(&self, deadline: Deadline, now: Timestamp) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("lineage", self.turn.lineage.0.to_string()),
            ("retry_count", self.turn.attempt.0.to_string()),
            ("original_timestamp", self.first_sent.as_ms().to_string()),
        ];
        if deadline.is_limited() {
            fields.push(("ttl_remaining", deadline.remaining(now).as_millis().div_ceil(1000).to_string()));
        }
        if let Some(not_before) = self.not_before {
            fields.push(("not_before", not_before.as_ms().to_string()));
        }
        if let Some(from) = &self.deferred_from {
            fields.push(("deferred_from", serde_json::Value::from(from.as_str()).to_string()));
        }
        if self.receives > 0 {
            fields.push(("receives", self.receives.to_string()));
        }
        fields.extend(self.unrecorded.as_ref().map(|unrecorded| ("unrecorded", unrecorded.to_json())));
        fields
    }

    pub(super) fn take(object: &mut Object<'_>, key: Option<DeliveryKey>) -> Option<Self> {
        let whole = "an integer from 0";
        let small = shape::integer::<u32>(0..=u64::MAX);
        let ms = shape::integer::<i64>(0..=u64::MAX);
        let time = |raw: &_| ms(raw).map(Timestamp::from_ms);
        let lineage = object.optional("lineage", whole, &small).unwrap_or(0);
        let attempt = object.required("retry_count", whole, &small);
        let first_sent = object.required("original_timestamp", "epoch milliseconds", time);
        let not_before = object.optional("not_before", "epoch milliseconds", time);
        let deferred_from = object.optional("deferred_from", "a string", shape::string);
        // Written for operators who inspect the queue. The deadline decides: it does not drift.
        object.optional("ttl_remaining", whole, shape::unsigned);
        let receives = object.optional("receives", whole, &small).unwrap_or(0);
        let turn = Turn { lineage: Lineage(lineage), attempt: Attempt(attempt?) };
        let unrecorded = object.optional("unrecorded", shape::NO_SUCH_FIELD, |raw| {
            Some(Box::new(Unrecorded::from_json(raw.get(), key?, turn)?))
        });
        Some(Self { turn, first_sent: first_sent?, not_before, deferred_from, receives, unrecorded })
    }
}

impl RecipientRef {
    /// The body with which this reference goes on to a retry queue or into parking at `now`.
    pub fn travel_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let own = [
            ("tenant", json(self.run.tenant.as_str())),
            ("id", json(self.id.as_str())),
            ("audience", json(self.run.id.as_str())),
            ("recipient", json(self.subscription.as_str())),
        ];
        let travel = travel.fields(deadline, now);
        shape::object(own.iter().chain(&travel).map(|(name, value)| (*name, value.as_str())))
    }

    /// Takes a reference and its travel out of a body; `None` if it has no `audience`.
    pub(super) fn take(object: &mut Object<'_>) -> Option<(Self, Travel)> {
        object.raw("audience")?;
        let run = object.required("audience", ID_FORM, text(RunId::parse));
        let tenant = object.required("tenant", "a tenant", text(Tenant::parse));
        let id = object.required("id", ID_FORM, text(DeliveryId::parse));
        let subscription = object.required("recipient", ID_FORM, text(SubscriptionId::parse));
        let key = tenant.clone().zip(id.clone()).map(|(tenant, id)| DeliveryKey { tenant, id });
        let travel = Travel::take(object, key);
        let run = RunKey { tenant: tenant?, id: run? };
        Some((Self { run, id: id?, subscription: subscription? }, travel?))
    }
}

impl Message {
    /// The body for an ingest queue: the message's own fields as they were written, and its id if it had none. Never log what this
    /// returns.
    pub fn expose_ingest_body(&self) -> String {
        self.body_with(&[])
    }

    /// The body for a retry queue or for parking at `now`: the whole message, or, for a recipient of an audience, a reference to the
    /// run's message. Never log what this returns.
    pub fn expose_travel_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        match &self.recipient {
            None => self.expose_stored_body(travel, deadline, now),
            Some(recipient) => recipient.travel_body(travel, deadline, now),
        }
    }

    /// The body to store at `now`: always the whole message, so that it needs nothing else. Never log what this returns.
    pub fn expose_stored_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        self.body_with(&travel.fields(deadline, now))
    }
}
