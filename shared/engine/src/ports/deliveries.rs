//! The HTTP API's port to the ledger: it inserts deliveries, and looks them up.

use std::future::Future;

use super::PortError;
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::{Entry, PastAttempt, State};
use redial_core::time::Timestamp;

/// What the ledger is to hold of a delivery before a worker has claimed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDelivery {
    pub key: DeliveryKey,
    /// What it delivers to whom.
    pub fingerprint: EndpointHash,
    /// Through which channel it goes, where the message says so itself.
    pub channel: Option<Channel>,
    /// Where it goes, where the message says so itself.
    pub endpoint_hash: Option<EndpointHash>,
    /// The stored subscription that it goes to.
    pub subscription: Option<SubscriptionId>,
    /// Not to be sent before this.
    pub not_before: Option<Timestamp>,
}

/// What an insert found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The delivery was not known. It is stored now, in state `queued`, for any worker to claim.
    New,
    /// It was; nothing was written.
    Duplicate {
        state: State,
        /// What it delivers to whom.
        fingerprint: EndpointHash,
    },
}

/// The ledger as the HTTP API uses it.
pub trait Deliveries: Send + Sync {
    /// Inserts each of these unless it is there, each on its own; keys are distinct. [`redial_core::ledger::judge`] lets
    /// any worker claim what is inserted, without doubt.
    fn insert(
        &self,
        deliveries: Vec<NewDelivery>,
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Inserted, PortError>>> + Send;

    /// All that is known of a delivery, read consistently; `None` if it is not known (any more).
    fn find(
        &self,
        key: &DeliveryKey,
    ) -> impl Future<Output = Result<Option<DeliveryRecord>, PortError>> + Send;
}

/// All that the ledger holds of a delivery for the HTTP API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRecord {
    pub entry: Entry,
    /// Through which channel it goes, if that is known by now.
    pub channel: Option<Channel>,
    /// Its latest attempts, in order.
    pub attempts: Vec<PastAttempt>,
    /// What its user's browser acknowledged first, and when.
    pub acknowledged: Vec<(AckEvent, Timestamp)>,
}
