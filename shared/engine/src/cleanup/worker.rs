//! A worker of cleanup, and the operator's settings.

use std::time::Duration;

use crate::ports::{
    Audiences, Callbacks, Clock, DeadLetterBodies, DeadLetterStore, ErasureMarks, ErasureRequests, Erasures,
    EventBus, Ledger, LedgerReader, LineRegistry, Outbox, Parking, PersonSearch, Policies, PortError,
    Removals, SubscriptionHealth, SubscriptionWalk, Telemetry, WaitRegistry,
};
use redial_core::body::Body;
use redial_core::endpoint::HashKeys;
use redial_core::event::Event;
use redial_core::metric::Metric;
use redial_core::queue::Outgoing;
use redial_core::subscription::SpikeGuard;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;

/// How late a bucket of waits is before the sweep releases it, unless the operator sets it otherwise.
pub const LATE_AFTER: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct Settings {
    pub hash_keys: HashKeys,
    /// How many gone endpoints are too many.
    pub guard: SpikeGuard,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
    /// How far apart dead letters are that count against a browser's subscription.
    pub suspect_apart: Duration,
    /// For how long nothing may be heard of a browser's subscription; `None` for any time.
    pub stale_after: Option<Duration>,
    /// How late a bucket of waits may be before the sweep releases it.
    pub late_after: Duration,
    /// How long after the mark of an erasure a worker may be at work that has not seen it.
    pub longest_invocation: Duration,
    /// Where the events go that come by the stack's own queue.
    pub targets: Targets,
}

/// A message of one of the queues that cleanup drains.
#[derive(Clone, Debug)]
pub struct QueueMessage {
    pub message_id: String,
    pub body: Body,
    pub sent: Timestamp,
    /// Whether it comes from the dead-letter queue, which carries references; the quarantine carries raw bodies.
    pub is_reference: bool,
    /// Of an event: the targets that lack it, where some have it.
    pub targets: Option<Targets>,
    /// Of a message in the quarantine that names no trace itself: that of its attribute.
    pub traceparent: Option<Traceparent>,
}

/// The adapters of a worker's ports.
pub trait Ports {
    type Clock: Clock;
    type Telemetry: Telemetry;
    type Outbox: Outbox;
    type EventBus: EventBus;
    type Callbacks: Callbacks;
    type Ledger: Ledger + LedgerReader;
    type Policies: Policies;
    type Subscriptions: SubscriptionHealth + SubscriptionWalk + Removals + Erasures + ErasureMarks;
    type Audiences: Audiences;
    type Parking: Parking;
    type WaitRegistry: WaitRegistry + LineRegistry;
    type DeadLetters: DeadLetterBodies + DeadLetterStore;
    type ErasureRequests: ErasureRequests;
    type Persons: PersonSearch;
}

/// A worker of cleanup: its settings, and an adapter for each port.
#[derive(Debug)]
pub struct Worker<P: Ports> {
    pub settings: Settings,
    pub clock: P::Clock,
    pub telemetry: P::Telemetry,
    pub outbox: P::Outbox,
    pub event_bus: P::EventBus,
    pub callbacks: P::Callbacks,
    pub ledger: P::Ledger,
    pub policies: P::Policies,
    pub subscriptions: P::Subscriptions,
    pub audiences: P::Audiences,
    pub parking: P::Parking,
    pub wait_registry: P::WaitRegistry,
    pub dead_letters: P::DeadLetters,
    pub erasure_requests: P::ErasureRequests,
    pub persons: P::Persons,
}

impl<P: Ports> Worker<P> {
    pub(super) async fn send(&self, message: Outgoing) -> Result<(), PortError> {
        self.outbox.send(vec![message]).await.into_iter().collect()
    }

    /// Logs an error, and counts a message that comes back because of it.
    pub(super) fn failed(&self, error: &PortError) {
        self.telemetry.infrastructure(error);
        self.telemetry.count(Metric::CleanupFailures, 1);
    }

    /// Sends an event, if there is one, where there is a queue for events.
    pub(super) async fn announce(&self, event: impl Into<Option<Event>>) -> Result<(), PortError> {
        match event.into().filter(|_| self.outbox.has_events()) {
            Some(event) => self.send(event.outgoing()).await,
            None => Ok(()),
        }
    }
}
