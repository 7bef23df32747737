//! The ports to the ledger that the front door has: it enters deliveries, and looks them up.

use std::future::Future;

use super::PortError;
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::{Entry, PastAttempt, State};
use redial_core::time::Timestamp;

/// What the ledger is to hold of a delivery before anybody has claimed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entrance {
    /// Which delivery.
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

/// What became of an entrance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entered {
    /// The delivery was not known. It is now, in state `queued`, for any worker to claim.
    Fresh,
    /// It was; nothing was written.
    Known {
        /// Where it stands.
        state: State,
        /// What it delivers to whom.
        fingerprint: EndpointHash,
    },
}

/// Enters deliveries.
pub trait Intake: Send + Sync {
    /// Enters each of these unless it is there, each on its own; keys are distinct. What is entered [`redial_core::ledger::judge`] lets
    /// anybody claim, without doubt.
    fn enter(
        &self,
        entrances: Vec<Entrance>,
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Entered, PortError>>> + Send;
}

/// All that the ledger holds of a delivery for whoever asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Where it stands.
    pub entry: Entry,
    /// Through which channel it goes, if that is known by now.
    pub channel: Option<Channel>,
    /// Its latest attempts, in order.
    pub attempts: Vec<PastAttempt>,
    /// What its user's browser told first, and when.
    pub acknowledged: Vec<(AckEvent, Timestamp)>,
}

/// Looks deliveries up for whoever asks.
pub trait Deliveries: Send + Sync {
    /// All that is known of a delivery, read consistently; `None` if it is not known (any more).
    fn find(&self, key: &DeliveryKey) -> impl Future<Output = Result<Option<Known>, PortError>> + Send;
}
