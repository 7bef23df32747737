//! The ports of the HTTP API, behind one type: the state of an HTTP router is one type, and its handlers take their ports from it.

use super::{
    AccessKeys, Acks, Clock, Deliveries, Outbox, Protection, PublicKeys, Randomness, SubscriptionBook,
    Telemetry,
};

/// The ports of the HTTP API.
pub trait HttpApi: Send + Sync {
    type Clock: Clock;
    type Randomness: Randomness;
    type AccessKeys: AccessKeys;
    type Protection: Protection;
    type Ledger: Deliveries;
    type Outbox: Outbox;
    type Subscriptions: SubscriptionBook;
    type PublicKeys: PublicKeys;
    type Acks: Acks;
    type Telemetry: Telemetry;

    fn clock(&self) -> &Self::Clock;
    fn randomness(&self) -> &Self::Randomness;
    fn access_keys(&self) -> &Self::AccessKeys;
    /// What workers share to keep limits.
    fn protection(&self) -> &Self::Protection;
    fn ledger(&self) -> &Self::Ledger;
    fn outbox(&self) -> &Self::Outbox;
    fn subscriptions(&self) -> &Self::Subscriptions;
    /// What browsers subscribe with.
    fn public_keys(&self) -> &Self::PublicKeys;
    fn acks(&self) -> &Self::Acks;
    fn telemetry(&self) -> &Self::Telemetry;
}
