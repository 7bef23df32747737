use clap::Args;
use redial_adapters::{subscriptions_dynamo::Deleted, system::System};
use redial_core::{
    channel::Channel,
    identity::{SubscriptionKey, Tenant},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::which::Id;
use crate::{arguments, aws_error::AwsError, confirm::Confirm, failure::Failure, stack::OnStack};

/// Deletes a subscription: its endpoint, keys or secrets, tags and consent
///
/// Messages to it that still wait become dead letters, subscription_unknown. What deliveries, dead letters and audiences recorded of it stays
/// for its time: `redial subscriptions erase` removes that as well. A browser that holds a renewal token of it cannot bring it back. The id and
/// the time of the deletion are kept for half a year.
///
/// The command asks for confirmation. Any answer but yes deletes nothing, with exit status 1. Without a terminal it requires --yes, else the
/// exit status is 2. Deleting twice is no error. Exit status 1: there is no such subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions delete s1 --tenant acme
  redial subscriptions delete hooks --tenant acme --yes --json | jq .deleted")]
pub(crate) struct Delete {
    #[command(flatten)]
    id: Id,
    /// The tenant that it belongs to
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Delete {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.confirm.is_possible("delete the subscription")?;
        let target = self.on.target().await?;
        let key = self.id.of(self.tenant);
        self.confirm.ask(&format!("Delete {key} from {}?", target.name), "nothing was deleted")?;
        let deleted = target.subscriptions_without_secrets().delete(&key, System.now()).await;
        let deleted = deleted
            .map_err(|error| AwsError::of_port(&error).failure("the subscription cannot be deleted"))?;
        match line(&key, deleted) {
            Ok(line) => self.on.print(|| to_json(&key, deleted), || vec![line]),
            Err(words) => Err(Failure::reported(&words)),
        }
    }
}

fn line(key: &SubscriptionKey, deleted: Deleted) -> Result<String, String> {
    match deleted {
        Deleted::Yes(Channel::WebPush) => Ok(format!("{key}: deleted, a browser's")),
        Deleted::Yes(Channel::Webhook) => Ok(format!("{key}: deleted, a webhook's")),
        Deleted::Before(at) => Ok(format!("{key}: already deleted, {}", at.to_rfc3339_seconds())),
        Deleted::Unknown => Err(format!("no subscription {key}")),
    }
}

fn to_json(key: &SubscriptionKey, deleted: Deleted) -> Value {
    let (is_now, kind, before) = match deleted {
        Deleted::Yes(channel) => (true, Some(channel.label()), None),
        Deleted::Before(at) => (false, None, Some(at)),
        Deleted::Unknown => (false, None, None),
    };
    json!({
        "tenant": key.tenant.as_str(),
        "id": key.id.as_str(),
        "deleted": is_now,
        "kind": kind,
        "deleted_before_at": before.map(Timestamp::to_rfc3339),
    })
}
