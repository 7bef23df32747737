//! `redial api-keys create`.

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

use super::{json_of, keys, scopes};
use crate::{
    commands::ids,
    failure::Failure,
    span,
    target::TargetArgs,
    terminal::{print, say},
};

/// The longest that a key with an end may be good: ten years.
const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);

/// Makes a key and prints it, this once; or gives an AWS principal a right
///
/// The key is alone on standard output, so that it can be piped to where it is kept. The stack stores a digest of it: it cannot
/// be shown again. With --iam-arn there is no key: what is printed is the id of the right, and the principal signs its
/// requests with its own AWS credentials. A role is meant whatever its path, with all its sessions. A principal has one
/// right at a time; exit status 1 says that it has one already.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys create --tenant acme --scope send,read --label shop --expires-in 90d
  redial api-keys create --tenant acme --scope subscribe --json | jq -r .key
  redial api-keys create --tenant acme --scope send --iam-arn arn:aws:iam::111122223333:role/Shop")]
pub(crate) struct Create {
    /// For whom it speaks
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// For what: send, subscribe, read, or several of them with commas between
    #[arg(long, required = true, value_name = "SCOPES", value_delimiter = ',', value_parser = scope)]
    scope: Vec<Scope>,
    /// What to call it in lists: 1 to 64 bytes
    #[arg(long, value_parser = label)]
    label: Option<String>,
    /// For how long it is good: 30m, 24h, 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    expires_in: Option<Duration>,
    /// The AWS user or role whose credentials do instead of a key
    #[arg(long, value_name = "ARN", value_parser = principal)]
    iam_arn: Option<IamArn>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Create {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let store = keys(&self.target.resolve().await?);
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
                say(&format!(
                    "that principal has a right already: revoke it first, with `redial api-keys revoke {id}`"
                ));
                return Err(Failure::Reported);
            }
            Created::Taken => {
                say(
                    "another was stored at the same moment, and nothing was made: see `redial api-keys list`",
                );
                return Err(Failure::Reported);
            }
        }
        if self.json {
            let mut line = json_of(&key, now);
            line["key"] = secret.into();
            return Ok(print(&line.to_string())?);
        }
        print(secret.as_deref().unwrap_or(key.id.as_str()))?;
        told(&key).iter().for_each(|line| say(line));
        Ok(())
    }
}

/// What is said beside what is printed.
fn told(key: &StoredKey) -> Vec<String> {
    let until = key
        .expires_at
        .map_or("until it is revoked".to_owned(), |end| format!("until {}", Timestamp::to_rfc3339(end)));
    let (id, tenant, scopes) = (&key.id, &key.tenant, scopes(key));
    match &key.credential {
        Credential::Key(_) => vec![
            format!("{id}: {scopes} for {tenant}, {until}"),
            "keep the key now, it is not shown again; send it as `Authorization: Bearer KEY`".to_owned(),
        ],
        Credential::Iam(arn) => vec![
            format!("{id}: {scopes} for {tenant}, {until}, to {arn}"),
            "workers that have asked for it follow within 30 seconds".to_owned(),
        ],
    }
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::from_label(text).ok_or_else(|| "send, subscribe or read".to_owned())
}

fn label(text: &str) -> Result<String, String> {
    let fits = (1..=StoredKey::MAX_LABEL).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| "1 to 64 bytes without control characters".to_owned())
}

fn expiry(text: &str) -> Result<Duration, String> {
    let fits = |time: &Duration| (Duration::from_secs(1)..=LONGEST).contains(time);
    span::parse(text)
        .filter(fits)
        .ok_or_else(|| "a time from 1s to 3650d, such as 30m, 24h or 90d".to_owned())
}

fn principal(text: &str) -> Result<IamArn, String> {
    IamArn::parse(text).ok_or_else(|| {
        "the ARN of an AWS user or role, such as arn:aws:iam::111122223333:role/Shop".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_has_its_bounds() {
        for (text, seconds) in [("1s", 1), ("24h", 86_400), ("90d", 7_776_000), ("3650d", 315_360_000)] {
            assert_eq!(expiry(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0s", "90", "3651d", "-1d", "1w"] {
            assert!(expiry(text).is_err(), "{text}");
        }
        assert!(label("the shop's").is_ok() && label(&"a".repeat(64)).is_ok());
        for text in ["", "a\nb", "\u{1b}[2J", &"a".repeat(65)] {
            assert!(label(text).is_err(), "{text:?}");
        }
        assert_eq!(scope("subscribe"), Ok(Scope::Subscribe));
        assert!(scope("admin").is_err() && principal("Shop").is_err());
    }
}
