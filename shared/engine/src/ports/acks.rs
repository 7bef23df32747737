//! The port to acknowledgements: what users' browsers tell of deliveries.

use std::future::Future;

use super::PortError;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;

/// What became of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// Nobody had told it before: it is noted.
    First,
    /// It was told before: what was noted then stays.
    Again,
    /// The ledger does not know the delivery, or no longer: nothing is noted.
    Unknown,
}

/// Notes acknowledgements.
pub trait Acks: Send + Sync {
    /// Notes on a delivery that its user's browser told this at `now`, unless it was told before.
    fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        now: Timestamp,
    ) -> impl Future<Output = Result<Acknowledged, PortError>> + Send;
}
