//! The port to acknowledgements: what users' browsers report of deliveries.

use std::future::Future;

use super::PortError;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;

/// What became of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// The first of its event: it is noted.
    First,
    /// It was noted before: what was noted then stays.
    Again,
    /// The ledger does not know the delivery, or no longer: nothing is noted.
    Unknown,
}

pub trait Acks: Send + Sync {
    /// Notes on a delivery that its user's browser reported this at `now`, unless it was noted before.
    fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        now: Timestamp,
    ) -> impl Future<Output = Result<Acknowledged, PortError>> + Send;
}
