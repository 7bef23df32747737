//! `redial webhooks`: the secrets that webhooks are signed with.

use std::time::Duration;

use clap::Args;
use redial_adapters::{system::System, webhook_keys::new_secret};
use redial_core::{
    identity::Tenant,
    time::Timestamp,
    webhook::{SigningSecrets, WebhookSecret},
};
use redial_engine::ports::Clock as _;
use serde_json::json;

use crate::{arguments, duration, failure::Failure, stack::OnStack, subscriptions::Which, terminal::say};

subcommands! {
    /// Shows and rotates the secrets that webhooks are signed with, by Standard Webhooks
    ///
    /// A stored receiver has secrets of its own. Messages to a bare url are signed with a secret of the tenant, which is derived
    /// from the stack's webhook key.
    #[command(after_help = "\
Examples:
  redial webhooks rotate-secret --tenant acme --id hooks --grace 24h
  redial webhooks secret --tenant acme")]
    Webhooks { RotateSecret(RotateSecret), Secret(Secret) }
}

/// Gives a receiver a new secret, and prints it; the old one also signs for a while
///
/// During the grace period every message has a signature by each secret, so that a receiver who verifies with either accepts it.
/// Give the new secret to the receiver before that period ends. With a grace of 0s the old secret ends at once, as it should if
/// it has leaked. Exit status 1 means that there is no such webhook.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial webhooks rotate-secret --tenant acme --id hooks
  redial webhooks rotate-secret --tenant acme --id hooks --grace 7d --json \\
    | jq -r .secret")]
pub(crate) struct RotateSecret {
    #[command(flatten)]
    which: Which,
    /// How long the old secret also signs, at most 31d: 90s, 30m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = grace)]
    grace: Duration,
    #[command(flatten)]
    on: OnStack,
}

/// Prints the secrets that sign a tenant's messages to bare urls, the current one first
///
/// There are several while a new webhook key of the stack replaces an older one: every message is then signed with each. Anyone who
/// knows them can sign in the tenant's name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial webhooks secret --tenant acme
  redial webhooks secret --tenant acme --json | jq -r '.secrets[0]'")]
pub(crate) struct Secret {
    /// The tenant
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    on: OnStack,
}

impl RotateSecret {
    async fn run(self) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.on.target().await?.subscriptions().await?;
        let newer = new_secret()?;
        let now = System.now();
        let Some(secrets) = store.rotate_secret(&key, &newer, now.plus(self.grace), now).await? else {
            return Err(Failure::reported(&format!("no webhook {key}")));
        };
        let older_until = older_until(&secrets).map(Timestamp::to_rfc3339);
        let (tenant, id, secret) = (key.tenant.as_str(), key.id.as_str(), newer.expose());
        self.on.print(
            || json!({"tenant": tenant, "id": id, "secret": secret, "older_until": older_until}),
            || vec![&secret],
        )?;
        if !self.on.json {
            say(&match &older_until {
                Some(until) => {
                    format!("{key}: give this secret to the receiver; the older one also signs until {until}")
                }
                None => format!("{key}: give this secret to the receiver; no other secret signs any more"),
            });
            // A batch that was read before goes out as it was read.
            say("messages that are being sent now may still be signed as before");
        }
        Ok(())
    }
}

fn older_until(secrets: &SigningSecrets) -> Option<Timestamp> {
    secrets.all().iter().filter_map(|(_, end)| *end).max()
}

impl Secret {
    async fn run(self) -> Result<(), Failure> {
        let keys = self.on.target().await?.webhook_keys().await?;
        let secrets: Vec<String> = keys.secrets_of(&self.tenant).iter().map(WebhookSecret::expose).collect();
        self.on.print(|| json!({"tenant": self.tenant.as_str(), "secrets": secrets}), || secrets.clone())
    }
}

fn grace(text: &str) -> Result<Duration, String> {
    duration::within(text, 0..=31 * 86_400, "a time from 0s to 31d, such as 90s, 30m, 24h or 7d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_secrets_sign_until_the_last_of_them_ends() {
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
