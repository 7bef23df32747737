//! What happened to a hostile tenant and to those beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use redial_core::endpoint::{Endpoint, Origin};
use redial_core::identity::{DeliveryKey, SubscriptionKey, Tenant, Turn};
use redial_core::protection::Place;
use redial_core::time::Timestamp;

/// A POST in a scenario with a hostile tenant.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub at: Timestamp,
    pub endpoint: Endpoint,
    pub key: DeliveryKey,
    pub turn: Turn,
    /// The receiver's answer; `None` if there was none.
    pub status: Option<u16>,
    /// Whether its message names a subscription, which alone has a rate, and not an address.
    pub is_by_subscription: bool,
}

impl Exchange {
    pub fn is_retry(&self) -> bool {
        self.turn.attempt.0 > 0
    }

    /// Whether its receiver neither took it nor is gone.
    pub fn is_in_trouble(&self) -> bool {
        !matches!(self.status, Some(200..=299 | 410))
    }
}

/// A scenario's tenants, one of them hostile.
#[derive(Clone, Debug)]
pub struct Tenants {
    pub foe: Tenant,
    pub is_calm: bool,
    pub others_are_well: bool,
    /// Whether an operator has limited the push service.
    pub is_limited: bool,
    pub workers: usize,
    /// Where stored subscriptions lead.
    pub origins: BTreeMap<SubscriptionKey, Origin>,
}

impl Tenants {
    /// Whether a tenant is held back with the hostile one: one in sixteen is, at each origin another.
    pub fn shares_place(&self, tenant: &Tenant, origin: &Origin) -> bool {
        Place::of(origin, tenant) == Place::of(origin, &self.foe)
    }
}

#[derive(Debug, Default)]
pub struct Neighbours {
    /// `None` where no tenant is hostile.
    pub tenants: Option<Arc<Tenants>>,
    pub posts: Vec<Exchange>,
    /// When each attempt of a delivery was first made.
    pub attempts: BTreeMap<DeliveryKey, BTreeMap<Turn, Timestamp>>,
    /// When a tenant's last message was posted that was late because no worker had been free: what it sent before then waited behind that one.
    pub caught_up: BTreeMap<Tenant, Timestamp>,
}
