//! The port to what tenants use of their quotas.

use super::{Answer, Answers};
use redial_core::identity::Tenant;
use redial_core::quota::{Limit, Quota};
use redial_core::time::Timestamp;

/// What a tenant has of something, and its own quota, if an operator has set one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub used: u64,
    pub limit: Option<Limit>,
}

/// A count of a quota: what is gone at the end of one window.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Added {
    pub tenant: Tenant,
    pub quota: Quota,
    pub until: Timestamp,
}

/// Reads and adds to counts. Every call may fail: then nothing is held back, and nothing is counted.
pub trait Quotas: Send + Sync {
    /// What a tenant has at `now`; a second old is good enough.
    fn usage(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> impl Answer<Usage>;

    /// Adds to these counts, which are distinct, the number beside each. Subscriptions are counted with their changes, and not here.
    fn add(&self, added: Vec<(Added, u64)>) -> impl Answers<()>;
}
