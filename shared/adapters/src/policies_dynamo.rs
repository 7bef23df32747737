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

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::identity::Tenant;
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::time::Timestamp;
use redial_engine::ports::{KnownPolicies, Policies, PortError};

use crate::cache::Cache;
use crate::table::Table;
use crate::table::attributes::{self, Item, Read, s};

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
    pub fn new(client: Client, table: String, max_age: Duration) -> Self {
        Self { table: Table::new(client, table), max_age, cache: Cache::default() }
    }

    /// What is stored for a tenant, valid or not.
    pub async fn stored(&self, tenant: &Tenant) -> Result<Vec<Stored>, PortError> {
        let items = self.table.get_all(vec![key(tenant)]).await?;
        Ok(items.first().map(stored).unwrap_or_default())
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
        let update = update
            .expression_attribute_names("#policy", policy_name(slot))
            .expression_attribute_names("#good", good_name(slot));
        let before = self.table.send(update).await?.attributes();
        Ok(before.and_then(|item| text_or_empty(&item, &policy_name(slot))))
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
    fn go_on(&self, tenant: &Tenant, error: &PortError, now: Timestamp) -> Result<KnownPolicies, PortError> {
        let mut cached = self.cache.lock();
        let cached = cached.get_mut(tenant).ok_or_else(|| error.clone())?;
        cached.fresh_until = now.plus(PAUSE);
        let policies = cached.policies.clone();
        Ok(KnownPolicies { policies, ignored: Vec::new(), stale: Some(error.clone()) })
    }
}

impl Policies for DynamoPolicies {
    async fn of(&self, tenants: Vec<Tenant>, now: Timestamp) -> Vec<Result<KnownPolicies, PortError>> {
        let fresh: Vec<Option<KnownPolicies>> =
            tenants.iter().map(|tenant| self.fresh(tenant, now)).collect();
        let wanted: Vec<Item> = tenants
            .iter()
            .zip(&fresh)
            .filter(|(_, fresh)| fresh.is_none())
            .map(|(tenant, _)| key(tenant))
            .collect();
        if wanted.is_empty() {
            return fresh.into_iter().flatten().map(Ok).collect();
        }
        let read = self.table.get_all(wanted).await;
        let mut answers = Vec::with_capacity(tenants.len());
        for (tenant, fresh) in tenants.iter().zip(fresh) {
            answers.push(match (fresh, &read) {
                (Some(fresh), _) => Ok(fresh),
                (None, Ok(items)) => {
                    let item = items.iter().find(|item| item.text("pk") == Some(&partition(tenant)));
                    Ok(self.learn(tenant, item.map(stored).unwrap_or_default(), now))
                }
                (None, Err(error)) => self.go_on(tenant, error, now),
            });
        }
        answers
    }
}

fn partition(tenant: &Tenant) -> String {
    format!("tenant#{tenant}")
}

fn key(tenant: &Tenant) -> Item {
    attributes::key(partition(tenant), SORT_KEY)
}

fn slot_name(slot: &Slot) -> String {
    match slot {
        Slot::Tenant => "tenant".to_owned(),
        Slot::Topic(topic) => format!("topic#{topic}"),
    }
}

fn policy_name(slot: &Slot) -> String {
    format!("policy#{}", slot_name(slot))
}

fn good_name(slot: &Slot) -> String {
    format!("last_good#{}", slot_name(slot))
}

/// The policies of an item.
fn stored(item: &Item) -> Vec<Stored> {
    let slots = item.keys().filter_map(|name| match name.strip_prefix("policy#")? {
        "tenant" => Some(Slot::Tenant),
        other => Some(Slot::Topic(other.strip_prefix("topic#")?.to_owned())),
    });
    let mut stored: Vec<Stored> = slots
        .map(|slot| Stored {
            policy: text_or_empty(item, &policy_name(&slot)).unwrap_or_default(),
            last_good: item.text(&good_name(&slot)).map(str::to_owned),
            slot,
        })
        .collect();
    stored.sort_by(|a, b| a.slot.cmp(&b.slot));
    stored
}

/// An attribute's text, if there is that attribute. One of another type counts as an empty text: invalid.
fn text_or_empty(item: &Item, name: &str) -> Option<String> {
    item.contains_key(name).then(|| item.text(name).unwrap_or_default().to_owned())
}

#[cfg(test)]
#[path = "policies_dynamo_tests.rs"]
mod tests;
