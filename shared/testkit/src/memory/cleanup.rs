//! The same world, as cleanup sees it.

use redial_engine::ports::CleanupEnvironment;

use super::World;

impl CleanupEnvironment for World {
    type Clock = Self;
    type LedgerReader = Self;
    type Policies = Self;
    type SubscriptionHealth = Self;
    type Audiences = Self;
    type Outbox = Self;
    type Parking = Self;
    type WaitRegistry = Self;
    type DeadLetters = Self;
    type Telemetry = Self;

    fn clock(&self) -> &Self {
        self
    }
    fn ledger(&self) -> &Self {
        self
    }
    fn policies(&self) -> &Self {
        self
    }
    fn audiences(&self) -> &Self {
        self
    }
    fn health(&self) -> &Self {
        self
    }
    fn outbox(&self) -> &Self {
        self
    }
    fn parking(&self) -> &Self {
        self
    }
    fn wait_registry(&self) -> &Self {
        self
    }
    fn dead_letters(&self) -> &Self {
        self
    }
    fn telemetry(&self) -> &Self {
        self
    }
}
