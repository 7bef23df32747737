//! The `control` table: small shared facts, by `pk` and `sk`.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `waits` | begin and name of a bucket | a bucket with parked messages: its number of shards, and of messages |
//! | `lines` | `<lane>#<origin>` | the line of an origin: its number of shards, of messages ever put in it, and when it was registered last |
//! | `prune-windows` | number of a window | a window with endpoints that became gone |
//! | `prune#<window>` | `tenant#subscription` | such an endpoint |
//! | `removed` | subscription and time | one that was removed, until that is announced: see [`crate::subscriptions_dynamo`] |
//! | `tenant#<tenant>` | `suspects#<number of a day>` | how many of its subscriptions became suspect on it; for a week |
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
//! | `erased#<tenant>` | a digest | the mark of a `ref` that was erased |
//! | `erasures`, `erasures#<tenant>` | | requested erasures: see [`crate::erasure_requests_dynamo`] |
//! | `access#…`, `access-of#<tenant>`, `access-tenants` | | API keys: see [`crate::access_dynamo`] |

use std::time::Duration;

use aws_sdk_dynamodb::types::{ReturnValue, TransactWriteItem};
use redial_core::audience::shard_of;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::line::Line;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{LineRegistry, PortError, RegisteredBucket, RegisteredLine, WaitRegistry};

use crate::aws_error;
use crate::table::attributes::{Item, Read, expiry, item, key, ms, n, s};
use crate::table::{Change, Table, all, on_a_table};

/// The beginning of the sort keys of a tenant's count.
const COUNT: &str = "subscriptions";

const SECONDS_OF_A_DAY: i64 = 86_400;

/// How long it is kept for operators how many became suspect on a day.
const SUSPECTS_KEPT: Duration = Duration::from_secs(7 * 86_400);

const WAITS: &str = "waits";

const LINES: &str = "lines";

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoControl {
    pub(crate) table: Table,
}

on_a_table!(DynamoControl);

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

    /// Counts another of the tenant's subscriptions that becomes suspect on that day. Returns how many that makes.
    pub(crate) async fn count_suspect(&self, tenant: &Tenant, at: Timestamp) -> Result<u64, PortError> {
        let day = at.as_secs() / SECONDS_OF_A_DAY;
        let key = key(format!("tenant#{tenant}"), format!("suspects#{day:010}"));
        let values = [(":one", n(1)), (":expires_at", expiry(at.plus(SUSPECTS_KEPT)))];
        let update = self.table.update(key, "ADD #count :one SET expires_at = :expires_at", values);
        let sent = self.table.send(update.return_values(ReturnValue::UpdatedNew)).await?;
        Ok(sent.attributes().and_then(|counted| counted.number("count")).unwrap_or_default())
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

fn registered(item: &Item) -> Option<RegisteredBucket> {
    let bucket = WaitBucket::parse(item.text("name")?)?;
    // An earlier release counted no messages.
    let messages = item.number("messages").unwrap_or(0);
    Some(RegisteredBucket { bucket, shards: item.number("shards")?, messages })
}

impl WaitRegistry for DynamoControl {
    async fn register(&self, bucket: WaitBucket, messages: u64) -> Result<RegisteredBucket, PortError> {
        let values = [(":name", s(bucket.name())), (":one", n(1)), (":messages", n(messages))];
        let expression = "SET #name = :name, shards = if_not_exists(shards, :one) ADD #messages :messages";
        let update = self.table.update(wait_key(bucket), expression, values);
        let item = self.table.send(update.return_values(ReturnValue::AllNew)).await?.attributes();
        item.as_ref().and_then(registered).ok_or_else(|| aws_error::of_code("UpdateItem", "UnreadableBucket"))
    }

    async fn divide(&self, bucket: WaitBucket, shards: u16) -> Result<(), PortError> {
        let values = [(":name", s(bucket.name())), (":shards", n(shards))];
        let condition = "attribute_not_exists(shards) OR shards < :shards";
        // Refused: it has at least this number.
        let expression = "SET #name = :name, shards = :shards";
        self.table.update_if(wait_key(bucket), expression, condition, values).await.map(|_| ())
    }

    async fn shards_of(&self, bucket: WaitBucket) -> Result<Option<u16>, PortError> {
        Ok(self.table.get(wait_key(bucket)).await?.and_then(|item| item.number("shards")))
    }

    async fn begun_before(&self, time: Timestamp) -> Result<Vec<RegisteredBucket>, PortError> {
        let items = self.below(WAITS, &time.to_compact()).await?;
        Ok(items.iter().filter_map(registered).collect())
    }

    async fn forget(&self, registered: RegisteredBucket) -> Result<(), PortError> {
        let RegisteredBucket { bucket, shards, messages } = registered;
        let key = wait_key(bucket);
        let shards = (":shards", n(shards));
        // Refused: messages were put in it, or are about to be.
        if messages == 0 {
            let condition = "shards = :shards AND attribute_not_exists(messages)";
            return self.table.delete_if(key, condition, [shards]).await.map(|_| ());
        }
        let condition = "shards = :shards AND messages = :messages";
        self.table.delete_if(key, condition, [shards, (":messages", n(messages))]).await.map(|_| ())
    }
}

fn line_key(line: &Line) -> Item {
    key(LINES, line.to_string())
}

fn registered_line(item: &Item) -> Option<RegisteredLine> {
    Some(RegisteredLine {
        line: Line::parse(item.text("sk")?)?,
        shards: item.number("shards")?,
        messages: item.number("messages").unwrap_or(0),
        at: item.time("at").unwrap_or_default(),
    })
}

impl LineRegistry for DynamoControl {
    async fn register_line(
        &self,
        line: Line,
        messages: u64,
        now: Timestamp,
    ) -> Result<RegisteredLine, PortError> {
        let values = [(":one", n(1)), (":messages", n(messages)), (":at", ms(now))];
        let expression = "SET shards = if_not_exists(shards, :one), #at = :at ADD #messages :messages";
        let update = self.table.update(line_key(&line), expression, values);
        let item = self.table.send(update.return_values(ReturnValue::AllNew)).await?.attributes();
        item.as_ref()
            .and_then(registered_line)
            .ok_or_else(|| aws_error::of_code("UpdateItem", "UnreadableLine"))
    }

    async fn divide_line(&self, line: Line, shards: u16) -> Result<(), PortError> {
        let condition = "attribute_not_exists(shards) OR shards < :shards";
        // Refused: it has at least this number.
        let change = "SET shards = :shards";
        self.table.update_if(line_key(&line), change, condition, [(":shards", n(shards))]).await.map(|_| ())
    }

    async fn line(&self, line: Line) -> Result<Option<RegisteredLine>, PortError> {
        Ok(self.table.get(line_key(&line)).await?.as_ref().and_then(registered_line))
    }

    async fn lines(&self) -> Result<Vec<RegisteredLine>, PortError> {
        Ok(self.table.partition(LINES).await?.iter().filter_map(registered_line).collect())
    }

    async fn forget_line(&self, registered: RegisteredLine) -> Result<(), PortError> {
        let RegisteredLine { line, shards, messages, at } = registered;
        // Refused: messages were put in it, or are about to be.
        let condition = "shards = :shards AND messages = :messages AND #at = :at";
        let values = [(":shards", n(shards)), (":messages", n(messages)), (":at", ms(at))];
        self.table.delete_if(line_key(&line), condition, values).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use redial_core::lane::Lane;
    use serde_json::json;

    use super::*;
    use crate::fake_table::FakeTable;

    const SORT: &str = "20270115T080100Z#w60-bulk-20270115T080100Z";

    fn bucket() -> WaitBucket {
        let now = Timestamp::from_secs(1_800_000_000);
        WaitBucket::of(Lane::Bulk, now.plus(Duration::from_secs(60)), 60, now).expect("ahead")
    }

    fn new() -> (FakeTable, DynamoControl) {
        let table = FakeTable::default();
        let control = DynamoControl::new(table.client(), "control".to_owned());
        (table, control)
    }

    fn registered(shards: u16, messages: u64) -> RegisteredBucket {
        RegisteredBucket { bucket: bucket(), shards, messages }
    }

    #[tokio::test]
    async fn a_bucket_begins_with_one_shard_and_never_has_fewer_again() {
        let (table, control) = new();
        assert_eq!(control.register(bucket(), 3).await, Ok(registered(1, 3)));
        for (shards, has) in [(4, 4), (2, 4), (4, 4), (128, 128)] {
            assert_eq!(control.divide(bucket(), shards).await, Ok(()));
            assert_eq!(control.shards_of(bucket()).await, Ok(Some(has)));
        }
        assert_eq!(control.register(bucket(), 10).await, Ok(registered(128, 13)));
        assert_eq!(table.calls()[0], "UpdateItem", "one call reports and reads");
    }

    /// Two releases side by side during a deployment.
    #[tokio::test]
    async fn a_bucket_that_an_earlier_release_registered_keeps_its_shards() {
        let (table, control) = new();
        let earlier = json!({"name": {"S": bucket().name()}, "shards": {"N": "128"}});
        table.write(WAITS, SORT, &earlier);
        assert_eq!(
            control.begun_before(Timestamp::from_secs(1_900_000_000)).await,
            Ok(vec![registered(128, 0)])
        );
        assert_eq!(control.register(bucket(), 3).await, Ok(registered(128, 3)));
        assert_eq!(control.forget(registered(128, 0)).await, Ok(()));
        assert!(table.item(WAITS, SORT).is_some(), "messages came meanwhile");
        table.write(WAITS, SORT, &earlier);
        assert_eq!(control.forget(registered(128, 0)).await, Ok(()));
        assert_eq!(table.item(WAITS, SORT), None);
    }

    #[tokio::test]
    async fn only_a_bucket_that_has_not_changed_is_forgotten() {
        let (table, control) = new();
        let before = control.register(bucket(), 3).await.expect("it is registered");
        control.divide(bucket(), 2).await.expect("it is divided");
        assert_eq!(control.forget(before).await, Ok(()));
        assert_eq!(control.forget(registered(2, 2)).await, Ok(()));
        assert_eq!(control.shards_of(bucket()).await, Ok(Some(2)));
        assert_eq!(control.forget(registered(2, 3)).await, Ok(()));
        assert_eq!(table.item(WAITS, SORT), None);
    }
}
