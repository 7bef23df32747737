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
//! writes to the first row alone. The end of a key is in `ends_at`, because `expires_at` is the table's TTL, and keys stay. Expired and revoked keys stay, so that no id is used twice and an operator still sees whose it was.
//!
//! A worker reads a key at most once in [`REMEMBERED`], however many requests carry it at once. So a revoked key is accepted for
//! that long at most, also while the table cannot be read.

mod lookups;
mod replica;

use redial_core::access::{ApiKey, ApiKeyId, Credential, IamArn, Scope, SecretDigest, Standing, StoredKey};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_engine::ports::{AccessKeys, Clock, PortError};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{self, Item, Read, key, ms, s};
use crate::table::{Change, Reading, Table};
use crate::webhook_keys::NoRandomness;
use crate::write_units::MeteredClient;
use lookups::Lookups;

pub use lookups::REMEMBERED;

/// The sort key of a key's row, and of a principal's.
const SORT_KEY: &str = "key";

/// The partition that lists the tenants with keys.
const TENANTS: &str = "access-tenants";

/// A new key from the system's randomness.
pub fn new_key() -> Result<ApiKey, NoRandomness> {
    let mut random = [0; ApiKey::RANDOM_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| NoRandomness)?;
    Ok(ApiKey::generate(&random))
}

/// API keys in the `control` table. Clones share what they remember.
#[derive(Clone, Debug)]
pub struct DynamoAccess<C = System> {
    table: Table,
    clock: C,
    by_id: Lookups<ApiKeyId>,
    by_arn: Lookups<IamArn>,
}

impl DynamoAccess {
    /// In this table: partition key `pk`, sort key `sk` (strings).
    pub fn new(client: impl Into<MeteredClient>, table: String) -> Self {
        Self::with_clock(client, table, System)
    }
}

impl<C> DynamoAccess<C> {
    pub fn with_clock(client: impl Into<MeteredClient>, table: String, clock: C) -> Self {
        let table = Table::new(client, table);
        Self { table, clock, by_id: Lookups::default(), by_arn: Lookups::default() }
    }
}

impl<C: Clock> AccessKeys for DynamoAccess<C> {
    async fn find(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        let (table, wanted) = (self.table.clone(), id.clone());
        self.by_id.get(id, self.clock.now(), || async move { find(&table, &wanted).await }).await
    }

    async fn find_iam(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        let (table, wanted) = (self.table.clone(), arn.clone());
        let read = || async move {
            match id_of(&table, &wanted).await? {
                Some(id) => find(&table, &id).await,
                None => Ok(None),
            }
        };
        self.by_arn.get(arn, self.clock.now(), read).await
    }
}

/// `None` also for a row that cannot be read: it grants nothing.
async fn find(table: &Table, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
    Ok(table.get(id_key(id)).await?.as_ref().and_then(read))
}

async fn id_of(table: &Table, arn: &IamArn) -> Result<Option<ApiKeyId>, PortError> {
    Ok(table.get(iam_key(arn)).await?.and_then(|item| ApiKeyId::parse(item.text("id")?)))
}

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
        find(&self.table, id).await
    }

    /// Stores a new key. A principal has one grant at a time: a second is stored once the first is over at `now`.
    pub async fn create(&self, stored: &StoredKey, now: Timestamp) -> Result<Created, PortError> {
        const IF_NEW: Option<&str> = Some("attribute_not_exists(pk)");
        let put = |item, condition, values| self.table.write(Change::Put(item), condition, values);
        let mut writes = vec![put(write(stored), IF_NEW, Item::new())];
        if let Credential::Iam(arn) = &stored.credential {
            let mut principal = iam_key(arn);
            principal.insert("id".to_owned(), s(stored.id.as_str()));
            // Written if there is none, or still the one that was read.
            writes.push(match id_of(&self.table, arn).await? {
                None => put(principal, IF_NEW, Item::new()),
                Some(id) => {
                    let grant = find(&self.table, &id).await?;
                    if grant.is_some_and(|grant| grant.standing(now) == Standing::Active) {
                        return Ok(Created::Has(id));
                    }
                    put(principal, Some("#id = :before"), attributes::item([(":before", s(id.as_str()))]))
                }
            });
        }
        for row in
            [key(partition_of(&stored.tenant), stored.id.as_str()), key(TENANTS, stored.tenant.as_str())]
        {
            writes.push(put(row, None, Item::new()));
        }
        let is_written = self.table.transact(&writes).await?;
        Ok(if is_written { Created::Yes } else { Created::Taken })
    }

    /// The keys of a tenant, or of all tenants: by tenant, in the order in which they were made.
    pub async fn list(&self, tenant: Option<&Tenant>) -> Result<Vec<StoredKey>, PortError> {
        let tenants = match tenant {
            Some(tenant) => vec![tenant.clone()],
            None => self.sort_keys(TENANTS).await?.iter().filter_map(|name| Tenant::parse(name)).collect(),
        };
        let mut keys = Vec::new();
        for tenant in tenants {
            let ids = self.sort_keys(&partition_of(&tenant)).await?;
            keys.extend(ids.iter().filter_map(|id| ApiKeyId::parse(id)).map(|id| id_key(&id)));
        }
        let items = self.table.read_all(keys, Reading::Consistent, Patience::brief()).await?;
        let mut found: Vec<StoredKey> = items.iter().flatten().filter_map(read).collect();
        found.sort_by(|a, b| (&a.tenant, a.created_at, &a.id).cmp(&(&b.tenant, b.created_at, &b.id)));
        Ok(found)
    }

    /// Revokes a key at `now`.
    pub async fn revoke(&self, id: &ApiKeyId, now: Timestamp) -> Result<Revoked, PortError> {
        let condition = "attribute_exists(#id) AND attribute_not_exists(#revoked_at)";
        let values = [(":at", ms(now))];
        let is_new = self.table.update_if(id_key(id), "SET #revoked_at = :at", condition, values).await?;
        Ok(match (find(&self.table, id).await?, is_new) {
            (Some(key), true) => Revoked::Now(key),
            (Some(key), false) => Revoked::Before(key),
            (None, _) => Revoked::Unknown,
        })
    }

    async fn sort_keys(&self, pk: &str) -> Result<Vec<String>, PortError> {
        let items = self.table.partition(pk).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }
}

/// The partition that lists a tenant's keys.
fn partition_of(tenant: &Tenant) -> String {
    format!("access-of#{tenant}")
}

fn id_key(id: &ApiKeyId) -> Item {
    key(format!("access#{id}"), SORT_KEY)
}

/// The ARN itself may be longer than a partition key.
fn iam_key(arn: &IamArn) -> Item {
    let hash = hex::encode(digest(&SHA256, arn.as_str().as_bytes()));
    key(format!("access#iam#{hash}"), SORT_KEY)
}

fn write(key: &StoredKey) -> Item {
    let StoredKey { id, tenant, scopes, credential, label, created_at, expires_at, revoked_at } = key;
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.label()).collect();
    let credential = match credential {
        Credential::Key(digest) => ("digest", s(digest.to_text())),
        Credential::Iam(arn) => ("arn", s(arn.as_str())),
    };
    let mut item = id_key(id);
    let fields = [
        Some(("id", s(id.as_str()))),
        Some(("tenant", s(tenant.as_str()))),
        Some(("scopes", s(scopes.join(",")))),
        Some(credential),
        Some(("created_at", ms(*created_at))),
        label.as_ref().map(|label| ("label", s(label))),
        expires_at.map(|at| ("ends_at", ms(at))),
        revoked_at.map(|at| ("revoked_at", ms(at))),
    ];
    item.extend(fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)));
    item
}

/// Reads a key's row; `None` if any attribute is not as [`write`] writes it. In particular, a key whose end cannot be read is no key
/// without an end.
fn read(item: &Item) -> Option<StoredKey> {
    let time = |name: &str| match item.contains_key(name) {
        true => item.time(name).map(Some),
        false => Some(None),
    };
    let scopes = item.text("scopes")?.split(',').map(Scope::from_label).collect::<Option<_>>()?;
    let credential = match (item.text("digest"), item.text("arn")) {
        (Some(digest), None) => Credential::Key(SecretDigest::parse(digest)?),
        (None, Some(arn)) => Credential::Iam(IamArn::parse(arn)?),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    Some(StoredKey {
        id: ApiKeyId::parse(item.text("id")?)?,
        tenant: Tenant::parse(item.text("tenant")?)?,
        scopes,
        credential,
        label: item.text("label").map(str::to_owned),
        created_at: item.time("created_at")?,
        expires_at: time("ends_at")?,
        revoked_at: time("revoked_at")?,
    })
}

#[cfg(test)]
mod tests;
