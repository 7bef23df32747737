//! `redial subscriptions get`.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    identity::VapidKeyId, push_target::PushTarget, recipient::Recipient, subscription::Subscription,
    time::Timestamp, webhook::WebhookTarget,
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};
use serde_json::{Value, json};

use super::Which;
use crate::{
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Shows a subscription, without its address, keys and secrets unless they are asked for
///
/// Who knows a browser's endpoint and keys can push to that browser, and who knows a webhook's secrets can sign in your name:
/// print them for a reason only. Exit status 1 says that there is no such subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions get --tenant acme --id s1
  redial subscriptions get --tenant acme --id s1 --json | jq -r .state
  redial subscriptions get --tenant acme --id hooks --show-endpoint")]
pub(crate) struct Get {
    #[command(flatten)]
    which: Which,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Print the endpoint or url as well
    #[arg(long)]
    show_endpoint: bool,
    /// Print a browser's keys, or a webhook's secrets and the values of its headers, as well
    #[arg(long)]
    show_keys: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Get {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let key = self.which.key();
        let store = self.target.resolve().await?.subscriptions().await?;
        let Some(found) = store.get(&key).await? else {
            say(&format!("no subscription {key}"));
            return Err(Failure::Reported);
        };
        let shown = Shown { endpoint: self.show_endpoint, keys: self.show_keys, now: System.now() };
        if self.json {
            return Ok(print(&shown.json(&found).to_string())?);
        }
        shown.lines(&found).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

/// What is shown of a subscription.
#[derive(Clone, Copy, Debug)]
struct Shown {
    endpoint: bool,
    keys: bool,
    now: Timestamp,
}

impl Shown {
    fn json(self, found: &Subscription) -> Value {
        let mut shown = json!({
            "tenant": found.key.tenant.as_str(),
            "id": found.key.id.as_str(),
            "kind": found.recipient.channel().label(),
            "state": found.state.label(),
        });
        let of_its_kind = match &found.recipient {
            Recipient::WebPush(target) => self.browser(target, found),
            Recipient::Webhook(target) => self.webhook(target, found),
        };
        if let (Some(shown), Value::Object(of_its_kind)) = (shown.as_object_mut(), of_its_kind) {
            shown.extend(of_its_kind);
        }
        shown
    }

    fn browser(self, target: &PushTarget, found: &Subscription) -> Value {
        let PushTarget { endpoint, keys, vapid_key_id } = target;
        let mut shown = json!({
            "push_service": endpoint.origin().as_str(),
            "vapid_key_id": vapid_key_id.as_ref().map(VapidKeyId::as_str),
            "flagged_at": found.flagged_at.map(Timestamp::to_rfc3339),
            "tags": found.tags,
            "created_at": found.created_at.map(Timestamp::to_rfc3339),
            "last_seen_at": found.last_seen_at.map(Timestamp::to_rfc3339),
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

    /// A line for each thing that there is.
    fn lines(self, found: &Subscription) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", found.key, found.state.label())];
        let line = |name: &str, text: &str| format!("  {:<16}{text}", name.replace('_', " "));
        for (name, value) in self.json(found).as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("tenant" | "id" | "state", _) | (_, Value::Null) => {}
                // What has nothing to say of a receiver that never failed.
                ("failures", Value::Number(failures)) if failures.as_u64() == Some(0) => {}
                (_, Value::String(text)) => lines.push(line(name, text)),
                ("keys", Value::Object(keys)) => {
                    lines.extend(keys.iter().map(|(name, key)| line(name, key.as_str().unwrap_or_default())))
                }
                (_, Value::Object(fields)) => lines
                    .extend(fields.iter().map(|(of, text)| line(name, &format!("{of}: {}", plain(text))))),
                ("secrets", Value::Array(secrets)) => lines.extend(secrets.iter().map(|secret| {
                    let until =
                        secret["ends_at"].as_str().map_or(String::new(), |at| format!(", until {at}"));
                    line("secret", &format!("{}{until}", plain(&secret["secret"])))
                })),
                (_, Value::Array(texts)) if !texts.is_empty() => {
                    let texts: Vec<String> = texts.iter().map(plain).collect();
                    lines.push(line(name, &texts.join(", ")));
                }
                (_, Value::Array(_)) => {}
                (_, Value::Bool(_) | Value::Number(_)) => lines.push(line(name, &value.to_string())),
            }
        }
        lines
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use redial_core::{
        delivery_options::EventType,
        endpoint::Endpoint,
        identity::{SubscriptionId, SubscriptionKey, Tenant},
        rate::Rate,
        subscription::{State, Terms},
        webhook::{CustomHeaders, Health, Permitted, SigningSecrets, WebhookSecret},
    };

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    fn failing() -> Subscription {
        let key = SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse("hooks").expect("valid"),
        };
        let secret = WebhookSecret::parse(SECRET).expect("valid");
        let older = WebhookSecret::new(vec![7; 32]).expect("valid");
        let header = ("authorization".to_owned(), "Bearer s3cret".to_owned());
        let target = WebhookTarget {
            endpoint: Endpoint::parse("https://a.example/s3cret").expect("valid"),
            secrets: SigningSecrets::new(vec![(secret, None), (older, Some(now()))]).expect("two"),
            headers: CustomHeaders::new(vec![header]).expect("valid"),
        };
        Subscription {
            state: State::Disabled,
            health: Health { failures: 7, failing_since: Some(now()) },
            terms: Terms {
                topic: EventType::parse("order.created"),
                policy: None,
                permitted: Permitted::new(vec!["idempotency-key".to_owned()]).expect("valid"),
                rate: Some(Rate::parse("50/s").expect("valid")),
            },
            ..Subscription::new(key, Recipient::Webhook(target))
        }
    }

    fn shown(endpoint: bool, keys: bool) -> Shown {
        Shown { endpoint, keys, now: now() }
    }

    #[test]
    fn a_webhook_is_shown_without_what_must_not_be_known() {
        assert_eq!(
            shown(false, false).lines(&failing()),
            [
                "acme#hooks: disabled",
                "  failing since   2026-11-21T10:05:00.000Z",
                "  failures        7",
                "  headers         authorization",
                "  kind            webhook",
                "  origin          https://a.example",
                "  permit headers  idempotency-key",
                "  rate            50/s",
                "  topic           order.created",
                "  valid secrets   1",
            ]
        );
        let json = shown(false, false).json(&failing());
        assert!(!json.to_string().contains("s3cret") && !json.to_string().contains("whsec_"), "{json}");
        assert_eq!((&json["failures"], &json["policy"]), (&json!(7), &Value::Null));
    }

    #[test]
    fn what_is_asked_for_is_shown() {
        let all = shown(true, true);
        let json = all.json(&failing());
        assert_eq!(json["url"], "https://a.example/s3cret");
        assert_eq!(json["headers"], json!({"authorization": "Bearer s3cret"}));
        assert_eq!(json["secrets"][0], json!({"secret": SECRET, "ends_at": null}));
        let lines = all.lines(&failing());
        assert!(lines.contains(&format!("  secret          {SECRET}")), "{lines:?}");
        assert!(lines.contains(&"  headers         authorization: Bearer s3cret".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with(", until 2026-11-21T10:05:00.000Z")), "{lines:?}");
        assert!(shown(true, false).json(&failing()).get("secrets").is_none());
    }
}
