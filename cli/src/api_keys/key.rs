//! A key as it is shown: everything that is stored except its digest.

use redial_core::{
    access::{Credential, StoredKey},
    time::Timestamp,
};
use serde_json::{Value, json};

pub(super) fn json_of(key: &StoredKey, now: Timestamp) -> Value {
    let (kind, arn) = match &key.credential {
        Credential::Key(_) => ("key", None),
        Credential::Iam(arn) => ("iam", Some(arn.as_str())),
    };
    json!({
        "id": key.id.as_str(),
        "tenant": key.tenant.as_str(),
        "scopes": key.scopes.iter().map(|scope| scope.label()).collect::<Vec<_>>(),
        "kind": kind,
        "iam_arn": arn,
        "label": key.label,
        "state": key.standing(now).label(),
        "created_at": key.created_at.to_rfc3339(),
        "expires_at": key.expires_at.map(Timestamp::to_rfc3339),
        "revoked_at": key.revoked_at.map(Timestamp::to_rfc3339),
    })
}

/// As on the command line.
pub(super) fn scopes(key: &StoredKey) -> String {
    key.scopes.iter().map(|scope| scope.label()).collect::<Vec<_>>().join(",")
}
