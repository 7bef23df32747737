//! The `control` table: small shared facts, by `pk` and `sk`.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `waits` | begin and name of a bucket | a bucket that messages were parked in, and its number of shards |
//! | `prune-windows` | number of a window | a window with endpoints that turned gone |
//! | `prune#<window>` | `tenant#subscription` | such an endpoint |
//! | `tenant#<tenant>` | `subscriptions#<shard>` | a part of how many subscriptions the tenant has |
//! | `tenant#<tenant>` | `subscriptions` | the part that earlier releases have counted |
//! | `tenant#<tenant>` | `policies` | its retry policies: see [`crate::policies_dynamo`] |
//! | `origin#<origin>` | `state` | an origin's breaker and pace: this and the following see [`crate::protection_dynamo`] |
//! | `origin#<origin>#<counter>` | `counts` | what attempts to it came to |
//! | `origins` | origin | an origin that has a state |
//! | `limits` | `origin#<origin>`, `tenant#<tenant>` | a limit that an operator has set |
//! | `bucket#<part of a bucket>` | `slots` | from when slots under a limit are free |
//! | `vapid` | `public` | the public VAPID keys: see [`crate::public_keys_dynamo`] |
//! | `access#…`, `access-of#<tenant>`, `access-tenants` | | API keys: see [`crate::access_dynamo`] |

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{PortError, PruneCandidate, RegisteredBucket, WaitRegistry};

use crate::attributes::{Item, Read, expiry, ms, n, s};
use crate::audiences_dynamo;
use crate::aws_error;
use crate::query;
use crate::remembered::Remembered;

/// How long a decided window is kept, for whoever looks.
const WINDOW_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// What the sort keys of a tenant's count begin with.
const COUNT: &str = "subscriptions";

/// The `control` table.
#[derive(Clone, Debug)]
pub struct DynamoControl {
    client: Client,
    table: String,
    registered: Remembered<WaitBucket>,
}

impl DynamoControl {
    /// On this table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, registered: Remembered::default() }
    }

    async fn get(&self, pk: &str, sk: &str) -> Result<Option<Item>, PortError> {
        let got = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("pk", s(pk))
            .key("sk", s(sk))
            .consistent_read(true)
            .send()
            .await;
        Ok(got.map_err(|error| aws_error::of_call("GetItem", &error))?.item)
    }

    /// All items of a partition whose sort key is below `before`, in order.
    async fn below(&self, pk: &str, before: &str) -> Result<Vec<Item>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND sk < :before")
            .expression_attribute_values(":pk", s(pk))
            .expression_attribute_values(":before", s(before))
            .consistent_read(true);
        query::all(query).await
    }

    async fn delete(&self, pk: &str, sk: &str) -> Result<(), PortError> {
        let deleted =
            self.client.delete_item().table_name(&self.table).key("pk", s(pk)).key("sk", s(sk)).send().await;
        deleted.map(|_| ()).map_err(|error| aws_error::of_call("DeleteItem", &error))
    }

    async fn put(&self, fields: Vec<(&str, AttributeValue)>) -> Result<(), PortError> {
        let item = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await;
        put.map(|_| ()).map_err(|error| aws_error::of_call("PutItem", &error))
    }

    /// The part of a transaction that counts a tenant's subscriptions up or down by this one. It is counted in the shard
    /// that it lies in: over one item for all, every two that come at a time would meet.
    pub(crate) fn counting(&self, key: &SubscriptionKey, step: i8) -> Update {
        Update::builder()
            .table_name(&self.table)
            .key("pk", s(format!("tenant#{}", key.tenant)))
            .key("sk", s(format!("{COUNT}#{:02}", audiences_dynamo::shard_of(&key.id))))
            .update_expression("ADD #count :step")
            .expression_attribute_names("#count", "count")
            .expression_attribute_values(":step", n(step))
            .build()
            .expect("an update has its table, key and expression")
    }

    pub(crate) async fn subscriptions_of(&self, tenant: &Tenant) -> Result<u64, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :count)")
            .expression_attribute_values(":pk", s(format!("tenant#{tenant}")))
            .expression_attribute_values(":count", s(COUNT))
            .consistent_read(true);
        let parts = query::all(query).await?;
        // A part may be below zero: what an earlier release counted up elsewhere is counted down here.
        let count: i64 = parts.iter().filter_map(|part| part.number::<i64>("count")).sum();
        Ok(u64::try_from(count).unwrap_or(0))
    }

    pub(crate) async fn add_candidate(
        &self,
        window: i64,
        candidate: PruneCandidate,
    ) -> Result<(), PortError> {
        self.put(vec![("pk", s("prune-windows")), ("sk", s(window_key(window)))]).await?;
        self.write_candidate(window, &candidate).await
    }

    async fn write_candidate(&self, window: i64, candidate: &PruneCandidate) -> Result<(), PortError> {
        self.put(vec![
            ("pk", s(format!("prune#{window}"))),
            ("sk", s(candidate.key.to_string())),
            ("tenant", s(candidate.key.tenant.as_str())),
            ("id", s(candidate.key.id.as_str())),
            ("endpoint_hash", s(candidate.endpoint_hash.as_str())),
            ("at", ms(candidate.at)),
            ("decided", AttributeValue::Bool(candidate.decided)),
            ("expires_at", expiry(candidate.at.plus(WINDOW_KEPT))),
        ])
        .await
    }

    pub(crate) async fn candidates(&self, window: i64) -> Result<Vec<PruneCandidate>, PortError> {
        // Above every tenant: their names are lower-case ASCII.
        let items = self.below(&format!("prune#{window}"), "\u{7f}").await?;
        Ok(items.iter().filter_map(candidate).collect())
    }

    pub(crate) async fn decide_candidate(
        &self,
        window: i64,
        candidate: &PruneCandidate,
    ) -> Result<(), PortError> {
        self.write_candidate(window, &PruneCandidate { decided: true, ..candidate.clone() }).await
    }

    pub(crate) async fn open_windows(&self, before: i64) -> Result<Vec<i64>, PortError> {
        let items = self.below("prune-windows", &window_key(before)).await?;
        Ok(items.iter().filter_map(|item| item.text("sk")?.parse().ok()).collect())
    }

    pub(crate) async fn close_window(&self, window: i64) -> Result<(), PortError> {
        self.delete("prune-windows", &window_key(window)).await
    }
}

/// Twelve digits, so that text order is the order of numbers.
fn window_key(window: i64) -> String {
    format!("{:012}", window.max(0))
}

fn candidate(item: &Item) -> Option<PruneCandidate> {
    Some(PruneCandidate {
        key: SubscriptionKey {
            tenant: Tenant::parse(item.text("tenant")?)?,
            id: SubscriptionId::parse(item.text("id")?)?,
        },
        endpoint_hash: EndpointHash::parse(item.text("endpoint_hash")?)?,
        at: item.time("at")?,
        decided: item.truth("decided"),
    })
}

const WAITS: &str = "waits";

fn wait_key(bucket: WaitBucket) -> String {
    format!("{}#{}", bucket.start().to_compact(), bucket.name())
}

impl WaitRegistry for DynamoControl {
    async fn register(&self, registered: RegisteredBucket) -> Result<(), PortError> {
        let RegisteredBucket { bucket, shards } = registered;
        if self.registered.has(&bucket) {
            return Ok(());
        }
        let updated = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", s(WAITS))
            .key("sk", s(wait_key(bucket)))
            .update_expression("SET #name = :name, shards = :shards")
            .condition_expression("attribute_not_exists(shards) OR shards < :shards")
            .expression_attribute_names("#name", "name")
            .expression_attribute_values(":name", s(bucket.name()))
            .expression_attribute_values(":shards", n(shards))
            .send()
            .await;
        match updated {
            Ok(_) => {}
            // It is registered with at least as many.
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_conditional_check_failed_exception()) => {}
            Err(error) => return Err(aws_error::of_call("UpdateItem", &error)),
        }
        self.registered.add(bucket);
        Ok(())
    }

    async fn shards_of(&self, bucket: WaitBucket) -> Result<Option<u16>, PortError> {
        Ok(self.get(WAITS, &wait_key(bucket)).await?.and_then(|item| item.number("shards")))
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
        self.delete(WAITS, &wait_key(bucket)).await
    }
}
