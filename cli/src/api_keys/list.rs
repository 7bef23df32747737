use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    access::{Credential, StoredKey},
    identity::Tenant,
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use crate::{
    arguments,
    failure::Failure,
    stack::OnStack,
    table::{Column, Narrow, Table},
    terminal::{say, width},
};

/// Lists keys and the rights of AWS principals, including expired and revoked ones
///
/// Secrets are not listed: the stack does not have them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys list
  redial api-keys list --tenant acme --json \\
    | jq -r '.keys[] | select(.state == \"active\") | .id'")]
pub(crate) struct List {
    /// Only the keys of this tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Option<Tenant>,
    #[command(flatten)]
    on: OnStack,
}

impl List {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let listed = self.on.target().await?.access().list(self.tenant.as_ref()).await?;
        let now = System.now();
        if listed.is_empty() && !self.on.json {
            say("no keys");
        }
        let json = || json!({"keys": listed.iter().map(|key| json_of(key, now)).collect::<Vec<_>>()});
        self.on.print(json, || table(&listed, now).lines())
    }
}

fn table(keys: &[StoredKey], now: Timestamp) -> Table {
    let columns = [
        Column::text("ID"),
        Column::text("TENANT").narrowed(4, Narrow::CutEnd),
        Column::text("SCOPES").narrowed(3, Narrow::CutEnd),
        Column::text("STATE"),
        Column::text("CREATED").narrowed(2, Narrow::LeaveOut),
        Column::text("ENDS"),
        Column::text("LABEL").narrowed(1, Narrow::CutEnd),
    ];
    Table::new(columns).within(width()).with(keys.iter().map(|key| row(key, now)))
}

fn row(key: &StoredKey, now: Timestamp) -> [String; 7] {
    let end = key.revoked_at.or(key.expires_at).map_or("never".to_owned(), Timestamp::day);
    let label = match (&key.credential, &key.label) {
        (Credential::Key(_), label) => label.clone().unwrap_or_default(),
        (Credential::Iam(arn), None) => arn.to_string(),
        (Credential::Iam(arn), Some(label)) => format!("{label} ({arn})"),
    };
    [
        key.id.to_string(),
        key.tenant.to_string(),
        scopes(key),
        key.standing(now).label().to_owned(),
        key.created_at.day(),
        end,
        label,
    ]
}

/// A key as it is shown: everything that is stored except its digest.
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

#[cfg(test)]
mod tests {
    use redial_core::access::{ApiKey, IamArn, Scope, SecretDigest};

    use super::*;

    fn key() -> StoredKey {
        let key = ApiKey::generate(&[0; 64]);
        StoredKey {
            id: key.id().clone(),
            tenant: Tenant::parse("acme").expect("valid"),
            scopes: [Scope::Read, Scope::Send].into(),
            credential: Credential::Key(SecretDigest::of(&key)),
            label: Some("shop".to_owned()),
            created_at: Timestamp::from_secs(1_800_000_000),
            expires_at: Some(Timestamp::from_secs(1_807_776_000)),
            revoked_at: None,
        }
    }

    fn right() -> StoredKey {
        let arn = IamArn::parse("arn:aws:iam::111122223333:role/Shop").expect("a role");
        let scopes = [Scope::Send].into();
        StoredKey { scopes, credential: Credential::Iam(arn), label: None, expires_at: None, ..key() }
    }

    #[test]
    fn keys_and_rights_are_aligned() {
        assert_eq!(
            table(&[key(), right()], Timestamp::from_secs(1_800_000_001)).lines(),
            [
                "ID            TENANT  SCOPES     STATE   CREATED     ENDS        LABEL",
                "000000000000  acme    send,read  active  2027-01-15  2027-04-15  shop",
                "000000000000  acme    send       active  2027-01-15  never       arn:aws:iam::111122223333:role/Shop",
            ]
        );
    }

    #[test]
    fn json_has_everything_but_the_digest() {
        let now = Timestamp::from_secs(1_807_776_000);
        let revoked = StoredKey { revoked_at: Some(now), ..right() };
        let expected = json!({
            "id": "000000000000", "tenant": "acme", "scopes": ["send"], "kind": "iam",
            "iam_arn": "arn:aws:iam::111122223333:role/Shop", "label": null, "state": "revoked",
            "created_at": "2027-01-15T08:00:00.000Z", "expires_at": null, "revoked_at": "2027-04-15T08:00:00.000Z",
        });
        assert_eq!(json_of(&revoked, now), expected);
        let line = json_of(&key(), now);
        assert_eq!((&line["state"], &line["kind"]), (&json!("expired"), &json!("key")));
        assert!(!line.to_string().contains("digest"));
    }
}
