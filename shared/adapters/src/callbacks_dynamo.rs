//! The webhooks that tenants' events are posted to, in the `control` table.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `callbacks` | `<tenant>` | `subscription`: the id of the webhook's subscription |
//!
//! A worker reads a tenant's item at most once in [`DynamoCallbacks::new`]'s `max_age`, and all tenants of a batch in one call. What cannot
//! be read is an error: its events wait in their queue.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::time::Timestamp;
use redial_engine::ports::{Callbacks, PortError};

use crate::cache::Cache;
use crate::retries::Patience;
use crate::table::Table;
use crate::table::attributes::{Item, Read as _, key, s};
use crate::write_units::MeteredClient;

const PARTITION: &str = "callbacks";

#[derive(Clone, Debug)]
pub struct DynamoCallbacks {
    table: Table,
    max_age: Duration,
    cache: Cache<Tenant, Cached>,
}

struct Cached {
    subscription: Option<SubscriptionId>,
    fresh_until: Timestamp,
}

impl DynamoCallbacks {
    /// In this table, remembered for `max_age`.
    pub fn new(client: impl Into<MeteredClient>, table: String, max_age: Duration) -> Self {
        Self { table: Table::new(client, table), max_age, cache: Cache::default() }
    }

    /// Sets a tenant's callback; returns the previous one.
    pub async fn set(
        &self,
        tenant: &Tenant,
        to: &SubscriptionId,
    ) -> Result<Option<SubscriptionId>, PortError> {
        let update = self.table.update(key_of(tenant), "SET #subscription = :to", [(":to", s(to.as_str()))]);
        let before = self.table.send(update.return_values(ReturnValue::AllOld)).await?.attributes();
        Ok(before.as_ref().and_then(subscription))
    }

    /// Removes a tenant's callback; returns it, if there was one.
    pub async fn clear(&self, tenant: &Tenant) -> Result<Option<SubscriptionId>, PortError> {
        let before = self.table.delete(key_of(tenant)).await?;
        Ok(before.as_ref().and_then(subscription))
    }

    /// Those of all tenants, by tenant.
    pub async fn list(&self) -> Result<Vec<(Tenant, SubscriptionId)>, PortError> {
        let items = self.table.partition(PARTITION).await?;
        let read = |item: &Item| Some((Tenant::parse(item.text("sk")?)?, subscription(item)?));
        Ok(items.iter().filter_map(read).collect())
    }

    fn fresh(&self, tenant: &Tenant, now: Timestamp) -> Option<Option<SubscriptionId>> {
        let cached = self.cache.lock();
        let cached = cached.get(tenant).filter(|cached| now < cached.fresh_until)?;
        Some(cached.subscription.clone())
    }
}

impl Callbacks for DynamoCallbacks {
    async fn of(
        &self,
        tenants: Vec<Tenant>,
        now: Timestamp,
    ) -> Vec<Result<Option<SubscriptionId>, PortError>> {
        let fresh: Vec<_> = tenants.iter().map(|tenant| self.fresh(tenant, now)).collect();
        let stale = tenants.iter().zip(&fresh).filter(|(_, fresh)| fresh.is_none());
        let wanted = stale.map(|(tenant, _)| key_of(tenant)).collect();
        let mut read = self.table.get_each(wanted, Patience::brief()).await.into_iter();
        let answer = |(tenant, fresh): (&Tenant, Option<Option<SubscriptionId>>)| {
            if let Some(fresh) = fresh {
                return Ok(fresh);
            }
            let item = read.next().expect("every stale one was read")?;
            let subscription = item.as_ref().and_then(subscription);
            let fresh_until = now.plus(self.max_age);
            let cached = Cached { subscription: subscription.clone(), fresh_until };
            self.cache.insert(tenant.clone(), cached, |cached| u8::from(now < cached.fresh_until));
            Ok(subscription)
        };
        tenants.iter().zip(fresh).map(answer).collect()
    }
}

fn key_of(tenant: &Tenant) -> Item {
    key(PARTITION, tenant.as_str())
}

/// One that is no id counts as none.
fn subscription(item: &Item) -> Option<SubscriptionId> {
    SubscriptionId::parse(item.text("subscription")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::tenant;

    fn new() -> (FakeTable, DynamoCallbacks) {
        let table = FakeTable::default();
        let callbacks = DynamoCallbacks::new(table.client(), "control".to_owned(), Duration::from_secs(30));
        (table, callbacks)
    }

    fn id(text: &str) -> SubscriptionId {
        SubscriptionId::parse(text).expect("an id")
    }

    #[tokio::test]
    async fn a_callback_is_set_replaced_listed_and_removed() {
        let (table, callbacks) = new();
        let (acme, bolt) = (tenant("acme"), tenant("bolt"));
        assert_eq!(callbacks.set(&acme, &id("hooks")).await, Ok(None));
        assert_eq!(callbacks.set(&acme, &id("other")).await, Ok(Some(id("hooks"))));
        assert_eq!(callbacks.set(&bolt, &id("hooks")).await, Ok(None));
        let both = vec![(acme.clone(), id("other")), (bolt.clone(), id("hooks"))];
        assert_eq!(callbacks.list().await, Ok(both));
        assert_eq!(callbacks.clear(&acme).await, Ok(Some(id("other"))));
        assert_eq!(callbacks.clear(&acme).await, Ok(None));
        assert_eq!(callbacks.list().await, Ok(vec![(bolt, id("hooks"))]));
        assert_eq!(table.item(PARTITION, "acme"), None);
    }

    #[tokio::test]
    async fn a_worker_follows_a_change_within_half_a_minute_and_reads_no_more_often() {
        let (_, callbacks) = new();
        let tenants = || vec![tenant("acme"), tenant("bolt")];
        let at = |secs: i64| Timestamp::from_secs(1_800_000_000 + secs);
        callbacks.set(&tenant("acme"), &id("hooks")).await.expect("it is set");
        assert_eq!(callbacks.of(tenants(), at(0)).await, [Ok(Some(id("hooks"))), Ok(None)]);
        callbacks.set(&tenant("bolt"), &id("hooks")).await.expect("it is set");
        assert_eq!(callbacks.of(tenants(), at(29)).await, [Ok(Some(id("hooks"))), Ok(None)]);
        assert_eq!(callbacks.of(tenants(), at(30)).await, [Ok(Some(id("hooks"))), Ok(Some(id("hooks")))]);
    }

    #[tokio::test]
    async fn a_callback_that_cannot_be_read_is_an_error_and_not_none() {
        let (table, callbacks) = new();
        let now = Timestamp::from_secs(1_800_000_000);
        table.state().refusing = Some(("", ""));
        assert!(callbacks.of(vec![tenant("acme")], now).await[0].is_err());
    }
}
