//! API keys, and the grants of AWS principals, in the `control` table.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `access#<id>` | `key` | a key or a principal's grant: tenant, scopes, times, and a digest or an ARN |
//! | `access#iam#<SHA-256 of the ARN, hex>` | `key` | the id of a principal's grant, of which there is one at a time |
//! | `access-of#<tenant>` | id | a tenant's key or grant |
//! | `access-tenants` | tenant | a tenant with a key or grant |
//!
//! All rows of a key are written in one transaction, so every valid key is also listed, and nothing is found by a scan. Revoking
//! writes to the first row alone. Expired and revoked keys stay, so that no id is used twice and an operator still sees whose it was.
//!
//! A worker reads a key at most once in [`REMEMBERED`], however many requests carry it at once. So a revoked key is accepted for
//! that long at most, also while the table cannot be read.
//!
//! | file | concept |
//! |---|---|
//! | `item` | the attributes of the rows |
//! | `lookups` | one read of a key at a time, remembered for a while |
//! | `operator` | making, listing and revoking |

mod item;
mod lookups;
mod operator;

use redial_core::access::{ApiKey, ApiKeyId, IamArn, StoredKey};
use redial_engine::ports::{AccessKeys, Clock, PortError};
use ring::rand::{SecureRandom, SystemRandom};

use crate::system::System;
use crate::table::Table;
use crate::table::attributes::Read;
use crate::webhook_keys::NoRandomness;
use item::{iam_key, id_key};
use lookups::Lookups;

pub use lookups::REMEMBERED;
pub use operator::{Created, Revoked};

/// A new key from the system's randomness.
pub fn new_key() -> Result<ApiKey, NoRandomness> {
    let mut random = [0; ApiKey::RANDOM_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| NoRandomness)?;
    Ok(ApiKey::generate(&random))
}

/// API keys in the `control` table. Clones share what they remember.
#[derive(Clone, Debug)]
pub struct DynamoAccess<C = System> {
    store: Store,
    clock: C,
    by_id: Lookups<ApiKeyId>,
    by_arn: Lookups<IamArn>,
}

#[derive(Clone, Debug)]
struct Store(Table);

impl DynamoAccess {
    /// In this table: partition key `pk`, sort key `sk` (strings).
    pub fn new(client: aws_sdk_dynamodb::Client, table: String) -> Self {
        Self::with_clock(client, table, System)
    }
}

impl<C> DynamoAccess<C> {
    pub fn with_clock(client: aws_sdk_dynamodb::Client, table: String, clock: C) -> Self {
        let store = Store(Table::new(client, table));
        Self { store, clock, by_id: Lookups::default(), by_arn: Lookups::default() }
    }
}

impl<C: Clock> AccessKeys for DynamoAccess<C> {
    async fn find(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        let (store, wanted) = (self.store.clone(), id.clone());
        self.by_id.get(id, self.clock.now(), || async move { store.key(&wanted).await }).await
    }

    async fn find_iam(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        let (store, wanted) = (self.store.clone(), arn.clone());
        self.by_arn.get(arn, self.clock.now(), || async move { store.grant_of(&wanted).await }).await
    }
}

impl Store {
    /// `None` also for a row that cannot be read: it grants nothing.
    async fn key(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        Ok(self.0.get(id_key(id)).await?.as_ref().and_then(item::read))
    }

    async fn id_of(&self, arn: &IamArn) -> Result<Option<ApiKeyId>, PortError> {
        let item = self.0.get(iam_key(arn)).await?;
        Ok(item.and_then(|item| ApiKeyId::parse(item.text("id")?)))
    }

    async fn grant_of(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        match self.id_of(arn).await? {
            Some(id) => self.key(&id).await,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
