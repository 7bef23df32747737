use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    identity::{Tenant, VapidKeyId},
    push_target::PushTarget,
    recipient::Recipient,
    subscription::Subscription,
    time::Timestamp,
    webhook::WebhookTarget,
    zone::Zone,
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};
use serde_json::{Value, json};

use super::which::Id;
use crate::{arguments, failure::Failure, stack::OnStack};

/// Shows a subscription; its address, keys and secrets only on request
///
/// Anyone who knows a browser's endpoint and keys can push to that browser, and anyone who knows a webhook's secrets can sign in your
/// name. Exit status 1 means that there is no such subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions get s1 --tenant acme
  redial subscriptions get s1 --tenant acme --json | jq -r .state
  redial subscriptions get hooks --tenant acme --show-endpoint")]
pub(crate) struct Get {
    #[command(flatten)]
    id: Id,
    /// The tenant that it belongs to
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// Print the endpoint or url as well
    #[arg(long)]
    show_endpoint: bool,
    /// Print a browser's keys, or a webhook's secrets and the values of its headers, as well
    #[arg(long)]
    show_keys: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let key = self.id.of(self.tenant);
        let store = self.on.target().await?.subscriptions().await?;
        let Some(found) = store.get(&key).await? else {
            return Err(Failure::reported(&format!("no subscription {key}")));
        };
        let shown = Shown { endpoint: self.show_endpoint, keys: self.show_keys, now: System.now() };
        self.on.print(|| shown.json(&found), || shown.lines(&found))
    }
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    endpoint: bool,
    keys: bool,
    now: Timestamp,
}

impl Shown {
    fn json(self, found: &Subscription) -> Value {
        let mut shown = match &found.recipient {
            Recipient::WebPush(target) => self.browser(target, found),
            Recipient::Webhook(target) => self.webhook(target, found),
        };
        (shown["tenant"], shown["id"]) = (found.key.tenant.as_str().into(), found.key.id.as_str().into());
        shown["kind"] = found.recipient.channel().label().into();
        shown["state"] = found.state_at(self.now).label().into();
        shown
    }

    fn browser(self, target: &PushTarget, found: &Subscription) -> Value {
        let PushTarget { endpoint, keys, vapid_key_id } = target;
        let mut shown = json!({
            "push_service": endpoint.origin().as_str(),
            "vapid_key_id": vapid_key_id.as_ref().map(VapidKeyId::as_str),
            "flagged_at": found.flagged_at.map(Timestamp::to_rfc3339),
            "dead_letters": found.doubts.count,
            "suspect_at": found.doubts.suspect_at.map(Timestamp::to_rfc3339),
            "tags": found.tags,
            "time_zone": found.time_zone.map(Zone::name),
            "created_at": found.created_at.map(Timestamp::to_rfc3339),
            "last_seen_at": found.last_seen_at.map(Timestamp::to_rfc3339),
            "ends_at": found.ends_at.map(Timestamp::to_rfc3339),
            "consent": found.consent.as_ref().map(|consent| json!({
                "at": consent.at.to_rfc3339(),
                "prompt_version": consent.prompt_version,
                "action": consent.action,
                "origin": consent.origin.as_str(),
            })),
        });
        if self.endpoint {
            shown["endpoint"] = endpoint.expose().as_str().into();
        }
        if self.keys {
            let (p256dh, auth) = keys.expose_base64url();
            shown["keys"] = json!({"p256dh": p256dh, "auth": auth});
        }
        shown
    }

    fn webhook(self, target: &WebhookTarget, found: &Subscription) -> Value {
        let Subscription { health, terms, .. } = found;
        let mut shown = json!({
            "origin": target.endpoint.origin().as_str(),
            "time_zone": found.time_zone.map(Zone::name),
            "topic": terms.topic.as_ref().map(|topic| topic.as_str()),
            "policy": terms.policy.as_ref().map(|policy| policy.name.as_str()),
            "headers": target.headers.expose().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            "permit_headers": terms.permitted.names(),
            "rate": terms.rate.map(|rate| rate.to_string()),
            "valid_secrets": target.secrets.at(self.now).len(),
            "failures": health.failures,
            "failing_since": health.failing_since.map(Timestamp::to_rfc3339),
        });
        if self.endpoint {
            shown["url"] = target.endpoint.expose().as_str().into();
        }
        if self.keys {
            let headers = target.headers.expose().iter();
            shown["headers"] =
                headers.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
            let secrets = target.secrets.all().iter();
            shown["secrets"] = secrets
                .map(|(secret, ends_at)| {
                    json!({"secret": secret.expose(), "ends_at": ends_at.map(Timestamp::to_rfc3339)})
                })
                .collect();
        }
        shown
    }

    fn lines(self, found: &Subscription) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", found.key, found.state_at(self.now).label())];
        let mut add = |name: &str, text: &str| {
            lines.push(format!("  {:<16}{text}", name.replace('_', " ")));
        };
        for (name, value) in self.json(found).as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("tenant" | "id" | "state", _) | (_, Value::Null) => {}
                // Not shown of a receiver that never failed.
                ("failures" | "dead_letters", Value::Number(number)) if number.as_u64() == Some(0) => {}
                ("keys", Value::Object(keys)) => keys.iter().for_each(|(name, key)| add(name, &plain(key))),
                (_, Value::Object(fields)) => {
                    fields.iter().for_each(|(of, text)| add(name, &format!("{of}: {}", plain(text))));
                }
                ("secrets", Value::Array(secrets)) => secrets.iter().for_each(|secret| {
                    let until =
                        secret["ends_at"].as_str().map_or(String::new(), |at| format!(", until {at}"));
                    add("secret", &format!("{}{until}", plain(&secret["secret"])));
                }),
                (_, Value::Array(texts)) if texts.is_empty() => {}
                (_, Value::Array(texts)) => {
                    add(name, &texts.iter().map(plain).collect::<Vec<_>>().join(", "));
                }
                (_, Value::Bool(_) | Value::Number(_) | Value::String(_)) => add(name, &plain(value)),
            }
        }
        lines
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
