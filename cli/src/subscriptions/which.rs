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

/// A subscription's id, given either way.
#[derive(Debug, Args)]
pub(super) struct Id {
    /// Its id within the tenant: 1 to 64 letters, digits, _ and -
    #[arg(value_name = "ID", value_parser = arguments::subscription, required_unless_present = "option")]
    operand: Option<SubscriptionId>,
    /// The same as an option
    #[arg(long = "id", id = "option", value_name = "ID", conflicts_with = "operand", value_parser = arguments::subscription)]
    option: Option<SubscriptionId>,
}

impl Id {
    pub(super) fn of(self, tenant: Tenant) -> SubscriptionKey {
        let id = self.operand.or(self.option).expect("invariant: clap requires one of them");
        SubscriptionKey { tenant, id }
    }
}

impl Which {
    pub(crate) fn key(&self) -> SubscriptionKey {
        SubscriptionKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }
}
