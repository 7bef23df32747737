//! What the HTTP API works with.

use super::{
    AccessKeys, Acks, Clock, Deliveries, Intake, Outbox, Protection, PublicKeys, Randomness,
    SubscriptionBook, Telemetry,
};

/// Everything that the front door works with.
pub trait FrontDoor: Send + Sync {
    /// See [`Clock`].
    type Clock: Clock;
    /// See [`Randomness`].
    type Randomness: Randomness;
    /// See [`AccessKeys`].
    type AccessKeys: AccessKeys;
    /// See [`Protection`].
    type Protection: Protection;
    /// See [`Intake`] and [`Deliveries`].
    type Ledger: Intake + Deliveries;
    /// See [`Outbox`].
    type Outbox: Outbox;
    /// See [`SubscriptionBook`].
    type Subscriptions: SubscriptionBook;
    /// See [`PublicKeys`].
    type PublicKeys: PublicKeys;
    /// See [`Acks`].
    type Acks: Acks;
    /// See [`Telemetry`].
    type Telemetry: Telemetry;

    /// The time.
    fn clock(&self) -> &Self::Clock;
    /// Chance.
    fn randomness(&self) -> &Self::Randomness;
    /// Senders' keys.
    fn access_keys(&self) -> &Self::AccessKeys;
    /// What workers share to keep limits.
    fn protection(&self) -> &Self::Protection;
    /// What there is of deliveries.
    fn ledger(&self) -> &Self::Ledger;
    /// The queues.
    fn outbox(&self) -> &Self::Outbox;
    /// Browsers' subscriptions.
    fn subscriptions(&self) -> &Self::Subscriptions;
    /// What browsers subscribe with.
    fn public_keys(&self) -> &Self::PublicKeys;
    /// What browsers tell of deliveries.
    fn acks(&self) -> &Self::Acks;
    /// Log lines and metrics.
    fn telemetry(&self) -> &Self::Telemetry;
}
