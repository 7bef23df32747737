//! What is left of a subscription that its user had deleted.
//!
//! | attribute | what |
//! |---|---|
//! | `pk`, `tenant`, `id` | `tenant#id`, and its parts |
//! | `state` | `deleted` |
//! | `endpoint_hash` | the hash of the endpoint that it led to |
//! | `deleted_at` | when |
//!
//! It proves the deletion, and that is all that it is for. Having no endpoint it is no subscription to anybody: dispatch finds
//! none under its key, cleanup removes nothing, it is not counted, and the index of failing ones does not have it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::SubscriptionKey;
use redial_engine::ports::Found;

use crate::attributes::{Item, Read, s};

/// The `state` of a tombstone.
const DELETED: &str = "deleted";

/// The tombstone of a subscription that led there.
pub(super) fn write(key: &SubscriptionKey, hash: &EndpointHash, deleted_at: AttributeValue) -> Item {
    HashMap::from([
        ("pk".to_owned(), s(key.to_string())),
        ("tenant".to_owned(), s(key.tenant.as_str())),
        ("id".to_owned(), s(key.id.as_str())),
        ("state".to_owned(), s(DELETED)),
        ("endpoint_hash".to_owned(), s(hash.as_str())),
        ("deleted_at".to_owned(), deleted_at),
    ])
}

/// Reads one; `None` if the item is none.
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
    use crate::attributes::ms;
    use crate::subscriptions_dynamo::item;
    use crate::webhook_keys::WebhookKeys;

    #[test]
    fn it_holds_the_hash_and_the_time_and_is_no_subscription() {
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
