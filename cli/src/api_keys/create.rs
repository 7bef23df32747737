use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use redial_adapters::{
    access_dynamo::{Created, new_key},
    system::System,
};
use redial_core::{
    access::{Credential, IamArn, Scope, SecretDigest, StoredKey},
    identity::Tenant,
    time::Timestamp,
};
use redial_engine::ports::Clock as _;

use super::list::{json_of, scopes};
use crate::{
    arguments, duration,
    failure::Failure,
    stack::{OnStack, WORKERS_FOLLOW},
    terminal::{print, say},
};

/// Creates a key and prints it, once; or grants an AWS principal the right to call
///
/// Standard output has the key and nothing else, so that it can be piped into a secret store. The stack keeps only a digest: the
/// key cannot be shown again. With --iam-arn there is no key: the id of the right is printed, and the principal signs its requests
/// with its own AWS credentials. A role is matched whatever its path, with all its sessions. A principal has one right at a
/// time; exit status 1 means that it already has one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys create --tenant acme --scope send,read --label shop \\
    --expires-in 90d
  redial api-keys create --tenant acme --scope subscribe --json | jq -r .key
  redial api-keys create --tenant acme --scope send \\
    --iam-arn arn:aws:iam::111122223333:role/Shop")]
pub(crate) struct Create {
    /// The tenant that the key belongs to
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// send, subscribe, read, or several of them separated by commas
    #[arg(long, required = true, value_name = "SCOPES", value_delimiter = ',', value_parser = scope)]
    scope: Vec<Scope>,
    /// A name to recognise it by in lists: 1 to 64 bytes
    #[arg(long, value_parser = label)]
    label: Option<String>,
    /// Lifetime: 30m, 24h, 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    expires_in: Option<Duration>,
    /// The AWS user or role that calls with its own credentials, without a key
    #[arg(long, value_name = "ARN", value_parser = principal)]
    iam_arn: Option<IamArn>,
    #[command(flatten)]
    on: OnStack,
}

impl Create {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let store = self.on.target().await?.access();
        let now = System.now();
        let made = new_key()?;
        let (credential, secret) = match self.iam_arn {
            Some(arn) => (Credential::Iam(arn), None),
            None => (Credential::Key(SecretDigest::of(&made)), Some(made.expose())),
        };
        let key = StoredKey {
            id: made.id().clone(),
            tenant: self.tenant,
            scopes: BTreeSet::from_iter(self.scope),
            credential,
            label: self.label,
            created_at: now,
            expires_at: self.expires_in.map(|time| now.plus(time)),
            revoked_at: None,
        };
        match store.create(&key, now).await? {
            Created::Yes => {}
            Created::Has(id) => {
                let revoke = format!("revoke it first, with `redial api-keys revoke {id}`");
                return Err(Failure::reported(&format!("this principal already has a right: {revoke}")));
            }
            Created::Taken => {
                let words = "another key was stored at the same moment, and none was created: see `redial api-keys list`";
                return Err(Failure::reported(words));
            }
        }
        if self.on.json {
            let mut line = json_of(&key, now);
            line["key"] = secret.into();
            return Ok(print(&line.to_string())?);
        }
        print(secret.as_deref().unwrap_or(key.id.as_str()))?;
        let scopes = scopes(&key);
        let StoredKey { id, tenant, credential, expires_at, .. } = key;
        let end = expires_at.map_or("it is revoked".to_owned(), Timestamp::to_rfc3339);
        match credential {
            Credential::Key(_) => {
                say(&format!("{id}: {scopes} for {tenant}, until {end}"));
                say("store the key now, it is not shown again; send it as `Authorization: Bearer KEY`");
            }
            Credential::Iam(arn) => {
                say(&format!("{id}: {scopes} for {tenant}, until {end}, to {arn}"));
                say(WORKERS_FOLLOW);
            }
        }
        Ok(())
    }
}

fn scope(text: &str) -> Result<Scope, &'static str> {
    Scope::from_label(text).ok_or("send, subscribe or read")
}

fn label(text: &str) -> Result<String, &'static str> {
    let fits = (1..=StoredKey::MAX_LABEL).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned()).ok_or("1 to 64 bytes without control characters")
}

/// Ten years at most.
fn expiry(text: &str) -> Result<Duration, String> {
    duration::within(text, 1..=3_650 * 86_400, "a time from 1s to 3650d, such as 30m, 24h or 90d")
}

fn principal(text: &str) -> Result<IamArn, &'static str> {
    IamArn::parse(text).ok_or("the ARN of an AWS user or role, such as arn:aws:iam::111122223333:role/Shop")
}
