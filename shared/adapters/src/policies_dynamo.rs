//! Tenants' own retry policies: one item a tenant in the `control` table, remembered for a while.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `tenant#<tenant>` | `policies` | `policy#tenant`, `policy#topic#<event type>`: JSON; `last_good#…` beside each |
//!
//! `last_good#…` is written together with `policy#…` by the one command that checks it first. Whoever changes `policy#…` by
//! hand and gets it wrong leaves it standing, so that functions which start later know what held before.
//!
//! A worker reads a tenant's item at most once in [`DynamoPolicies::new`]'s `max_age`, and all tenants of a batch in one
//! call. While the table cannot be read, it goes on with what it knows, and asks again every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use redial_core::identity::Tenant;
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::time::Timestamp;
use redial_engine::ports::{KnownPolicies, Policies, PortError};

use crate::attributes::{Item, Read, s};
use crate::{aws_error, batch_get};

/// The sort key of the item.
const SORT_KEY: &str = "policies";

/// How long a worker waits before it asks again a table that it could not read.
const PAUSE: Duration = Duration::from_secs(5);

/// Of how many tenants a worker remembers the policies.
const MOST: usize = 4096;

/// Tenants' policies in the `control` table.
#[derive(Clone, Debug)]
pub struct DynamoPolicies {
    client: Client,
    table: String,
    max_age: Duration,
    known: Arc<Mutex<HashMap<Tenant, Known>>>,
}

#[derive(Clone, Debug)]
struct Known {
    policies: Arc<TenantPolicies>,
    fresh_until: Timestamp,
}

impl DynamoPolicies {
    /// In this table, remembered for `max_age`.
    pub fn new(client: Client, table: String, max_age: Duration) -> Self {
        Self { client, table, max_age, known: Arc::default() }
    }

    /// What is stored for a tenant, valid or not.
    pub async fn stored(&self, tenant: &Tenant) -> Result<Vec<Stored>, PortError> {
        let items = batch_get::get(&self.client, &self.table, vec![key(tenant)]).await?;
        Ok(items.first().map(stored).unwrap_or_default())
    }

    /// Stores a text that was checked; answers what stood there before, which is empty if that was no text.
    pub async fn put(&self, tenant: &Tenant, slot: &Slot, policy: &str) -> Result<Option<String>, PortError> {
        let updated = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(tenant)))
            .update_expression("SET #policy = :policy, #good = :policy")
            .expression_attribute_names("#policy", policy_name(slot))
            .expression_attribute_names("#good", good_name(slot))
            .expression_attribute_values(":policy", s(policy))
            .return_values(aws_sdk_dynamodb::types::ReturnValue::UpdatedOld)
            .send()
            .await;
        let before = updated.map_err(|error| aws_error::of_call("UpdateItem", &error))?.attributes;
        Ok(before.and_then(|item| text_or_empty(&item, &policy_name(slot))))
    }

    /// Removes what is stored; answers what it was, which is empty if it was no text.
    pub async fn remove(&self, tenant: &Tenant, slot: &Slot) -> Result<Option<String>, PortError> {
        let updated = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(tenant)))
            .update_expression("REMOVE #policy, #good")
            .expression_attribute_names("#policy", policy_name(slot))
            .expression_attribute_names("#good", good_name(slot))
            .return_values(aws_sdk_dynamodb::types::ReturnValue::AllOld)
            .send()
            .await;
        let before = updated.map_err(|error| aws_error::of_call("UpdateItem", &error))?.attributes;
        Ok(before.and_then(|item| text_or_empty(&item, &policy_name(slot))))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Tenant, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a tenant, if it is still fresh.
    fn fresh(&self, tenant: &Tenant, now: Timestamp) -> Option<KnownPolicies> {
        let known = self.known();
        let it = known.get(tenant).filter(|known| now < known.fresh_until)?;
        Some(KnownPolicies { policies: it.policies.clone(), ..KnownPolicies::default() })
    }

    /// Reads what is stored for a tenant over what was known of it.
    fn learn(&self, tenant: &Tenant, stored: Vec<Stored>, now: Timestamp) -> KnownPolicies {
        let mut known = self.known();
        if known.len() >= MOST && !known.contains_key(tenant) {
            known.retain(|_, it| now < it.fresh_until);
            if known.len() >= MOST {
                known.clear();
            }
        }
        let before = known.get(tenant).map(|it| it.policies.clone()).unwrap_or_default();
        let (policies, ignored) = TenantPolicies::read(stored, &before);
        let policies = Arc::new(policies);
        let fresh_until = now.plus(self.max_age);
        known.insert(tenant.clone(), Known { policies: policies.clone(), fresh_until });
        KnownPolicies { policies, ignored, stale: None }
    }

    /// Goes on with what is known of a tenant, if anything is.
    fn go_on(&self, tenant: &Tenant, error: &PortError, now: Timestamp) -> Result<KnownPolicies, PortError> {
        let mut known = self.known();
        let it = known.get_mut(tenant).ok_or_else(|| error.clone())?;
        it.fresh_until = now.plus(PAUSE);
        let policies = it.policies.clone();
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
        let read = batch_get::get(&self.client, &self.table, wanted).await;
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
    [("pk".to_owned(), s(partition(tenant))), ("sk".to_owned(), s(SORT_KEY))].into()
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

/// The texts of an item.
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

/// An attribute's text, if there is that attribute. One that is no text, because someone wrote a number there, is as an empty
/// text: invalid.
fn text_or_empty(item: &Item, name: &str) -> Option<String> {
    item.contains_key(name).then(|| item.text(name).unwrap_or_default().to_owned())
}

#[cfg(test)]
#[path = "policies_dynamo_tests.rs"]
mod tests;
