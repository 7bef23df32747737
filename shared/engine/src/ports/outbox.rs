//! The port to the queues that Redial writes to.

use std::fmt;
use std::future::Future;

use super::Answers;
use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::queue::Outgoing;

#[derive(Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The lane and kind of the queue that it came from.
    pub lane: Lane,
    /// See [`Self::lane`].
    pub kind: QueueKind,
    pub handle: String,
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("lane", &self.lane).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Sends messages, and says when received ones come back.
pub trait Outbox: Send + Sync {
    /// Whether there is a queue of events: without one, events are not sent.
    fn has_events(&self) -> bool;

    /// Puts these messages on their queues; an `Ok` is durable.
    fn send(&self, messages: Vec<Outgoing>) -> impl Answers<()>;

    /// Makes received messages come back, each after its number of seconds. Best effort: where it fails, they come back when the
    /// queue's own visibility time-out is over.
    fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) -> impl Future<Output = ()> + Send;
}
