//! What operators do with keys: they make, list and revoke them.

use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use redial_core::access::{ApiKeyId, Credential, IamArn, Standing, StoredKey};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::item::{TENANTS, iam_key, id_key, partition_of, read, write};
use super::{DynamoAccess, Store};
use crate::table::attributes::{Item, Read, key, ms, s};
use crate::table::{Update, transact};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Created {
    Yes,
    /// The principal has an active grant of this id: nothing was stored.
    Has(ApiKeyId),
    /// The id is in use, or another grant was stored for the principal at the same moment: nothing was stored.
    Taken,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Revoked {
    /// The key as it is stored now.
    Now(StoredKey),
    /// It had been revoked before, and is unchanged.
    Before(StoredKey),
    Unknown,
}

impl<C> DynamoAccess<C> {
    /// Reads a key now, whatever is remembered of it.
    pub async fn stored(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        self.store.key(id).await
    }

    /// Stores a new key. A principal has one grant at a time: a second is stored once the first is over at `now`.
    pub async fn create(&self, stored: &StoredKey, now: Timestamp) -> Result<Created, PortError> {
        let mut puts = vec![self.store.put_if_new(write(stored))];
        if let Credential::Iam(arn) = &stored.credential {
            let before = self.store.id_of(arn).await?;
            if let Some(id) = &before
                && let Some(grant) = self.store.key(id).await?
                && grant.standing(now) == Standing::Active
            {
                return Ok(Created::Has(id.clone()));
            }
            puts.push(self.store.put_principal(arn, &stored.id, before.as_ref()));
        }
        puts.push(self.store.put(key(partition_of(&stored.tenant), stored.id.as_str())));
        puts.push(self.store.put(key(TENANTS, stored.tenant.as_str())));
        let write = |put: PutBuilder| {
            let put = put.build().expect("invariant: a put has its table and its item");
            TransactWriteItem::builder().put(put).build()
        };
        let writes: Vec<_> = puts.into_iter().map(write).collect();
        let is_written = transact(self.store.0.client(), &writes).await?;
        Ok(if is_written { Created::Yes } else { Created::Taken })
    }

    /// The keys of a tenant, or of all tenants: by tenant, in the order in which they were made.
    pub async fn list(&self, tenant: Option<&Tenant>) -> Result<Vec<StoredKey>, PortError> {
        let tenants = match tenant {
            Some(tenant) => vec![tenant.clone()],
            None => {
                self.store.sort_keys(TENANTS).await?.iter().filter_map(|name| Tenant::parse(name)).collect()
            }
        };
        let mut keys = Vec::new();
        for tenant in tenants {
            let ids = self.store.sort_keys(&partition_of(&tenant)).await?;
            keys.extend(ids.iter().filter_map(|id| ApiKeyId::parse(id)).map(|id| id_key(&id)));
        }
        let mut found: Vec<StoredKey> = self.store.0.get_all(keys).await?.iter().filter_map(read).collect();
        found.sort_by(|a, b| (&a.tenant, a.created_at, &a.id).cmp(&(&b.tenant, b.created_at, &b.id)));
        Ok(found)
    }

    /// Revokes a key at `now`.
    pub async fn revoke(&self, id: &ApiKeyId, now: Timestamp) -> Result<Revoked, PortError> {
        let update = self
            .store
            .0
            .update(id_key(id), "SET #revoked_at = :at", [(":at", ms(now))])
            .condition_expression("attribute_exists(#id) AND attribute_not_exists(#revoked_at)");
        let updated = self.store.0.send(update).await?;
        Ok(match (self.store.key(id).await?, updated) {
            (Some(key), Update::Done(_)) => Revoked::Now(key),
            (Some(key), Update::Refused(_)) => Revoked::Before(key),
            (None, _) => Revoked::Unknown,
        })
    }
}

impl Store {
    fn put(&self, item: Item) -> PutBuilder {
        Put::builder().table_name(self.0.name()).set_item(Some(item))
    }

    fn put_if_new(&self, item: Item) -> PutBuilder {
        self.put(item).condition_expression("attribute_not_exists(pk)")
    }

    /// Writes a principal's row if there is none, or still the one that was read.
    fn put_principal(&self, arn: &IamArn, id: &ApiKeyId, before: Option<&ApiKeyId>) -> PutBuilder {
        let mut item = iam_key(arn);
        item.insert("id".to_owned(), s(id.as_str()));
        let Some(before) = before else { return self.put_if_new(item) };
        self.put(item)
            .condition_expression("#id = :before")
            .expression_attribute_names("#id", "id")
            .expression_attribute_values(":before", s(before.as_str()))
    }

    async fn sort_keys(&self, pk: &str) -> Result<Vec<String>, PortError> {
        let items = self.0.partition(pk).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }
}
