//! `redial webhooks rotate-secret | secret`: what webhooks are signed with.

use std::time::Duration;

use clap::{Args, Subcommand};
use redial_adapters::{system::System, webhook_keys::new_secret};
use redial_core::{
    identity::Tenant,
    time::Timestamp,
    webhook::{SigningSecrets, WebhookSecret},
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{ids, span, subscriptions::Which};
use crate::{
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// The longest grace: whoever needs more than a month to exchange a secret has another problem.
const LONGEST_GRACE: Duration = Duration::from_secs(31 * 86_400);

/// What webhooks are signed with, by Standard Webhooks
///
/// A stored receiver has secrets of its own. What goes to a bare url is signed with a secret of the tenant's, which follows
/// from the stack's webhook key.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial webhooks rotate-secret --tenant acme --id hooks --grace 24h
  redial webhooks secret --tenant acme")]
pub(crate) enum Webhooks {
    RotateSecret(RotateSecret),
    Secret(Secret),
}

/// Gives a receiver a new secret, and prints it; the old one signs beside it for a while
///
/// During the grace every message has a signature by each, so that a receiver who verifies with either accepts it. Give the
/// new secret to the receiver before the grace is over. With a grace of 0s the old secret ends at once, as it should where
/// it has become known. Exit status 1 says that there is no such webhook.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial webhooks rotate-secret --tenant acme --id hooks
  redial webhooks rotate-secret --tenant acme --id hooks --grace 7d --json | jq -r .secret")]
pub(crate) struct RotateSecret {
    #[command(flatten)]
    which: Which,
    /// For how long the old secret signs too, at most 31d: 90s, 30m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = grace)]
    grace: Duration,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Prints what signs a tenant's messages to bare urls, the current secret first
///
/// There are several where the stack's webhook key was followed by a newer one and both are known: then every message is
/// signed with each. Who knows them can sign in the tenant's name: print them for a reason only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial webhooks secret --tenant acme
  redial webhooks secret --tenant acme --json | jq -r '.secrets[0]'")]
pub(crate) struct Secret {
    /// Whose
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Webhooks {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::RotateSecret(command) => command.run().await,
            Self::Secret(command) => command.run().await,
        }
    }
}

impl RotateSecret {
    async fn run(self) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.target.resolve().await?.subscriptions().await?;
        let newer = new_secret()?;
        let now = System.now();
        let Some(secrets) = store.rotate_secret(&key, &newer, now.plus(self.grace), now).await? else {
            say(&format!("no webhook {key}"));
            return Err(Failure::Reported);
        };
        let older_until = older_until(&secrets);
        if self.json {
            let line = json!({
                "tenant": key.tenant.as_str(),
                "id": key.id.as_str(),
                "secret": newer.expose(),
                "older_until": older_until.map(Timestamp::to_rfc3339),
            });
            return Ok(print(&line.to_string())?);
        }
        print(&newer.expose())?;
        say(&match older_until {
            Some(until) => {
                let until = until.to_rfc3339();
                format!(
                    "{key}: give this secret to the receiver; the older one signs beside it until {until}"
                )
            }
            None => format!("{key}: give this secret to the receiver; nothing else signs any more"),
        });
        // A batch that was read before goes out as it was read.
        say("what is being sent right now may still be signed as before");
        Ok(())
    }
}

/// When the last of the older secrets ends.
fn older_until(secrets: &SigningSecrets) -> Option<Timestamp> {
    secrets.all().iter().filter_map(|(_, end)| *end).max()
}

impl Secret {
    async fn run(self) -> Result<(), Failure> {
        let keys = self.target.resolve().await?.webhook_keys().await?;
        let secrets: Vec<String> = keys.secrets_of(&self.tenant).iter().map(WebhookSecret::expose).collect();
        if self.json {
            let secrets: Vec<Value> = secrets.into_iter().map(Value::from).collect();
            let line = json!({"tenant": self.tenant.as_str(), "secrets": secrets});
            return Ok(print(&line.to_string())?);
        }
        secrets.iter().try_for_each(|secret| print(secret))?;
        Ok(())
    }
}

/// A span of time that is not too long.
fn grace(text: &str) -> Result<Duration, String> {
    let would_do = || "a time from 0s to 31d, such as 90s, 30m, 24h or 7d".to_owned();
    span::parse(text).filter(|grace| *grace <= LONGEST_GRACE).ok_or_else(would_do)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_31_days_at_most() {
        for (text, seconds) in [("0s", 0), ("24h", 86_400), ("31d", 2_678_400)] {
            assert_eq!(grace(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "24", "-1h", "32d", "745h", "1w"] {
            assert!(grace(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_older_ones_last_until_the_last_of_them_ends() {
        let at = Timestamp::from_secs;
        let secret = || new_secret().expect("random");
        let first = SigningSecrets::new(vec![(secret(), None)]).expect("one");
        assert_eq!(older_until(&first), None);
        let second = first.rotated(secret(), at(200), at(100));
        assert_eq!(older_until(&second), Some(at(200)));
        assert_eq!(older_until(&second.rotated(secret(), at(300), at(150))), Some(at(300)));
        assert_eq!(older_until(&second.rotated(secret(), at(150), at(150))), None);
    }
}
