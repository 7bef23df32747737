//! What a message carries with it from one attempt to the next.
//!
//! On the retry queues, in parking and in the dead-letter store a message keeps its own fields as they were written, and beside
//! them stand these: `lineage`, `retry_count`, `original_timestamp` (epoch ms), `ttl_remaining` (seconds, when it was
//! enqueued; a message without a TTL has none), `not_before` (epoch ms), and `deferred_from`, the MessageId of the SQS message in
//! whose place this one is, if that was held back. The ledger takes the two for one: what a crash left undone of the first, the
//! second one does. A message that errors of our own held up for long is sent again with `receives`, the number of receives
//! of its SQS messages so far, and with `unrecorded`, what its ledger entry still has to learn ([`Unrecorded`]).

use super::Message;
use crate::audience::RecipientRef;
use crate::identity::{Attempt, DeliveryKey, Lineage, Turn};
use crate::ledger::Unrecorded;
use crate::shape::{self, Object};
use crate::time::{Deadline, Timestamp};

/// The names of the travelling fields, which a producer may not use.
pub(super) const FIELDS: [&str; 8] = [
    "lineage",
    "retry_count",
    "original_timestamp",
    "ttl_remaining",
    "not_before",
    "deferred_from",
    "receives",
    "unrecorded",
];

/// Where a message is on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Travel {
    /// Which replay and which attempt this message is for.
    pub turn: Turn,
    /// When the first message of this delivery was sent to an ingest queue.
    pub first_sent: Timestamp,
    /// Not to be attempted before this.
    pub not_before: Option<Timestamp>,
    /// The MessageId of the SQS message that was held back for this turn, the first if several were.
    pub deferred_from: Option<String>,
    /// How often the SQS messages before this one were received: where the back-off goes on.
    pub receives: u32,
    /// What the ledger has still to learn of this turn, before anything else is done.
    pub unrecorded: Option<Box<Unrecorded>>,
}

impl Travel {
    /// The start of the way: a producer's message that was sent at `sent`.
    pub fn start(sent: Timestamp) -> Self {
        Self::to(Turn::default(), sent)
    }

    /// The way to this turn of a message that was first sent at `first_sent`.
    pub fn to(turn: Turn, first_sent: Timestamp) -> Self {
        Self { turn, first_sent, not_before: None, deferred_from: None, receives: 0, unrecorded: None }
    }

    /// The same for a store: without what only concerns the SQS message that it came by.
    #[must_use]
    pub fn for_the_store(&self) -> Self {
        Self { not_before: self.not_before, ..Self::to(self.turn, self.first_sent) }
    }

    /// Its fields as JSON, by their names.
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

    /// Takes the fields of the delivery of that `key`.
    pub(crate) fn take(object: &mut Object<'_>, key: Option<DeliveryKey>) -> Option<Self> {
        let whole = "an integer from 0";
        let small = |raw: &_| shape::unsigned(raw).and_then(|n| u32::try_from(n).ok());
        let time =
            |raw: &_| shape::unsigned(raw).and_then(|ms| i64::try_from(ms).ok()).map(Timestamp::from_ms);
        let lineage = object.optional("lineage", whole, small).unwrap_or(0);
        let attempt = object.required("retry_count", whole, small);
        let first_sent = object.required("original_timestamp", "epoch milliseconds", time);
        let not_before = object.optional("not_before", "epoch milliseconds", time);
        let deferred_from = object.optional("deferred_from", "a string", shape::string);
        // Written for whoever looks into the queue; what counts is the deadline, which does not drift.
        object.optional("ttl_remaining", whole, shape::unsigned);
        let receives = object.optional("receives", whole, small).unwrap_or(0);
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
        let mut fields = self.fields().to_vec();
        fields.extend(travel.fields(deadline, now));
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl Message {
    /// The body with which this message goes to an ingest queue: its own fields as they were written, and the id that it was
    /// given if it had none. Never log what this returns.
    pub fn expose_ingest_body(&self) -> String {
        self.body_with(&[])
    }

    /// The body with which this message goes on to a retry queue or into parking at `now`: the whole of it, or, for a recipient of
    /// an audience, a reference to what all of them get. Never log what this returns.
    pub fn expose_travel_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        match &self.recipient {
            None => self.expose_stored_body(travel, deadline, now),
            Some(recipient) => recipient.travel_body(travel, deadline, now),
        }
    }

    /// The body with which this message is stored at `now`, whole: what is kept of it must not need anything else. Never log what
    /// this returns.
    pub fn expose_stored_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        self.body_with(&travel.fields(deadline, now))
    }
}
