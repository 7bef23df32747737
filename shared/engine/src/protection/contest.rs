//! What a worker remembers of tenants that wait for the slots of one origin.

use std::collections::HashMap;
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::Rank;
use redial_core::protection::turns::Turns;
use redial_core::time::Timestamp;

/// Tenants that found a bucket empty within this time share it.
pub(super) const SHARES_FOR: Duration = Duration::from_secs(10);

/// Those who take turns at an origin's slots.
pub(super) type Contest = (Origin, Rank);

/// The turns at an origin's slots, and when each of those who wait for them was turned away last.
#[derive(Debug, Default)]
pub(super) struct Contested {
    pub(super) turns: Turns<Tenant>,
    pub(super) turned_away: HashMap<Tenant, Timestamp>,
}
