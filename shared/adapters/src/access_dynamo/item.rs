//! What the rows hold. A time that ends a key is in `ends_at`, because `expires_at` is the table's TTL, and keys stay.

use redial_core::access::{ApiKeyId, Credential, IamArn, Scope, SecretDigest, StoredKey};
use redial_core::identity::Tenant;
use ring::digest::{SHA256, digest};

use crate::attributes::{Item, Read, ms, s};

/// The sort key of a key's row, and of a principal's.
const SORT_KEY: &str = "key";

/// The partition of tenants that have any.
pub(super) const TENANTS: &str = "access-tenants";

/// The partition of what a tenant has.
pub(super) fn partition_of(tenant: &Tenant) -> String {
    format!("access-of#{tenant}")
}

pub(super) fn row(pk: impl Into<String>, sk: impl Into<String>) -> Item {
    [("pk".to_owned(), s(pk)), ("sk".to_owned(), s(sk))].into()
}

/// The key of a key's row.
pub(super) fn id_key(id: &ApiKeyId) -> Item {
    row(format!("access#{id}"), SORT_KEY)
}

/// The key of a principal's row. The ARN itself may be longer than a partition key.
pub(super) fn iam_key(arn: &IamArn) -> Item {
    let hash = digest(&SHA256, arn.as_str().as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    row(format!("access#iam#{hex}"), SORT_KEY)
}

/// A key's row.
pub(super) fn write(key: &StoredKey) -> Item {
    let StoredKey { id, tenant, scopes, credential, label, created_at, expires_at, revoked_at } = key;
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.label()).collect();
    let mut item = id_key(id);
    let mut set = |name: &str, value| item.insert(name.to_owned(), value);
    set("id", s(id.as_str()));
    set("tenant", s(tenant.as_str()));
    set("scopes", s(scopes.join(",")));
    match credential {
        Credential::Key(digest) => set("digest", s(digest.to_text())),
        Credential::Iam(arn) => set("arn", s(arn.as_str())),
    };
    set("created_at", ms(*created_at));
    if let Some(label) = label {
        set("label", s(label));
    }
    if let Some(at) = expires_at {
        set("ends_at", ms(*at));
    }
    if let Some(at) = revoked_at {
        set("revoked_at", ms(*at));
    }
    item
}

/// Reads a key's row; `None` if anything in it is not as it is written here. In particular an end that is there and cannot be
/// read is no key without an end.
pub(super) fn read(item: &Item) -> Option<StoredKey> {
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
