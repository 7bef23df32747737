//! The port to the policies that tenants have of their own.

use std::sync::Arc;

use super::{Answers, PortError, Telemetry};
use redial_core::identity::Tenant;
use redial_core::metric::Metric;
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::Ignored;
use redial_core::time::Timestamp;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct KnownPolicies {
    pub policies: Arc<TenantPolicies>,
    /// What was found stored and is no policy; reported once, by the reading that found it.
    pub ignored: Vec<Ignored>,
    /// Why these are older than they should be; reported once an attempt to read them.
    pub stale: Option<PortError>,
}

impl KnownPolicies {
    /// Logs what is wrong with this tenant's.
    pub(crate) fn report(&self, tenant: &Tenant, telemetry: &impl Telemetry) {
        for ignored in &self.ignored {
            telemetry.count(Metric::PoliciesIgnored, 1);
            telemetry.policy_ignored(tenant, ignored);
        }
        if let Some(error) = &self.stale {
            telemetry.infrastructure(error);
        }
    }
}

pub trait Policies: Send + Sync {
    /// The policies of these tenants, none of them older than a minute unless the store cannot be read: then as they were
    /// last known. `Err` for a tenant of whom nothing was ever known: its policy may forbid what the default allows.
    fn of(&self, tenants: Vec<Tenant>, now: Timestamp) -> impl Answers<KnownPolicies>;
}
