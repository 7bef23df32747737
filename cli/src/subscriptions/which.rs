use clap::Args;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};

use crate::arguments;

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The tenant that it belongs to
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    pub(super) tenant: Tenant,
    /// Its id within the tenant: 1 to 64 letters, digits, _ and -
    #[arg(long, value_parser = arguments::subscription)]
    id: SubscriptionId,
}

impl Which {
    pub(crate) fn key(&self) -> SubscriptionKey {
        SubscriptionKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }
}
