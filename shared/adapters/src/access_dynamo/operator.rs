//! What operators do with keys: they make, list and revoke them.

use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use redial_core::access::{ApiKeyId, Credential, IamArn, Standing, StoredKey};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::item::{TENANTS, iam_key, id_key, partition_of, read, row, write};
use super::{DynamoAccess, Store};
use crate::attributes::{Item, Read, ms, s};
use crate::{aws_error, batch_get, query, transact};

/// What came of storing a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Created {
    /// It is stored.
    Yes,
    /// Its principal has a right already, of this id, that is still good: nothing was stored.
    Has(ApiKeyId),
    /// Another has its id, or was stored for its principal at the same moment: nothing was stored.
    Taken,
}

/// What came of revoking a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Revoked {
    /// It is revoked; as it is stored now.
    Now(StoredKey),
    /// It was revoked before, and its row is as it was.
    Before(StoredKey),
    /// There is none of that id.
    Unknown,
}

impl<C> DynamoAccess<C> {
    /// What is stored of a key right now, whatever is remembered of it.
    pub async fn stored(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        self.store.key(id).await
    }

    /// Stores a new key. A principal has one right at a time: a second is stored once the first is over at `now`.
    pub async fn create(&self, key: &StoredKey, now: Timestamp) -> Result<Created, PortError> {
        let mut puts = vec![self.store.putting_if_new(write(key))];
        if let Credential::Iam(arn) = &key.credential {
            let before = self.store.id_of(arn).await?;
            if let Some(id) = &before
                && let Some(right) = self.store.key(id).await?
                && right.standing(now) == Standing::Active
            {
                return Ok(Created::Has(id.clone()));
            }
            puts.push(self.store.putting_right(arn, &key.id, before.as_ref()));
        }
        puts.push(self.store.putting(row(partition_of(&key.tenant), key.id.as_str())));
        puts.push(self.store.putting(row(TENANTS, key.tenant.as_str())));
        Ok(if self.store.write_all(puts).await? { Created::Yes } else { Created::Taken })
    }

    /// What a tenant has, or all tenants: by tenant, in the order in which it was made.
    pub async fn list(&self, tenant: Option<&Tenant>) -> Result<Vec<StoredKey>, PortError> {
        let tenants = match tenant {
            Some(tenant) => vec![tenant.clone()],
            None => self.store.sort_keys(TENANTS).await?.iter().filter_map(|it| Tenant::parse(it)).collect(),
        };
        let mut keys = Vec::new();
        for tenant in tenants {
            let ids = self.store.sort_keys(&partition_of(&tenant)).await?;
            keys.extend(ids.iter().filter_map(|id| ApiKeyId::parse(id)).map(|id| id_key(&id)));
        }
        let items = batch_get::get(&self.store.client, &self.store.table, keys).await?;
        let mut found: Vec<StoredKey> = items.iter().filter_map(read).collect();
        found.sort_by(|a, b| (&a.tenant, a.created_at, &a.id).cmp(&(&b.tenant, b.created_at, &b.id)));
        Ok(found)
    }

    /// Revokes a key at `now`.
    pub async fn revoke(&self, id: &ApiKeyId, now: Timestamp) -> Result<Revoked, PortError> {
        let store = &self.store;
        let updated = store
            .client
            .update_item()
            .table_name(&store.table)
            .set_key(Some(id_key(id)))
            .update_expression("SET #at = :at")
            .condition_expression("attribute_exists(#id) AND attribute_not_exists(#at)")
            .expression_attribute_names("#at", "revoked_at")
            .expression_attribute_names("#id", "id")
            .expression_attribute_values(":at", ms(now))
            .send()
            .await;
        let was_revoked = match updated {
            Ok(_) => false,
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                true
            }
            Err(error) => return Err(aws_error::of_call("UpdateItem", &error)),
        };
        Ok(match (store.key(id).await?, was_revoked) {
            (Some(key), false) => Revoked::Now(key),
            (Some(key), true) => Revoked::Before(key),
            (None, _) => Revoked::Unknown,
        })
    }
}

impl Store {
    fn putting(&self, item: Item) -> PutBuilder {
        Put::builder().table_name(&self.table).set_item(Some(item))
    }

    fn putting_if_new(&self, item: Item) -> PutBuilder {
        self.putting(item).condition_expression("attribute_not_exists(pk)")
    }

    /// A principal's row, if there is none, or still the one that was read.
    fn putting_right(&self, arn: &IamArn, id: &ApiKeyId, before: Option<&ApiKeyId>) -> PutBuilder {
        let mut item = iam_key(arn);
        item.insert("id".to_owned(), s(id.as_str()));
        let Some(before) = before else { return self.putting_if_new(item) };
        self.putting(item)
            .condition_expression("#id = :before")
            .expression_attribute_names("#id", "id")
            .expression_attribute_values(":before", s(before.as_str()))
    }

    /// Writes all or nothing; `false` if a condition did not hold.
    async fn write_all(&self, puts: Vec<PutBuilder>) -> Result<bool, PortError> {
        let item = |put: PutBuilder| {
            let put = put.build().expect("invariant: a put has its table and its item");
            TransactWriteItem::builder().put(put).build()
        };
        let writes: Vec<_> = puts.into_iter().map(item).collect();
        transact::write(&self.client, &writes).await
    }

    async fn sort_keys(&self, pk: &str) -> Result<Vec<String>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", s(pk))
            .consistent_read(true);
        let items = query::all(query).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }
}
