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
    document::{self, Document, Webhook},
    which::Which,
};
use crate::{arguments, failure::Failure, input, stack::OnStack, terminal::say};

/// Stores a subscription, or replaces the one with the same id
///
/// FILE holds what a browser returns: JSON.stringify(subscription), that is {"endpoint", "keys": {"p256dh", "auth"}}. Messages that
/// name the id in `to.subscription` are then sent there.
///
/// Or it holds a webhook's receiver: {"url"}, and optionally "secrets" (up to five, whsec_…), "topic" (an event_type), "headers" (sent
/// with every message), "permit_headers" (names that messages may set themselves), "policy" (a retry policy, or the name of
/// one) and "rate" (the most attempts: "50/s", "120/min"). Without secrets one is generated and printed: the receiver verifies
/// with it. A receiver that is already stored with the same url keeps its secrets.
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
    /// The VAPID key that the browser subscribed with [default: the default key]
    #[arg(long, value_name = "ID", value_parser = arguments::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    #[command(flatten)]
    on: OnStack,
}

/// Where a webhook's secrets come from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// From the document.
    Given,
    /// From the stored subscription.
    Kept,
    /// A new one.
    Generated(String),
}

impl Put {
    pub(crate) async fn run(self) -> Result<(), Failure> {
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
        let store = self.on.target().await?.subscriptions().await?;
        let is_new = store.put(&subscription, System.now()).await?;
        self.print(&subscription, is_new, &Origin::Given)
    }

    async fn webhook(self, webhook: Webhook) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.on.target().await?.subscriptions().await?;
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
        self.print(&subscription, is_new, &origin)
    }

    fn print(&self, subscription: &Subscription, is_new: bool, origin: &Origin) -> Result<(), Failure> {
        let Subscription { key, recipient, .. } = subscription;
        let secret = match origin {
            Origin::Generated(secret) => Some(secret.as_str()),
            Origin::Given | Origin::Kept => None,
        };
        self.on.print(
            || {
                json!({
                    "tenant": key.tenant.as_str(),
                    "id": key.id.as_str(),
                    "kind": recipient.channel().label(),
                    "new": is_new,
                    "secret": secret,
                })
            },
            || {
                let done = format!("{key} {}", if is_new { "stored" } else { "replaced" });
                [done].into_iter().chain(secret.map(|secret| format!("  {:<14}{secret}", "secret"))).collect()
            },
        )?;
        match origin {
            Origin::Given => {}
            Origin::Kept => say("it keeps its secrets"),
            Origin::Generated(_) => {
                say("give the secret to the receiver, who verifies with it: it is not printed again")
            }
        }
        Ok(())
    }
}

/// Keeps the secrets of a receiver at the same address, or generates one: storing a document again must not lock the receiver
/// out.
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
    Ok(Origin::Generated(shown))
}
