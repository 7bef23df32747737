//! API keys, and the rights of AWS principals, in the `control` table.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `access#<id>` | `key` | a key or a principal's right: tenant, scopes, times, and a digest or an ARN |
//! | `access#iam#<SHA-256 of the ARN, hex>` | `key` | the id of what a principal has, of which there is one at a time |
//! | `access-of#<tenant>` | id | what a tenant has |
//! | `access-tenants` | tenant | a tenant that has any |
//!
//! All rows of a key are written in one transaction, so that whatever is good is also listed, and nothing is found by a scan.
//! Revoking writes to the first row alone. Keys that are over stay, so that their names are never given twice and an operator
//! still sees who had one.
//!
//! A worker reads a key at most once in [`REMEMBERED`], however many requests show it at once. A revoked key is good for
//! so long at the most; while the table cannot be read, for no longer. That there is no such key is remembered as well, and is
//! the first to be forgotten: whoever makes up keys costs one read for each, and drives out no tenant's.
//!
//! | file | concept |
//! |---|---|
//! | `item` | what the rows hold |
//! | `remembered` | one read at a time, and its answer for a while |
//! | `operator` | making, listing and revoking |

mod item;
mod operator;
mod remembered;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use redial_core::access::{ApiKey, ApiKeyId, IamArn, StoredKey};
use redial_engine::ports::{AccessKeys, Clock, PortError};
use ring::rand::{SecureRandom, SystemRandom};

use crate::attributes::{Item, Read};
use crate::aws_error;
use crate::system::System;
use crate::webhook_keys::NoRandomness;
use item::{iam_key, id_key};
use remembered::Remembered;

pub use operator::{Created, Revoked};

/// How long a worker goes by what it has read.
pub const REMEMBERED: Duration = Duration::from_secs(30);

/// A new key, of the system's randomness.
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
    by_id: Arc<Remembered<ApiKeyId>>,
    by_arn: Arc<Remembered<IamArn>>,
}

/// The table.
#[derive(Clone, Debug)]
struct Store {
    client: Client,
    table: String,
}

impl DynamoAccess {
    /// In this table: partition key `pk`, sort key `sk` (strings).
    pub fn new(client: Client, table: String) -> Self {
        Self::with_clock(client, table, System)
    }
}

impl<C> DynamoAccess<C> {
    /// The same, by this clock.
    pub fn with_clock(client: Client, table: String, clock: C) -> Self {
        Self { store: Store { client, table }, clock, by_id: Arc::default(), by_arn: Arc::default() }
    }
}

impl<C: Clock> AccessKeys for DynamoAccess<C> {
    async fn find(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        let (store, wanted) = (self.store.clone(), id.clone());
        self.by_id.get(id, self.clock.now(), || async move { store.key(&wanted).await }).await
    }

    async fn find_iam(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        let (store, wanted) = (self.store.clone(), arn.clone());
        self.by_arn.get(arn, self.clock.now(), || async move { store.right_of(&wanted).await }).await
    }
}

impl Store {
    async fn get(&self, key: Item) -> Result<Option<Item>, PortError> {
        let got = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key))
            .consistent_read(true)
            .send()
            .await;
        Ok(got.map_err(|error| aws_error::of_call("GetItem", &error))?.item)
    }

    /// What is stored of an id. A row that cannot be read is as none: it admits nobody.
    async fn key(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        Ok(self.get(id_key(id)).await?.as_ref().and_then(item::read))
    }

    /// The id of what a principal has, if anything.
    async fn id_of(&self, arn: &IamArn) -> Result<Option<ApiKeyId>, PortError> {
        let item = self.get(iam_key(arn)).await?;
        Ok(item.and_then(|item| ApiKeyId::parse(item.text("id")?)))
    }

    /// What a principal has.
    async fn right_of(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        match self.id_of(arn).await? {
            Some(id) => self.key(&id).await,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
