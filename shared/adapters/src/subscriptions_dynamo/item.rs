//! A subscription as an item.
//!
//! | attribute | of | what |
//! |---|---|---|
//! | `pk`, `tenant`, `id` | both | `tenant#id`, and its parts |
//! | `kind` | both | `web_push` or `webhook` |
//! | `endpoint`, `state`, `created_at`, `updated_at` | both | the endpoint, and whether it is sent to |
//! | `p256dh`, `auth`, `vapid_key_id`, `flagged_at` | web push | a browser's keys, and its first 404 |
//! | `consent_at`, `consent_prompt`, `consent_action`, `consent_origin` | web push | the user's consent |
//! | `tags`, `last_seen_at` | web push | a list of tags; when the browser last sent it |
//! | `moved_at` | web push | when another endpoint was last submitted for it |
//! | `authorized_at` | web push | when a sender last decided on it; 0.1.0 wrote none |
//! | `time_zone` | both | the IANA name of the zone that its user is in |
//! | `ends_at`, `took_over_at` | web push | from when on its browser does not hold it; when it got another subscription's endpoint |
//! | `doubts`, `doubted_since`, `doubted_at` | web push | how many dead letters count against it, and when the first and the last came |
//! | `suspect_at` | web push | when they made it suspect: its `state` stays `active` |
//! | `probe_id`, `probed_at` | web push | the delivery that was let through last while it was suspect and held, and when |
//! | `gone_confirmed_at` | web push | when an operator confirmed of one in quarantine that it is gone |
//! | `enabled_at` | both | when an operator last enabled it with this endpoint |
//! | `holds` | web push | that the row of its endpoint names it (see `holder`) |
//! | `sealed` | webhook | its secrets and headers, under the stack's webhook key, bound to `pk` and `endpoint` |
//! | `topic`, `policy`, `permitted`, `rate` | webhook | the terms: `policy` is JSON, `permitted` a list of names |
//! | `failures`, `failing_since` | webhook | its health |
//! | `failing_tenant` | webhook | the tenant again, while it fails or is switched off: what puts it into the index |
//!
//! A deleted subscription leaves a tombstone: `pk`, `tenant`, `id`, the `state` `deleted`, `deleted_at`, `expires_at`, and `endpoint_hash`, unless an
//! operator deleted it or another subscription replaced it. One that was erased has `erased_at`. It
//! proves the deletion for half a year, and serves nothing else. It has no endpoint, so it is no subscription: dispatch finds none under its key, cleanup
//! removes nothing, it is not counted, and the index of failing webhooks does not have it.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::delivery_options::EventType;
use redial_core::endpoint::{Endpoint, EndpointHash, Origin};
use redial_core::identity::{DeliveryId, SubscriptionId, SubscriptionKey, Tenant, VapidKeyId};
use redial_core::policy::{Policy, catalogue, parse, stored};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::rate::Rate;
use redial_core::recipient::Recipient;
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{Consent, Doubts, State, Subscription, Terms};
use redial_core::tag::{Tag, Tags};
use redial_core::time::Timestamp;
use redial_core::webhook::{Health, Permitted, WebhookTarget};
use redial_core::zone::Zone;
use redial_engine::ports::{Found, PortError};

use crate::table::attributes::{self, Item, Read, expiry, ms, n, s};
use crate::webhook_keys::WebhookKeys;
use crate::{aws_error, telemetry};

/// How long a tombstone is kept: no browser's token that was made before the deletion is valid for longer.
const TOMBSTONE_KEPT: Duration = Duration::from_secs(181 * 86_400);

/// The `state` of a tombstone.
const DELETED: &str = "deleted";

/// The item of a subscription, without its receiver's health.
pub(super) fn write<'k>(
    subscription: &Subscription,
    webhook_keys: impl Into<Option<&'k WebhookKeys>>,
    now: Timestamp,
) -> Item {
    let Subscription { key, recipient, state, flagged_at, terms, created_at, .. } = subscription;
    let mut item = attributes::item([
        ("pk", s(key.to_string())),
        ("tenant", s(key.tenant.as_str())),
        ("id", s(key.id.as_str())),
        ("kind", s(recipient.channel().label())),
        ("endpoint", s(recipient.endpoint().expose().as_str())),
        ("state", s(state.label())),
        ("updated_at", ms(now)),
    ]);
    let mut add = |name: &str, value: Option<AttributeValue>| {
        item.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("created_at", created_at.map(ms));
    add("time_zone", subscription.time_zone.map(|zone| s(zone.name())));
    add("enabled_at", subscription.enabled_at.map(ms));
    match recipient {
        Recipient::WebPush(PushTarget { endpoint: _, keys, vapid_key_id }) => {
            let (p256dh, auth) = keys.expose_base64url();
            add("p256dh", Some(s(p256dh)));
            add("auth", Some(s(auth)));
            add("vapid_key_id", vapid_key_id.as_ref().map(|id| s(id.as_str())));
            add("flagged_at", flagged_at.map(ms));
            add("last_seen_at", subscription.last_seen_at.map(ms));
            add("moved_at", subscription.moved_at.map(ms));
            add("authorized_at", subscription.authorized_at.map(ms));
            add("ends_at", subscription.ends_at.map(ms));
            add("took_over_at", subscription.took_over_at.map(ms));
            add("gone_confirmed_at", subscription.gone_confirmed_at.map(ms));
            doubts(&subscription.doubts).into_iter().for_each(|(name, value)| add(name, Some(value)));
            let tags: Vec<AttributeValue> = subscription.tags.iter().map(|tag| s(tag.as_str())).collect();
            add("tags", (!tags.is_empty()).then_some(AttributeValue::L(tags)));
            if let Some(Consent { at, prompt_version, action, origin }) = &subscription.consent {
                add("consent_at", Some(ms(*at)));
                add("consent_prompt", Some(s(prompt_version)));
                add("consent_action", Some(s(action)));
                add("consent_origin", Some(s(origin.as_str())));
            }
        }
        Recipient::Webhook(target) => {
            let permitted: Vec<AttributeValue> = terms.permitted.names().iter().map(s).collect();
            let keys =
                webhook_keys.into().expect("invariant: only a holder of the webhooks' key stores a webhook");
            add("sealed", Some(s(keys.seal(key, target))));
            add("topic", terms.topic.as_ref().map(|topic| s(topic.as_str())));
            add("permitted", (!permitted.is_empty()).then_some(AttributeValue::L(permitted)));
            add("rate", terms.rate.map(|rate| s(rate.to_string())));
        }
    }
    item
}

/// Reads an item; `None` if this version did not write it, `Err` if its secrets cannot be opened: then the key that they were sealed with
/// is missing from the stack's, or the endpoint beside them is not the one that they were sealed for. Both are for an operator to repair,
/// and not the message's fault. Without any key, a webhook's secrets and headers stay sealed, and it is read as one that has none.
pub(super) fn read<'k>(
    item: &Item,
    webhook_keys: impl Into<Option<&'k WebhookKeys>>,
) -> Option<Result<Subscription, PortError>> {
    let (tenant, id) = (Tenant::parse(item.text("tenant")?)?, SubscriptionId::parse(item.text("id")?)?);
    let key = SubscriptionKey { tenant, id };
    let endpoint = Endpoint::parse(item.text("endpoint")?).ok()?;
    let (recipient, terms) = match Channel::from_label(item.text("kind")?)? {
        Channel::WebPush => {
            let keys = PushKeys::parse(item.text("p256dh")?, item.text("auth")?).ok()?;
            let vapid_key_id = item.text("vapid_key_id").and_then(VapidKeyId::parse);
            (Recipient::WebPush(PushTarget { endpoint, keys, vapid_key_id }), Terms::default())
        }
        Channel::Webhook => {
            let sealed = item.text("sealed")?;
            let opened = match webhook_keys.into() {
                Some(keys) => keys.open(&key, endpoint, sealed),
                None => Ok(WebhookTarget::at(endpoint)),
            };
            match opened {
                Ok(target) => (Recipient::Webhook(target), terms(item, &key)),
                Err(error) => {
                    return Some(Err(aws_error::of_code("OpenWebhookSecrets", &error.to_string())));
                }
            }
        }
    };
    Some(Ok(Subscription {
        key,
        recipient,
        state: State::from_label(item.text("state")?)?,
        flagged_at: item.time("flagged_at"),
        doubts: read_doubts(item),
        health: Health {
            failures: item.number("failures").unwrap_or(0),
            failing_since: item.time("failing_since"),
        },
        terms,
        consent: consent(item),
        tags: tags(item),
        // One that this release does not know is as none.
        time_zone: item.text("time_zone").and_then(Zone::parse),
        last_seen_at: item.time("last_seen_at"),
        created_at: item.time("created_at"),
        moved_at: item.time("moved_at"),
        authorized_at: item.time("authorized_at"),
        ends_at: item.time("ends_at"),
        took_over_at: item.time("took_over_at"),
        gone_confirmed_at: item.time("gone_confirmed_at"),
        enabled_at: item.time("enabled_at"),
    }))
}

/// The attributes of what dead letters say against it.
pub(super) const DOUBTS: [&str; 6] =
    ["doubts", "doubted_since", "doubted_at", "suspect_at", "probe_id", "probed_at"];

/// Those of [`DOUBTS`] that have a value.
pub(super) fn doubts(doubts: &Doubts) -> Vec<(&'static str, AttributeValue)> {
    let Doubts { count, since, last_at, suspect_at, probe } = doubts;
    let [of_count, of_since, of_last, of_suspect, of_id, of_probe] = DOUBTS;
    let values = [
        (of_count, (*count > 0).then(|| n(*count))),
        (of_since, since.map(ms)),
        (of_last, last_at.map(ms)),
        (of_suspect, suspect_at.map(ms)),
        (of_id, probe.as_ref().map(|probe| s(probe.delivery.as_str()))),
        (of_probe, probe.as_ref().map(|probe| ms(probe.at))),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn read_doubts(item: &Item) -> Doubts {
    let probe = || {
        let delivery = DeliveryId::parse(item.text("probe_id")?)?;
        Some(Probe { delivery, at: item.time("probed_at")? })
    };
    Doubts {
        count: item.number("doubts").unwrap_or(0),
        since: item.time("doubted_since"),
        last_at: item.time("doubted_at"),
        suspect_at: item.time("suspect_at"),
        probe: probe(),
    }
}

/// `hash`: of its endpoint; an operator's tool, which does not have the keys of hashes, leaves none.
pub(super) fn tombstone(key: &SubscriptionKey, hash: Option<&EndpointHash>, deleted_at: Timestamp) -> Item {
    let mut item = attributes::item([
        ("pk", s(key.to_string())),
        ("tenant", s(key.tenant.as_str())),
        ("id", s(key.id.as_str())),
        ("state", s(DELETED)),
        ("deleted_at", ms(deleted_at)),
        ("expires_at", expiry(deleted_at.plus(TOMBSTONE_KEPT))),
    ]);
    item.extend(hash.map(|hash| ("endpoint_hash".to_owned(), s(hash.as_str()))));
    item
}

/// When the subscription of a tombstone was deleted.
pub(super) fn deleted_at(item: &Item) -> Option<Timestamp> {
    item.time("deleted_at").filter(|_| !is_stored(item))
}

/// `None` if the item is no tombstone.
pub(super) fn read_tombstone(item: &Item) -> Option<Found> {
    item.text("state").filter(|state| *state == DELETED)?;
    let endpoint_hash = item.text("endpoint_hash").and_then(EndpointHash::parse);
    Some(Found::Deleted { endpoint_hash, at: item.time("deleted_at")? })
}

/// Whether an item counts as a subscription: a tombstone does not.
pub(super) fn is_stored(item: &Item) -> bool {
    item.contains_key("endpoint")
}

/// The channel of a stored subscription.
pub(super) fn channel(item: &Item) -> Option<Channel> {
    item.text("kind").filter(|_| is_stored(item)).and_then(Channel::from_label)
}

/// The tags of an item, which have their rows in `audiences`.
pub(super) fn tags(item: &Item) -> Tags {
    Tags::new(item.texts("tags").filter_map(Tag::parse).collect()).unwrap_or_default()
}

fn consent(item: &Item) -> Option<Consent> {
    Some(Consent {
        at: item.time("consent_at")?,
        prompt_version: item.text("consent_prompt")?.to_owned(),
        action: item.text("consent_action")?.to_owned(),
        origin: Origin::parse(item.text("consent_origin")?)?,
    })
}

fn terms(item: &Item, key: &SubscriptionKey) -> Terms {
    let names = item.texts("permitted").map(str::to_owned).collect();
    Terms {
        topic: item.text("topic").and_then(EventType::parse),
        policy: item.text("policy").and_then(|text| policy(text, key)),
        // A list that was not checked when it was stored permits nothing.
        permitted: Permitted::new(names).unwrap_or_default(),
        rate: item.contains_key("rate").then(|| rate(item, key)).flatten(),
    }
}

/// The receiver's own limit. An invalid one is logged and ignored.
fn rate(item: &Item, key: &SubscriptionKey) -> Option<Rate> {
    let read = Rate::parse(item.text("rate").unwrap_or_default());
    read.map_err(|error| {
        telemetry::limit_ignored(Some(&key.tenant), &format!("subscription {}", key.id), &error)
    })
    .ok()
}

/// A policy's JSON, or that of the name of one of the package's. Any other text is logged and ignored.
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
