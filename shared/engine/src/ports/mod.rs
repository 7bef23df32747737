//! What the middle needs of the world: one narrow trait a capability, each with one adapter and one in-memory twin.
//!
//! Ports that touch a store take batches, because a store that is called once a message costs more than the sending. They
//! answer item by item, in the order of the request: one item's failure is that item's alone.

mod access;
mod acks;
mod audiences;
mod clock;
mod dead_letters;
mod front_door;
mod intake;
mod ledger;
mod outbox;
mod policies;
mod protection;
mod public_keys;
mod sender;
mod subscriptions;
mod telemetry;
mod waits;
mod webhooks;

pub use access::AccessKeys;
pub use acks::{Acknowledged, Acks};
pub use audiences::Audiences;
pub use clock::{Clock, Randomness};
pub use dead_letters::{DeadLetterBodies, DeadLetterStore};
pub use front_door::FrontDoor;
pub use intake::{Deliveries, Entered, Entrance, Intake, Known};
pub use ledger::{Claim, ClaimAnswer, Ledger, LedgerReader, Settlement};
pub use outbox::{Outbox, Receipt};
pub use policies::{KnownPolicies, Policies};
pub use protection::{Limited, Protection, StoredOrigin};
pub use public_keys::{PublicKey, PublicKeys};
pub use sender::{Keys, Push, PushSender};
pub use subscriptions::{
    Found, PruneCandidate, Renewed, SubscriptionBook, SubscriptionHealth, SubscriptionUpdate, Subscriptions,
};
pub use telemetry::{AttemptEvent, BreakerEvent, QuarantineEvent, Telemetry};
pub use waits::{ParkedItem, ParkedKey, Parking, RegisteredBucket, WaitExecutions, WaitRegistry};
pub use webhooks::{Webhook, WebhookSender};

use crate::protection::Guard;

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

/// Everything that dispatch works with.
pub trait Environment: Send + Sync {
    /// See [`Clock`].
    type Clock: Clock;
    /// See [`Randomness`].
    type Randomness: Randomness;
    /// See [`Ledger`].
    type Ledger: Ledger;
    /// See [`Policies`].
    type Policies: Policies;
    /// See [`Protection`].
    type Protection: Protection;
    /// See [`Subscriptions`].
    type Subscriptions: Subscriptions;
    /// See [`Audiences`].
    type Audiences: Audiences;
    /// See [`PushSender`].
    type Sender: PushSender;
    /// See [`WebhookSender`].
    type Webhooks: WebhookSender;
    /// See [`Outbox`].
    type Outbox: Outbox;
    /// See [`Parking`].
    type Parking: Parking;
    /// See [`WaitRegistry`].
    type WaitRegistry: WaitRegistry;
    /// See [`WaitExecutions`].
    type WaitExecutions: WaitExecutions;
    /// See [`DeadLetterBodies`].
    type DeadLetterBodies: DeadLetterBodies;
    /// See [`Telemetry`].
    type Telemetry: Telemetry;

    /// The time.
    fn clock(&self) -> &Self::Clock;
    /// Chance.
    fn randomness(&self) -> &Self::Randomness;
    /// Who may attempt what, and where each delivery stands.
    fn ledger(&self) -> &Self::Ledger;
    /// Tenants' own retry policies.
    fn policies(&self) -> &Self::Policies;
    /// What workers share to protect origins.
    fn protection(&self) -> &Self::Protection;
    /// This worker's part in it, which lives as long as the worker.
    fn guard(&self) -> &Guard;
    /// Stored subscriptions.
    fn subscriptions(&self) -> &Self::Subscriptions;
    /// Messages to audiences.
    fn audiences(&self) -> &Self::Audiences;
    /// The push services.
    fn sender(&self) -> &Self::Sender;
    /// Webhooks' receivers.
    fn webhooks(&self) -> &Self::Webhooks;
    /// The queues.
    fn outbox(&self) -> &Self::Outbox;
    /// Messages that wait.
    fn parking(&self) -> &Self::Parking;
    /// Which buckets of waits there are.
    fn wait_registry(&self) -> &Self::WaitRegistry;
    /// What ends their waits.
    fn wait_executions(&self) -> &Self::WaitExecutions;
    /// Bodies of dead letters.
    fn dead_letter_bodies(&self) -> &Self::DeadLetterBodies;
    /// Log lines and metrics.
    fn telemetry(&self) -> &Self::Telemetry;
}

/// Everything that cleanup works with.
pub trait CleanupEnvironment: Send + Sync {
    /// See [`Clock`].
    type Clock: Clock;
    /// See [`LedgerReader`].
    type LedgerReader: LedgerReader;
    /// See [`Policies`].
    type Policies: Policies;
    /// See [`SubscriptionHealth`].
    type SubscriptionHealth: SubscriptionHealth;
    /// See [`Audiences`].
    type Audiences: Audiences;
    /// See [`Outbox`].
    type Outbox: Outbox;
    /// See [`Parking`].
    type Parking: Parking;
    /// See [`WaitRegistry`].
    type WaitRegistry: WaitRegistry;
    /// See [`DeadLetterBodies`] and [`DeadLetterStore`].
    type DeadLetters: DeadLetterBodies + DeadLetterStore;
    /// See [`Telemetry`].
    type Telemetry: Telemetry;

    /// The time.
    fn clock(&self) -> &Self::Clock;
    /// Where deliveries stand.
    fn ledger(&self) -> &Self::LedgerReader;
    /// Tenants' own retry policies.
    fn policies(&self) -> &Self::Policies;
    /// Stored subscriptions and their health.
    fn health(&self) -> &Self::SubscriptionHealth;
    /// Messages to audiences.
    fn audiences(&self) -> &Self::Audiences;
    /// The queues.
    fn outbox(&self) -> &Self::Outbox;
    /// Messages that wait.
    fn parking(&self) -> &Self::Parking;
    /// Which buckets of waits there are.
    fn wait_registry(&self) -> &Self::WaitRegistry;
    /// The dead-letter store.
    fn dead_letters(&self) -> &Self::DeadLetters;
    /// Log lines and metrics.
    fn telemetry(&self) -> &Self::Telemetry;
}
