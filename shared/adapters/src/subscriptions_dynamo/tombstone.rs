//! The item that a deleted subscription leaves.
//!
//! | attribute | what |
//! |---|---|
//! | `pk`, `tenant`, `id` | `tenant#id`, and its parts |
//! | `state` | `deleted` |
//! | `endpoint_hash` | the hash of its endpoint |
//! | `deleted_at` | when |
//!
//! It proves the deletion, and serves nothing else. It has no endpoint, so it is no subscription: dispatch finds none under its key,
//! cleanup removes nothing, it is not counted, and the index of failing webhooks does not have it.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::SubscriptionKey;
use redial_engine::ports::Found;

use crate::table::attributes::{self, Item, Read, s};

/// The `state` of a tombstone.
const DELETED: &str = "deleted";

pub(super) fn write(key: &SubscriptionKey, hash: &EndpointHash, deleted_at: AttributeValue) -> Item {
    attributes::item([
        ("pk", s(key.to_string())),
        ("tenant", s(key.tenant.as_str())),
        ("id", s(key.id.as_str())),
        ("state", s(DELETED)),
        ("endpoint_hash", s(hash.as_str())),
        ("deleted_at", deleted_at),
    ])
}

/// `None` if the item is no tombstone.
pub(super) fn read(item: &Item) -> Option<Found> {
    item.text("state").filter(|state| *state == DELETED)?;
    let endpoint_hash = EndpointHash::parse(item.text("endpoint_hash")?)?;
    Some(Found::Deleted { endpoint_hash, at: item.time("deleted_at")? })
}

#[cfg(test)]
mod tests {
    use redial_core::endpoint::{Endpoint, HashKeys};
    use redial_core::identity::{SubscriptionId, Tenant};
    use redial_core::time::Timestamp;

    use super::*;
    use crate::subscriptions_dynamo::item;
    use crate::table::attributes::ms;
    use crate::webhook_keys::WebhookKeys;

    #[test]
    fn a_tombstone_has_the_hash_and_the_time_and_is_no_subscription() {
        let key = SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse("s1").expect("valid"),
        };
        let endpoint = Endpoint::parse("https://push.example/s3cret").expect("valid");
        let hash = HashKeys::parse("k1:0123456789abcdef").expect("valid").endpoint(&endpoint);
        let at = Timestamp::from_secs(1_800_000_000);
        let item = write(&key, &hash, ms(at));
        assert_eq!(read(&item), Some(Found::Deleted { endpoint_hash: hash, at }));
        let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["deleted_at", "endpoint_hash", "id", "pk", "state", "tenant"]);

        assert!(!item::is_stored(&item));
        let keys = WebhookKeys::parse("k1:0123456789abcdef").expect("valid");
        assert_eq!(item::read(&item, &keys), None);
    }
}
