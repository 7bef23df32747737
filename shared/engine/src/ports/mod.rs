//! What the passes need: one narrow trait a capability, each with one adapter and one in-memory twin.
//!
//! Ports that touch a store take batches, because a store that is called once a message costs more than the sending. They
//! answer item by item, in the order of the request: one item's failure is that item's alone.

mod access;
mod acks;
mod audiences;
mod clock;
mod dead_letters;
mod deliveries;
mod http_api;
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
pub use deliveries::{Deliveries, DeliveryRecord, Inserted, NewDelivery};
pub use http_api::HttpApi;
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
