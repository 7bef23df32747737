//! Tenants' quotas in memory.

use redial_core::identity::Tenant;
use redial_core::quota::Quota;
use redial_core::time::Timestamp;
use redial_engine::ports::{Added, PortError, Quotas, Usage};

use super::Memory;

impl Quotas for Memory {
    async fn usage(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> Result<Usage, PortError> {
        self.effect("usage", |state| {
            let is_its = |added: &Added| added.tenant == *tenant && added.quota == quota && added.until > now;
            let used = match quota {
                Quota::Subscriptions => {
                    state.subscriptions.keys().filter(|key| key.tenant == *tenant).count() as u64
                }
                Quota::Parked | Quota::DeadLetters => {
                    state.used.iter().filter(|(added, _)| is_its(added)).map(|(_, n)| n).sum()
                }
            };
            Usage { used, limit: state.quotas.get(&(tenant.clone(), quota)).copied() }
        })
        .await
    }

    async fn add(&self, added: Vec<(Added, u64)>) -> Vec<Result<(), PortError>> {
        self.effect_on_each("add_usage", added, |state, (added, n)| {
            *state.used.entry(added).or_default() += n;
        })
        .await
    }
}
