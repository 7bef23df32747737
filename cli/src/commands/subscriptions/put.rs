//! `redial subscriptions put`.

use std::path::PathBuf;

use clap::Args;
use redial_adapters::{subscriptions_dynamo::DynamoSubscriptions, system::System, webhook_keys::new_secret};
use redial_core::{
    identity::{SubscriptionKey, VapidKeyId},
    push_target::PushTarget,
    recipient::Recipient,
    subscription::Subscription,
    webhook::{SigningSecrets, WebhookTarget},
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};
use serde_json::json;

use super::{
    super::ids,
    Which,
    document::{self, Document, Webhook},
};
use crate::{
    failure::Failure,
    input,
    target::TargetArgs,
    terminal::{print, say},
};

/// Stores a subscription, in place of one of the same id
///
/// FILE holds what a browser gives: JSON.stringify(subscription), that is {"endpoint", "keys": {"p256dh", "auth"}}. A
/// message that names the id in `to.subscription` is then sent there.
///
/// Or it holds a webhook's receiver: {"url"}, and if you like "secrets" (up to five, whsec_…), "topic" (an event_type),
/// "headers" (sent with every message), "permit_headers" (names that messages may set themselves), "policy" (a retry
/// policy, or the name of one) and "rate" (at most so many attempts: "50/s", "120/min"). Without secrets it is given one,
/// which is printed: the receiver verifies with it. A receiver that is stored at the same url already keeps the secrets that
/// it has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  curl -s https://shop.example/me/subscription | redial subscriptions put --tenant acme --id s1
  echo '{\"url\":\"https://partner.example/hooks\"}' | redial subscriptions put --tenant acme --id hooks --json")]
pub(crate) struct Put {
    #[command(flatten)]
    which: Which,
    /// File with the subscription; - for standard input
    #[arg(value_name = "FILE", default_value = input::STDIN)]
    file: PathBuf,
    /// The VAPID key that the browser subscribed with, where there are several [default: the default key]
    #[arg(long, value_name = "ID", value_parser = ids::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Where a webhook's secrets come from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// They were written.
    Given,
    /// They were stored before.
    Kept,
    /// One was made: this.
    Made(String),
}

impl Put {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let text = input::read_text(&self.file, document::MOST_BYTES)?;
        match document::read(&text, &self.which.tenant)? {
            Document::Browser(target) => self.browser(target).await,
            Document::Webhook(_) if self.vapid_key_id.is_some() => {
                Err(Failure::input("--vapid-key-id: a webhook has no VAPID key"))
            }
            Document::Webhook(webhook) => self.webhook(*webhook).await,
        }
    }

    async fn browser(mut self, mut target: PushTarget) -> Result<(), Failure> {
        target.vapid_key_id = self.vapid_key_id.take().or(target.vapid_key_id);
        let subscription = Subscription::new(self.which.key(), Recipient::WebPush(target));
        let store = self.target.resolve().await?.subscriptions().await?;
        let is_new = store.put(&subscription, System.now()).await?;
        self.tell(&subscription, is_new, &Origin::Given)
    }

    async fn webhook(self, webhook: Webhook) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.target.resolve().await?.subscriptions().await?;
        let Webhook { endpoint, secrets, headers, terms, policy } = webhook;
        let mut target = WebhookTarget { headers, ..WebhookTarget::at(endpoint) };
        let origin = match secrets {
            Some(secrets) => {
                target.secrets = secrets;
                Origin::Given
            }
            None => secrets_for(&mut target, &key, &store).await?,
        };
        let subscription = Subscription { terms, ..Subscription::new(key, Recipient::Webhook(target)) };
        let now = System.now();
        let is_new = match policy {
            Some(policy) => store.put_with_policy(&subscription, &policy, now).await?,
            None => store.put(&subscription, now).await?,
        };
        self.tell(&subscription, is_new, &origin)
    }

    fn tell(&self, subscription: &Subscription, is_new: bool, origin: &Origin) -> Result<(), Failure> {
        let Subscription { key, recipient, .. } = subscription;
        let secret = match origin {
            Origin::Made(secret) => Some(secret.as_str()),
            Origin::Given | Origin::Kept => None,
        };
        if self.json {
            let line = json!({
                "tenant": key.tenant.as_str(),
                "id": key.id.as_str(),
                "kind": recipient.channel().label(),
                "new": is_new,
                "secret": secret,
            });
            print(&line.to_string())?;
        } else {
            print(&format!("{key} {}", if is_new { "stored" } else { "replaced" }))?;
            secret.map_or(Ok(()), |secret| print(&format!("  {:<14}{secret}", "secret")))?;
        }
        match origin {
            Origin::Given => {}
            Origin::Kept => say("it keeps the secrets that it had"),
            Origin::Made(_) => {
                say("give the secret to the receiver, who verifies with it: it is printed this once")
            }
        }
        Ok(())
    }
}

/// Gives a receiver for which no secrets were written those that it had at the same address, or a new one: whoever
/// stores the same once more must not shut his receiver out.
async fn secrets_for(
    target: &mut WebhookTarget,
    key: &SubscriptionKey,
    store: &DynamoSubscriptions,
) -> Result<Origin, Failure> {
    if let Some(Subscription { recipient: Recipient::Webhook(before), .. }) = store.get(key).await?
        && before.endpoint == target.endpoint
        && !before.secrets.at(System.now()).is_empty()
    {
        target.secrets = before.secrets;
        return Ok(Origin::Kept);
    }
    let secret = new_secret()?;
    let shown = secret.expose();
    target.secrets = SigningSecrets::new(vec![(secret, None)]).expect("invariant: there may be one");
    Ok(Origin::Made(shown))
}
