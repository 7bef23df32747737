//! Values that tests share.

use redial_core::endpoint::HashKeys;
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::ledger::Given;
use redial_core::tag::MessageTags;
use redial_core::time::Ttl;

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

/// Of the tenant `acme`.
pub(crate) fn delivery(id: &str) -> DeliveryKey {
    DeliveryKey { tenant: tenant("acme"), id: DeliveryId::parse(id).expect("valid") }
}

/// Of the tenant `acme`.
pub(crate) fn subscription(id: &str) -> SubscriptionKey {
    SubscriptionKey { tenant: tenant("acme"), id: SubscriptionId::parse(id).expect("valid") }
}

pub(crate) fn hash_keys() -> HashKeys {
    HashKeys::parse("k1:0123456789abcdef").expect("valid")
}

/// All that a message can say of itself.
pub(crate) fn given() -> Given {
    Given { ttl: Some(Ttl::from_secs(600)), tags: MessageTags::from_text("eu order").expect("two tags") }
}
