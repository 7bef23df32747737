//! The `control` table: small shared facts, by `pk` and `sk`.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `waits` | begin and name of a bucket | a bucket with parked messages, and its number of shards |
//! | `prune-windows` | number of a window | a window with endpoints that became gone |
//! | `prune#<window>` | `tenant#subscription` | such an endpoint |
//! | `tenant#<tenant>` | `subscriptions#<shard>` | a part of how many subscriptions the tenant has |
//! | `tenant#<tenant>` | `subscriptions` | the part that earlier releases have counted |
//! | `tenant#<tenant>` | `policies` | its retry policies: see [`crate::policies_dynamo`] |
//! | `origin#<origin>` | `state` | an origin's breaker and pace: this and the following see [`crate::protection_dynamo`] |
//! | `origin#<origin>#<counter>` | `counts` | the outcomes of attempts to it |
//! | `origins` | origin | an origin that has a state |
//! | `limits` | `origin#<origin>`, `tenant#<tenant>` | a limit that an operator has set |
//! | `quotas` | `<tenant>` | a tenant's own quotas: this and the following see [`crate::quotas_dynamo`] |
//! | `usage#<tenant>` | `parked#<end>`, `dead_letters#<end>` | what the tenant uses of them |
//! | `bucket#<part of a bucket>` | `slots` | when slots under a limit are free |
//! | `vapid` | `public` | the public VAPID keys: see [`crate::public_keys_dynamo`] |
//! | `access#…`, `access-of#<tenant>`, `access-tenants` | | API keys: see [`crate::access_dynamo`] |

use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_core::audience::shard_of;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{PortError, RegisteredBucket, WaitRegistry};

use crate::cache::Cache;
use crate::table::attributes::{Item, Read, item, key, n, s};
use crate::table::{Change, Table, all, on_a_table};

/// The beginning of the sort keys of a tenant's count.
const COUNT: &str = "subscriptions";

const WAITS: &str = "waits";

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoControl {
    pub(crate) table: Table,
    registered: Cache<WaitBucket, ()>,
}

on_a_table!(DynamoControl, registered);

impl DynamoControl {
    /// All items of a partition whose sort key is below `before`, in order.
    pub(crate) async fn below(&self, pk: impl Into<String>, before: &str) -> Result<Vec<Item>, PortError> {
        let values = [(":pk", s(pk)), (":before", s(before))];
        all(self.table.query("pk = :pk AND sk < :before", values)).await
    }

    /// The part of a transaction that adds this subscription to its tenant's count, or takes it off. It is counted in the shard that
    /// it lies in: with one item for all, any two at a time would conflict.
    pub(crate) fn counting(&self, subscription: &SubscriptionKey, step: i8) -> TransactWriteItem {
        let shard = shard_of(&subscription.id);
        let key = key(format!("tenant#{}", subscription.tenant), format!("{COUNT}#{shard:02}"));
        let change = Change::Update(key, "ADD #count :step".to_owned());
        self.table.write(change, None, item([(":step", n(step))]))
    }

    pub(crate) async fn subscriptions_of(&self, tenant: &Tenant) -> Result<u64, PortError> {
        subscriptions_in(&self.table, tenant).await
    }
}

/// How many subscriptions a tenant has.
pub(crate) async fn subscriptions_in(control: &Table, tenant: &Tenant) -> Result<u64, PortError> {
    let values = [(":pk", s(format!("tenant#{tenant}"))), (":count", s(COUNT))];
    let parts = all(control.query("pk = :pk AND begins_with(sk, :count)", values)).await?;
    // A part may be below zero: a subscription that an earlier release counted elsewhere is taken off here.
    let count: i64 = parts.iter().filter_map(|part| part.number::<i64>("count")).sum();
    Ok(u64::try_from(count).unwrap_or(0))
}

fn wait_key(bucket: WaitBucket) -> Item {
    key(WAITS, format!("{}#{}", bucket.start().to_compact(), bucket.name()))
}

impl WaitRegistry for DynamoControl {
    async fn register(&self, registered: RegisteredBucket) -> Result<(), PortError> {
        let RegisteredBucket { bucket, shards } = registered;
        if self.registered.contains(&bucket) {
            return Ok(());
        }
        let values = [(":name", s(bucket.name())), (":shards", n(shards))];
        let condition = "attribute_not_exists(shards) OR shards < :shards";
        // Refused: it is registered with at least this number.
        self.table
            .update_if(wait_key(bucket), "SET #name = :name, shards = :shards", condition, values)
            .await?;
        self.registered.insert(bucket, (), |()| 0);
        Ok(())
    }

    async fn shards_of(&self, bucket: WaitBucket) -> Result<Option<u16>, PortError> {
        Ok(self.table.get(wait_key(bucket)).await?.and_then(|item| item.number("shards")))
    }

    async fn begun_before(&self, time: Timestamp) -> Result<Vec<RegisteredBucket>, PortError> {
        let items = self.below(WAITS, &time.to_compact()).await?;
        let read = |item: &Item| {
            let bucket = WaitBucket::parse(item.text("name")?)?;
            Some(RegisteredBucket { bucket, shards: item.number("shards")? })
        };
        Ok(items.iter().filter_map(read).collect())
    }

    async fn forget(&self, bucket: WaitBucket) -> Result<(), PortError> {
        self.table.delete(wait_key(bucket)).await.map(|_| ())
    }
}
