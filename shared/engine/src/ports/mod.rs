//! What the passes need: one narrow trait a capability, each with one adapter and one in-memory twin.
//!
//! Ports that touch a store take batches, because a store that is called once a message costs more than the sending. They
//! answer item by item, in the order of the request: one item's failure is that item's alone.

mod audiences;
mod callbacks;
mod dead_letters;
mod erasures;
mod event_bus;
mod http_api;
mod ledger;
mod outbox;
mod policies;
mod protection;
mod quotas;
mod senders;
mod subscriptions;
mod telemetry;
mod waits;

pub use audiences::{Audiences, OnPage, PageClaim, PageLease, Pages};
pub use callbacks::Callbacks;
pub use dead_letters::{DeadLetterBodies, DeadLetterStore};
pub use erasures::{ErasureMarks, ErasureRequests, Erasures, PersonSearch};
pub use event_bus::EventBus;
pub use http_api::{
    AccessKeys, Acknowledged, Acks, Deliveries, DeliveryRecord, HttpApi, Inserted, Listed, NewDelivery,
    PublicKey, PublicKeys,
};
pub use ledger::{Claim, ClaimAnswer, Ledger, LedgerReader, Settlement};
pub use outbox::{Outbox, Receipt};
pub use policies::{KnownPolicies, Policies};
pub use protection::{Allowed, Limited, Protection, StoredOrigin};
pub use quotas::{Added, Quotas, Usage};
pub use senders::{Keys, Push, PushSender, Webhook, WebhookSender};
pub use subscriptions::{
    Endowed, Erased, Found, Kept, OpenWindow, PruneCandidate, Removals, Removed, Renewed, SubscriptionBook,
    SubscriptionHealth, SubscriptionUpdate, SubscriptionWalk, Subscriptions, WalkProgress, Walked,
    WalkedPage,
};
pub use telemetry::{
    AttemptEvent, AttemptSpan, AudienceExpired, BreakerEvent, HeldEvent, HoldsBack, PageEvent,
    QuarantineEvent, SentByPage, Telemetry,
};
pub use waits::{
    LineRegistry, ParkedItem, ParkedKey, Parking, Partition, RegisteredBucket, RegisteredLine,
    WaitExecutions, WaitRegistry,
};

use std::future::Future;
use std::time::Duration;

use rand::rngs::StdRng;
use redial_core::time::Timestamp;

/// Our own infrastructure failed: not the delivery's fault, and not the receiver's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{operation} failed: {code}")]
pub struct PortError {
    /// What was tried, such as `BatchExecuteStatement`.
    pub operation: &'static str,
    /// The service's error code, or the kind of failure; never a value of a request.
    pub code: String,
    /// Whether the service asked for fewer calls.
    pub throttled: bool,
}

impl PortError {
    /// The error of a run of an audience that another version wrote and this one cannot read. What refers to it comes back: a
    /// worker of that version, or of a later one, delivers it.
    pub fn unreadable_run() -> Self {
        Self { operation: "audiences.load", code: "Unreadable".to_owned(), throttled: false }
    }
}

/// The answer of a port.
pub trait Answer<T>: Future<Output = Result<T, PortError>> + Send {}

impl<T, F: Future<Output = Result<T, PortError>> + Send> Answer<T> for F {}

/// The answers of a port to a batch, in the order of the request.
pub trait Answers<T>: Future<Output = Vec<Result<T, PortError>>> + Send {}

impl<T, F: Future<Output = Vec<Result<T, PortError>>> + Send> Answers<T> for F {}

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Gives out random sources.
pub trait Randomness: Send + Sync {
    /// A new, independently seeded source.
    fn rng(&self) -> StdRng;
}
