//! A subscription as an item.
//!
//! | attribute | of | what |
//! |---|---|---|
//! | `pk`, `tenant`, `id` | both | `tenant#id`, and its parts |
//! | `kind` | both | `web_push` or `webhook` |
//! | `endpoint`, `state`, `updated_at` | both | where it leads, whether it is sent to |
//! | `p256dh`, `auth`, `vapid_key_id`, `flagged_at` | web push | a browser's keys, and its first 404 |
//! | `sealed` | webhook | its secrets and headers, under the stack's webhook key |
//! | `topic`, `policy`, `permitted`, `rate` | webhook | what was agreed: `policy` is JSON, `permitted` a list of names |
//! | `failures`, `failing_since` | webhook | its health |
//! | `failing_tenant` | webhook | the tenant again, while it fails or is switched off: what puts it into the index |

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant, VapidKeyId};
use redial_core::message::EventType;
use redial_core::policy::{Policy, catalogue, parse, stored};
use redial_core::ports::PortError;
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::rate::Rate;
use redial_core::recipient::Recipient;
use redial_core::subscription::{State, Subscription, Terms};
use redial_core::time::Timestamp;
use redial_core::webhook::{Health, Permitted, WebhookTarget};

use crate::attributes::{Item, Read, ms, s};
use crate::webhook_keys::WebhookKeys;
use crate::{aws_error, telemetry};

/// The item of a subscription, without what its receiver's answers have told.
pub(super) fn write(subscription: &Subscription, keys: &WebhookKeys, now: Timestamp) -> Item {
    let Subscription { key, recipient, state, flagged_at, terms, health: _ } = subscription;
    let mut item = HashMap::from([
        ("pk".to_owned(), s(key.to_string())),
        ("tenant".to_owned(), s(key.tenant.as_str())),
        ("id".to_owned(), s(key.id.as_str())),
        ("kind".to_owned(), s(recipient.channel().label())),
        ("endpoint".to_owned(), s(recipient.endpoint().expose().as_str())),
        ("state".to_owned(), s(state.label())),
        ("updated_at".to_owned(), ms(now)),
    ]);
    let mut add = |name: &str, value: Option<AttributeValue>| {
        if let Some(value) = value {
            item.insert(name.to_owned(), value);
        }
    };
    match recipient {
        Recipient::WebPush(PushTarget { endpoint: _, keys, vapid_key_id }) => {
            let (p256dh, auth) = keys.expose_base64url();
            add("p256dh", Some(s(p256dh)));
            add("auth", Some(s(auth)));
            add("vapid_key_id", vapid_key_id.as_ref().map(|id| s(id.as_str())));
            add("flagged_at", flagged_at.map(ms));
        }
        Recipient::Webhook(WebhookTarget { endpoint: _, secrets, headers }) => {
            let permitted: Vec<AttributeValue> = terms.permitted.names().iter().map(s).collect();
            add("sealed", Some(s(keys.seal(key, secrets, headers))));
            add("topic", terms.topic.as_ref().map(|topic| s(topic.as_str())));
            add("permitted", (!permitted.is_empty()).then_some(AttributeValue::L(permitted)));
            add("rate", terms.rate.map(|rate| s(rate.to_string())));
        }
    }
    item
}

/// Whose an item is; `None` if it is not one that this version wrote.
pub(super) fn key(item: &Item) -> Option<SubscriptionKey> {
    Some(SubscriptionKey {
        tenant: Tenant::parse(item.text("tenant")?)?,
        id: SubscriptionId::parse(item.text("id")?)?,
    })
}

/// Reads an item; `None` if it is not one that this version wrote, `Err` if its secrets cannot be opened: then the key that
/// they were sealed with is missing from the stack's, which is for an operator to mend and no fault of a message.
pub(super) fn read(item: &Item, keys: &WebhookKeys) -> Option<Result<Subscription, PortError>> {
    let key = key(item)?;
    let endpoint = Endpoint::parse(item.text("endpoint")?).ok()?;
    let (recipient, terms) = match Channel::from_label(item.text("kind")?)? {
        Channel::WebPush => {
            let keys = PushKeys::parse(item.text("p256dh")?, item.text("auth")?).ok()?;
            let vapid_key_id = item.text("vapid_key_id").and_then(VapidKeyId::parse);
            (Recipient::WebPush(PushTarget { endpoint, keys, vapid_key_id }), Terms::default())
        }
        Channel::Webhook => {
            let Some((secrets, headers)) = keys.open(&key, item.text("sealed")?) else {
                return Some(Err(aws_error::of_code("OpenWebhookSecrets", "UnknownKey")));
            };
            (Recipient::Webhook(WebhookTarget { endpoint, secrets, headers }), terms(item, &key))
        }
    };
    Some(Ok(Subscription {
        key,
        recipient,
        state: State::from_label(item.text("state")?)?,
        flagged_at: item.time("flagged_at"),
        health: Health {
            failures: item.number("failures").unwrap_or(0),
            failing_since: item.time("failing_since"),
        },
        terms,
    }))
}

fn terms(item: &Item, key: &SubscriptionKey) -> Terms {
    let names = item.get("permitted").and_then(|names| names.as_l().ok()).into_iter().flatten();
    let names = names.filter_map(|name| name.as_s().ok()).cloned().collect();
    Terms {
        topic: item.text("topic").and_then(EventType::parse),
        policy: item.text("policy").and_then(|text| policy(text, key)),
        // What was not checked when it was stored permits nothing.
        permitted: Permitted::new(names).unwrap_or_default(),
        rate: item.contains_key("rate").then(|| rate(item, key)).flatten(),
    }
}

/// The receiver's own limit. What is no rate is told, and not followed.
fn rate(item: &Item, key: &SubscriptionKey) -> Option<Rate> {
    let read = Rate::parse(item.text("rate").unwrap_or_default());
    read.map_err(|error| {
        telemetry::limit_ignored(Some(&key.tenant), &format!("subscription {}", key.id), &error)
    })
    .ok()
}

/// A policy's JSON, or that of the name of one of the package's. Whatever else was written there is told, and not followed.
fn policy(text: &str, key: &SubscriptionKey) -> Option<Arc<Policy>> {
    let name = format!("subscription {}", key.id);
    let read = match serde_json::from_str::<String>(text) {
        Ok(named) => {
            let known = catalogue::packaged().get(&named).cloned();
            known.ok_or_else(|| format!("expected {}, found another string", stored::expected_name()))
        }
        Err(_) => parse::policy(text, &name, "")
            .map(Arc::new)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    };
    read.map_err(|errors| telemetry::policy_ignored(&key.tenant, &name, &errors)).ok()
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
