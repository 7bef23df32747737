//! `redial api-keys list`.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    access::{Credential, StoredKey},
    identity::Tenant,
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{json_of, keys, scopes};
use crate::{
    commands::ids,
    failure::Failure,
    table::{Column, Table},
    target::TargetArgs,
    terminal::{print, say},
};

/// Lists keys and AWS principals' rights, those that are over too
///
/// Secrets are not among what is listed: the stack does not have them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys list
  redial api-keys list --tenant acme --json | jq -r '.keys[] | select(.state == \"active\") | .id'")]
pub(crate) struct List {
    /// Only this tenant's
    #[arg(long, value_parser = ids::tenant)]
    tenant: Option<Tenant>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let listed = keys(&self.target.resolve().await?).list(self.tenant.as_ref()).await?;
        let now = System.now();
        if self.json {
            let listed: Vec<Value> = listed.iter().map(|key| json_of(key, now)).collect();
            return Ok(print(&json!({"keys": listed}).to_string())?);
        }
        if listed.is_empty() {
            say("there are no keys");
            return Ok(());
        }
        table(&listed, now).lines().iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn table(keys: &[StoredKey], now: Timestamp) -> Table {
    let headings = ["ID", "TENANT", "SCOPES", "STATE", "CREATED", "ENDS", "LABEL"];
    Table::new(headings.map(Column::text)).with(keys.iter().map(|key| row(key, now)))
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
    fn they_stand_below_each_other() {
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
    fn a_script_gets_all_but_the_digest() {
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
