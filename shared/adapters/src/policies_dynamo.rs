//! Tenants' own retry policies: one item a tenant in the `control` table, remembered for a while.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `tenant#<tenant>` | `policies` | `policy#tenant`, `policy#topic#<event type>`: JSON; `last_good#…` beside each |
//!
//! The command that checks a policy writes `last_good#…` together with `policy#…`. An invalid change of `policy#…` by hand leaves
//! `last_good#…` alone, so that functions which start later still know the last valid policy.
//!
//! A worker reads a tenant's item at most once in [`DynamoPolicies::new`]'s `max_age`, and all tenants of a batch in one
//! call. While the table cannot be read, it continues with what it has cached, and tries again every few seconds.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::identity::Tenant;
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::time::Timestamp;
use redial_engine::ports::{KnownPolicies, Policies, PortError};

use crate::cache::Cache;
use crate::retries::Patience;
use crate::table::Table;
use crate::table::attributes::{self, Item, Read, s};
use crate::write_units::MeteredClient;

/// The sort key of the item.
const SORT_KEY: &str = "policies";

/// How long a worker waits before it reads a table again that it could not read.
const PAUSE: Duration = Duration::from_secs(5);

/// Tenants' policies in the `control` table.
#[derive(Clone, Debug)]
pub struct DynamoPolicies {
    table: Table,
    max_age: Duration,
    cache: Cache<Tenant, Cached>,
}

struct Cached {
    policies: Arc<TenantPolicies>,
    fresh_until: Timestamp,
}

impl DynamoPolicies {
    /// In this table, remembered for `max_age`.
    pub fn new(client: impl Into<MeteredClient>, table: String, max_age: Duration) -> Self {
        Self { table: Table::new(client, table), max_age, cache: Cache::default() }
    }

    /// What is stored for a tenant, valid or not.
    pub async fn stored(&self, tenant: &Tenant) -> Result<Vec<Stored>, PortError> {
        Ok(self.table.get_one(key(tenant)).await?.as_ref().map(stored).unwrap_or_default())
    }

    /// Stores a text that was checked; returns the previous one, which is empty if it was no text.
    pub async fn put(&self, tenant: &Tenant, slot: &Slot, policy: &str) -> Result<Option<String>, PortError> {
        let update = self.table.update(
            key(tenant),
            "SET #policy = :policy, #good = :policy",
            [(":policy", s(policy))],
        );
        self.replace(update.return_values(ReturnValue::UpdatedOld), slot).await
    }

    /// Removes a policy; returns its text, which is empty if it was no text.
    pub async fn remove(&self, tenant: &Tenant, slot: &Slot) -> Result<Option<String>, PortError> {
        let update = self.table.update(key(tenant), "REMOVE #policy, #good", []);
        self.replace(update.return_values(ReturnValue::AllOld), slot).await
    }

    async fn replace(
        &self,
        update: UpdateItemFluentBuilder,
        slot: &Slot,
    ) -> Result<Option<String>, PortError> {
        let [policy, good] = names(slot);
        let update =
            update.expression_attribute_names("#policy", &policy).expression_attribute_names("#good", good);
        let before = self.table.send(update).await?.attributes();
        let before = before.filter(|item| item.contains_key(&policy));
        Ok(before.map(|item| item.text(&policy).unwrap_or_default().to_owned()))
    }

    fn fresh(&self, tenant: &Tenant, now: Timestamp) -> Option<KnownPolicies> {
        let cached = self.cache.lock();
        let cached = cached.get(tenant).filter(|cached| now < cached.fresh_until)?;
        Some(KnownPolicies { policies: cached.policies.clone(), ..KnownPolicies::default() })
    }

    /// Takes over what was read for a tenant; an invalid policy keeps the text that was followed before.
    fn learn(&self, tenant: &Tenant, stored: Vec<Stored>, now: Timestamp) -> KnownPolicies {
        let before = self.cache.lock().get(tenant).map(|cached| cached.policies.clone()).unwrap_or_default();
        let (policies, ignored) = TenantPolicies::read(stored, &before);
        let policies = Arc::new(policies);
        let cached = Cached { policies: policies.clone(), fresh_until: now.plus(self.max_age) };
        self.cache.insert(tenant.clone(), cached, |cached| u8::from(now < cached.fresh_until));
        KnownPolicies { policies, ignored, stale: None }
    }

    /// Continues with the cached policies of a tenant, if there are any.
    fn go_on(&self, tenant: &Tenant, error: PortError, now: Timestamp) -> Result<KnownPolicies, PortError> {
        let mut cached = self.cache.lock();
        let Some(cached) = cached.get_mut(tenant) else { return Err(error) };
        cached.fresh_until = now.plus(PAUSE);
        let policies = cached.policies.clone();
        Ok(KnownPolicies { policies, ignored: Vec::new(), stale: Some(error) })
    }
}

impl Policies for DynamoPolicies {
    async fn of(&self, tenants: Vec<Tenant>, now: Timestamp) -> Vec<Result<KnownPolicies, PortError>> {
        let fresh: Vec<_> = tenants.iter().map(|tenant| self.fresh(tenant, now)).collect();
        let stale = tenants.iter().zip(&fresh).filter(|(_, fresh)| fresh.is_none());
        let wanted = stale.map(|(tenant, _)| key(tenant)).collect();
        let mut read = self.table.get_each(wanted, Patience::brief()).await.into_iter();
        let answer = |(tenant, fresh): (&Tenant, Option<KnownPolicies>)| match fresh {
            Some(fresh) => Ok(fresh),
            None => match read.next().expect("every stale one was read") {
                Ok(item) => Ok(self.learn(tenant, item.as_ref().map(stored).unwrap_or_default(), now)),
                Err(error) => self.go_on(tenant, error, now),
            },
        };
        tenants.iter().zip(fresh).map(answer).collect()
    }
}

fn key(tenant: &Tenant) -> Item {
    attributes::key(format!("tenant#{tenant}"), SORT_KEY)
}

/// The attributes of a policy, and of the last valid one.
fn names(slot: &Slot) -> [String; 2] {
    let slot = match slot {
        Slot::Tenant => "tenant".to_owned(),
        Slot::Topic(topic) => format!("topic#{topic}"),
    };
    [format!("policy#{slot}"), format!("last_good#{slot}")]
}

/// The policies of an item. One of another type counts as an empty text: invalid.
fn stored(item: &Item) -> Vec<Stored> {
    let slots = item.keys().filter_map(|name| match name.strip_prefix("policy#")? {
        "tenant" => Some(Slot::Tenant),
        other => Some(Slot::Topic(other.strip_prefix("topic#")?.to_owned())),
    });
    let read = |slot| {
        let [policy, good] = names(&slot);
        let policy = item.text(&policy).unwrap_or_default().to_owned();
        Stored { policy, last_good: item.text(&good).map(str::to_owned), slot }
    };
    let mut stored: Vec<Stored> = slots.map(read).collect();
    stored.sort_unstable_by(|a, b| a.slot.cmp(&b.slot));
    stored
}

#[cfg(test)]
#[path = "policies_dynamo_tests.rs"]
mod tests;
