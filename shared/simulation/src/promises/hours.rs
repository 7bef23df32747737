//! A message with hours is posted within them, and never waits for hours that it does not live to see.

use std::time::Duration;

use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;

use super::posts::TOLERANCE;
use crate::situations::Situation;
use crate::watch::{Memo, Promise};

/// Who is posted to so much later than it was sent has waited.
const A_WAIT: Duration = Duration::from_secs(600);

impl Memo {
    /// A POST in the moment that it leaves.
    pub(super) fn is_within_its_hours(&mut self, now: Timestamp, key: &DeliveryKey, promise: &Promise) {
        let Some(hours) = promise.hours else { return };
        let moments = [now.minus(TOLERANCE), now, now.plus(TOLERANCE)];
        if !moments.into_iter().any(|at| hours.are_shown(at)) {
            self.violated(format!("{key} was posted outside of its hours, {:?}", hours.field()));
        }
        if now.since(promise.from) > A_WAIT {
            self.situations.saw(Situation::WaitedForHours);
        }
    }

    /// It is parked until then.
    pub(super) fn waits_no_longer_than_its_ttl(&mut self, key: &DeliveryKey, until: Timestamp) {
        let Some(promise) = self.promises.get(key).filter(|promise| promise.hours.is_some()) else { return };
        if until > promise.until.plus(TOLERANCE) {
            self.violated(format!("{key} waits until {until:?}, and its TTL ends before"));
        }
    }
}
