//! No more of a tenant's attempts are under way together than it may have.

use std::time::Duration;

use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;

use crate::situations::Situation;
use crate::watch::Memo;

/// The tenant whose attempts are limited.
const LIMITED: &str = "acme";

impl Memo {
    /// A POST leaves, and its receiver takes `takes` to answer. It is under way until then, also if its worker dies meanwhile.
    pub(crate) fn takes_a_seat(
        &mut self,
        key: &DeliveryKey,
        now: Timestamp,
        takes: Duration,
        most: Option<u32>,
    ) {
        let Some(most) = most.filter(|_| key.tenant.as_str() == LIMITED) else { return };
        self.under_way.retain(|end| *end > now);
        self.under_way.push(now.plus(takes));
        let count = self.under_way.len();
        if count == most as usize {
            self.situations.saw(Situation::SeatsTaken);
        }
        if count > most as usize {
            self.violated(format!("{key} is posted, and {count} of its tenant are under way, of {most}"));
        }
    }
}
