//! The port to the queues that Redial writes to.

use std::fmt;
use std::future::Future;

use super::PortError;
use crate::identity::Tenant;
use crate::lane::Lane;
use crate::message::QueueKind;
use crate::route::DelaySeconds;
use crate::wait::Release;

/// A queue that Redial writes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Queue {
    /// A lane's queue of producers' messages: the front door writes there.
    Ingest(Lane),
    /// A lane's retry queue.
    Retry(Lane),
    /// The queue of dead letters' references.
    DeadLetters,
    /// The producers' own queue of events, where they have one.
    Events,
}

/// A message to be put on a queue.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Which queue.
    pub queue: Queue,
    /// The body. Never log it.
    pub body: String,
    /// How long SQS holds it back.
    pub delay: DelaySeconds,
    /// Whose it is: the MessageGroupId that keeps tenants from starving each other.
    pub tenant: Option<Tenant>,
}

impl Outgoing {
    /// A release, on its way to the retry queue of its bucket's lane at once. It is nobody's: it has no tenant.
    pub fn release(release: Release) -> Self {
        Self {
            queue: Queue::Retry(release.bucket().lane()),
            body: release.to_body(),
            delay: DelaySeconds::ZERO,
            tenant: None,
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("queue", &self.queue)
            .field("delay", &self.delay)
            .finish_non_exhaustive()
    }
}

/// A received message's handle.
#[derive(Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The lane and kind of the queue that it came from.
    pub lane: Lane,
    /// See [`Self::lane`].
    pub kind: QueueKind,
    /// SQS's receipt handle.
    pub handle: String,
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("lane", &self.lane).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Sends messages, and says when received ones come back.
pub trait Outbox: Send + Sync {
    /// Whether there is a queue of events: without one, nobody is told.
    fn has_events(&self) -> bool;

    /// Puts these messages on their queues; an `Ok` is durable.
    fn send(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Result<(), PortError>>> + Send;

    /// Makes received messages come back after so many seconds. Best effort: where it fails, they come back when the
    /// queue's own visibility time-out is over.
    fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) -> impl Future<Output = ()> + Send;
}
