//! What a message carries with it from one attempt to the next.
//!
//! On the retry queues, in parking and in the dead-letter store a message keeps its own fields as they were written, and beside
//! them stand these: `lineage`, `retry_count`, `original_timestamp` (epoch ms), `ttl_remaining` (seconds, when it was
//! enqueued; a message without a TTL has none), `not_before` (epoch ms), and `deferred_from`, the MessageId of the SQS message in
//! whose place this one is, if that was held back. The ledger takes the two for one: what a crash left undone of the first, the
//! second one does.

use super::Message;
use crate::identity::{Attempt, Lineage, Turn};
use crate::shape::{self, Object};
use crate::time::{Deadline, Timestamp};

/// The names of the travelling fields, which a producer may not use.
pub(super) const FIELDS: [&str; 6] =
    ["lineage", "retry_count", "original_timestamp", "ttl_remaining", "not_before", "deferred_from"];

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
}

impl Travel {
    /// The start of the way: a producer's message that was sent at `sent`.
    pub fn start(sent: Timestamp) -> Self {
        Self { turn: Turn::default(), first_sent: sent, not_before: None, deferred_from: None }
    }

    pub(super) fn take(object: &mut Object<'_>) -> Option<Self> {
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
        Some(Self {
            turn: Turn { lineage: Lineage(lineage), attempt: Attempt(attempt?) },
            first_sent: first_sent?,
            not_before,
            deferred_from,
        })
    }
}

impl Message {
    /// The body with which this message goes on to a retry queue or into parking at `now`. Never log what this
    /// returns.
    pub fn expose_travel_body(&self, travel: &Travel, deadline: Deadline, now: Timestamp) -> String {
        let mut added = vec![
            ("lineage", travel.turn.lineage.0.to_string()),
            ("retry_count", travel.turn.attempt.0.to_string()),
            ("original_timestamp", travel.first_sent.as_ms().to_string()),
        ];
        if deadline.is_limited() {
            added.push(("ttl_remaining", deadline.remaining(now).as_millis().div_ceil(1000).to_string()));
        }
        if let Some(not_before) = travel.not_before {
            added.push(("not_before", not_before.as_ms().to_string()));
        }
        if let Some(from) = &travel.deferred_from {
            added.push(("deferred_from", serde_json::Value::from(from.as_str()).to_string()));
        }
        self.body_with(&added)
    }
}
