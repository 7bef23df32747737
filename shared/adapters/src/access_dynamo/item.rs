//! The attributes of the rows. The end of a key is in `ends_at`, because `expires_at` is the table's TTL, and keys stay.

use redial_core::access::{ApiKeyId, Credential, IamArn, Scope, SecretDigest, StoredKey};
use redial_core::identity::Tenant;
use ring::digest::{SHA256, digest};

use crate::table::attributes::{Item, Read, key, ms, s};

/// The sort key of a key's row, and of a principal's.
const SORT_KEY: &str = "key";

/// The partition that lists the tenants with keys.
pub(super) const TENANTS: &str = "access-tenants";

/// The partition that lists a tenant's keys.
pub(super) fn partition_of(tenant: &Tenant) -> String {
    format!("access-of#{tenant}")
}

pub(super) fn id_key(id: &ApiKeyId) -> Item {
    key(format!("access#{id}"), SORT_KEY)
}

/// The ARN itself may be longer than a partition key.
pub(super) fn iam_key(arn: &IamArn) -> Item {
    let hash = digest(&SHA256, arn.as_str().as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    key(format!("access#iam#{hex}"), SORT_KEY)
}

pub(super) fn write(key: &StoredKey) -> Item {
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
