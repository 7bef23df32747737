use std::path::PathBuf;

use clap::Args;
use redial_adapters::{
    subscriptions_dynamo::{DynamoSubscriptions, Stored},
    system::System,
    webhook_keys::new_secret,
};
use redial_core::{
    endpoint::Endpoint,
    identity::{SubscriptionKey, VapidKeyId},
    push_target::PushTarget,
    recipient::Recipient,
    subscription::{SameEndpoint, Subscription},
    time::Timestamp,
    webhook::{SigningSecrets, WebhookTarget},
    zone::Zone,
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};
use serde_json::json;

use super::{
    document::{self, Document, Webhook},
    variables::{parse_same_endpoint, same_endpoint},
    which::Which,
};
use crate::{arguments, failure::Failure, input, stack::OnStack, terminal::say};

/// Stores a subscription, or replaces the one with the same id and of the same kind
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
  curl -s https://shop.example/me/subscription \\
    | redial subscriptions put --tenant acme --id s1
  echo '{\"url\":\"https://partner.example/hooks\"}' \\
    | redial subscriptions put --tenant acme --id hooks --json")]
pub(crate) struct Put {
    #[command(flatten)]
    which: Which,
    /// File with the subscription; - for standard input
    #[arg(value_name = "FILE", default_value = input::STDIN)]
    file: PathBuf,
    /// The VAPID key that the browser subscribed with [default: the default key]
    #[arg(long, value_name = "ID", value_parser = arguments::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    /// If another subscription of the tenant has the browser's endpoint: replace that one, or refuse this one [default: as
    /// the stack has it, in its parameter SameEndpoint]
    #[arg(long, value_name = "replace|refuse", value_parser = parse_same_endpoint)]
    same_endpoint: Option<SameEndpoint>,
    /// The IANA time zone whose clock `deliver_between` of messages follows, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", value_parser = arguments::zone)]
    time_zone: Option<Zone>,
    /// Replace a subscription of the other kind, a webhook's receiver by a browser or a browser by one
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Put {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let text = input::read_text(&self.file, document::MOST_BYTES)?;
        match document::read(&text, &self.which.tenant)? {
            Document::Browser(target, ends_at) => self.browser(*target, ends_at).await,
            Document::Webhook(_) if self.vapid_key_id.is_some() => {
                Err(Failure::input("--vapid-key-id: a webhook has no VAPID key"))
            }
            Document::Webhook(webhook) => self.webhook(*webhook).await,
        }
    }

    async fn browser(mut self, mut target: PushTarget, ends_at: Option<Timestamp>) -> Result<(), Failure> {
        target.vapid_key_id = self.vapid_key_id.take().or(target.vapid_key_id);
        let new = Subscription::new(self.which.key(), Recipient::WebPush(target));
        let subscription = Subscription { ends_at, time_zone: self.time_zone, ..new };
        let stack = self.on.target().await?;
        let same_endpoint = same_endpoint(&stack, self.same_endpoint).await?;
        let store = stack.subscriptions().await?;
        if !self.replace {
            is_of_same_kind(&subscription, &store).await?;
        }
        match store.put_browser(&subscription, same_endpoint, System.now()).await? {
            Stored::EndpointTaken => Err(Failure::input(
                "endpoint: expected one that no other subscription of the tenant has, found one that has another",
            )),
            stored @ (Stored::New | Stored::InPlace) => {
                self.print(&subscription, stored == Stored::New, None, None)
            }
        }
    }

    async fn webhook(self, webhook: Webhook) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.on.target().await?.subscriptions().await?;
        let Webhook { endpoint, secrets, headers, terms, policy } = webhook;
        let kept = match secrets {
            // Storing a document again must not lock the receiver out.
            None => kept_secrets(&endpoint, &key, &store).await?,
            Some(_) => None,
        };
        let (secrets, generated, note) = match (secrets, kept) {
            (Some(given), _) => (given, None, None),
            (None, Some(kept)) => (kept, None, Some("it keeps its secrets")),
            (None, None) => {
                let secret = new_secret()?;
                let shown = secret.expose();
                let secrets = SigningSecrets::new(vec![(secret, None)]).expect("invariant: there may be one");
                let note = "give the secret to the receiver, who verifies with it: it is not printed again";
                (secrets, Some(shown), Some(note))
            }
        };
        let recipient = Recipient::Webhook(WebhookTarget { endpoint, secrets, headers });
        let time_zone = self.time_zone;
        let subscription = Subscription { terms, time_zone, ..Subscription::new(key, recipient) };
        if !self.replace {
            is_of_same_kind(&subscription, &store).await?;
        }
        let now = System.now();
        let is_new = match policy {
            Some(policy) => store.put_with_policy(&subscription, &policy, now).await?,
            None => store.put(&subscription, now).await?,
        };
        self.print(&subscription, is_new, generated.as_deref(), note)
    }

    fn print(
        &self,
        subscription: &Subscription,
        is_new: bool,
        secret: Option<&str>,
        note: Option<&str>,
    ) -> Result<(), Failure> {
        let Subscription { key, recipient, .. } = subscription;
        let (tenant, id, kind) = (key.tenant.as_str(), key.id.as_str(), recipient.channel().label());
        let done = format!("{key} {}", if is_new { "stored" } else { "replaced" });
        self.on.print(
            || json!({"tenant": tenant, "id": id, "kind": kind, "new": is_new, "secret": secret}),
            || [done].into_iter().chain(secret.map(|secret| format!("  {:<14}{secret}", "secret"))).collect(),
        )?;
        note.into_iter().for_each(say);
        Ok(())
    }
}

/// Refuses to replace a receiver with its secrets by a browser, or a browser by a receiver: it is a mistaken id.
async fn is_of_same_kind(subscription: &Subscription, store: &DynamoSubscriptions) -> Result<(), Failure> {
    let Some(before) = store.get(&subscription.key).await? else { return Ok(()) };
    let kind = |recipient: &Recipient| match recipient {
        Recipient::WebPush(_) => "a browser",
        Recipient::Webhook(_) => "a webhook's receiver",
    };
    let (before, after) = (kind(&before.recipient), kind(&subscription.recipient));
    if before == after {
        return Ok(());
    }
    let key = &subscription.key;
    Err(Failure::input(format!(
        "--id: {key} is {before}, and FILE has {after}: choose another id, or pass --replace to store it in its place"
    )))
}

/// The secrets of a receiver that is stored with the same address.
async fn kept_secrets(
    endpoint: &Endpoint,
    key: &SubscriptionKey,
    store: &DynamoSubscriptions,
) -> Result<Option<SigningSecrets>, Failure> {
    let Some(Subscription { recipient: Recipient::Webhook(before), .. }) = store.get(key).await? else {
        return Ok(None);
    };
    let is_usable = before.endpoint == *endpoint && !before.secrets.at(System.now()).is_empty();
    Ok(is_usable.then_some(before.secrets))
}
