//! Tenants' stored policies in memory.

use std::sync::Arc;

use redial_core::identity::Tenant;
use redial_core::policy::TenantPolicies;
use redial_core::time::Timestamp;
use redial_engine::ports::{KnownPolicies, Policies, PortError};

use super::Memory;

impl Policies for Memory {
    async fn of(&self, tenants: Vec<Tenant>, _now: Timestamp) -> Vec<Result<KnownPolicies, PortError>> {
        self.effect_on_each("policies", tenants, |state, tenant| {
            let before = state.followed.get(&tenant).cloned().unwrap_or_default();
            let stored = state.policies.get(&tenant).cloned().unwrap_or_default();
            let (policies, ignored) = TenantPolicies::read(stored, &before);
            state.followed.insert(tenant, policies.clone());
            KnownPolicies { policies: Arc::new(policies), ignored, stale: None }
        })
        .await
    }
}
