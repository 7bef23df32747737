//! What producers, users and operators do.

use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::{State as SubscriptionState, Subscription};
use redial_core::webhook::WebhookTarget;
use serde_json::{Value, json};

use super::{SETTLING, World};
use crate::scenario::{Operation, Sending, TENANTS};
use crate::situations::Situation;
use crate::sqs::Source;
use crate::watch::Promise;
use crate::worker::endpoint;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

impl World {
    pub(super) fn send(&mut self, at: usize) {
        self.planned -= 1;
        let sending = self.stage.scenario.sendings[at].clone();
        let now = self.now();
        let receiver = &self.stage.scenario.receivers[sending.receiver];
        let address = endpoint(sending.receiver, receiver.is_webhook, self.incarnations[sending.receiver]);
        let mut to = json!({"subscription": format!("r{}", sending.receiver)});
        if sending.by_address {
            to = if receiver.is_webhook {
                json!({"webhook": {"url": address}})
            } else {
                json!({"web_push": {"endpoint": address, "keys": {"p256dh": P256DH, "auth": AUTH}}})
            };
        }
        let Sending { tenant, id, content, .. } = &sending;
        let mut body =
            json!({"tenant": tenant, "id": id, "to": to, "payload": format!("{tenant}/{id}/{content}")});
        let deliver_at = sending.deliver_at.map(|after| self.stage.begin.plus(after));
        let more = [
            ("ttl", sending.ttl.map(Value::from)),
            ("class", sending.class.map(Value::from)),
            ("retry", sending.retry.map(Value::from)),
            ("deliver_at", deliver_at.map(|at| at.to_rfc3339().into())),
        ];
        for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            body[name] = value;
        }
        let from = deliver_at.unwrap_or(now).max(now);
        let usual = match sending.class {
            _ if receiver.is_webhook => 365 * 86_400,
            Some("otp") => 60,
            Some("campaign") => 86_400,
            _ => 14_400,
        };
        // A TTL of 0 is one attempt, whenever it can be made.
        let ttl = Duration::from_secs(sending.ttl.filter(|ttl| *ttl > 0).map_or(usual, u64::from));
        let ttl = if sending.ttl == Some(0) { SETTLING * 2 } else { ttl };
        let attempts = match sending.retry {
            Some("none") => 1,
            Some("schedule-standard") => 4,
            Some("schedule-cautious" | "fixed-jitter") => 6,
            _ => 8,
        };
        let key = delivery(tenant, id);
        let until = from.plus(ttl);
        let mut memo = self.stage.watch.memo();
        // Of several messages of one id any may be the one that counts.
        let promise = memo.promises.entry(key.clone()).or_insert(Promise { from, until, attempts });
        *promise = Promise { from: promise.from.min(from), until: promise.until.max(until), attempts };
        drop(memo);
        self.accepted.entry(key.clone()).or_default().push(sending.clone());
        let lane = if sending.class == Some("campaign") { Lane::Bulk } else { Lane::Transactional };
        self.trace("producer", format_args!("sends {key} content {content} to r{}", sending.receiver));
        self.enqueue(Source::Ingest(lane), body.to_string(), Duration::ZERO);
    }

    pub(super) fn operate(&mut self, at: usize) {
        let (_, operation) = self.stage.scenario.operations[at].clone();
        self.trace("user", format_args!("{operation:?}"));
        match operation {
            Operation::Moves(receiver) => {
                self.stage.watch.saw(Situation::Moved);
                self.incarnations[receiver] += 1;
                self.subscribe(receiver);
            }
            Operation::Returns(receiver) => {
                let is_off = TENANTS.iter().any(|tenant| {
                    let state = self.memory.state();
                    let stored = state.subscriptions.get(&subscription(tenant, receiver));
                    stored.is_none_or(|stored| stored.state != SubscriptionState::Active)
                });
                if is_off {
                    self.incarnations[receiver] += 1;
                    self.subscribe(receiver);
                }
            }
        }
    }

    /// Stores a receiver's subscription with each tenant.
    pub(super) fn subscribe(&mut self, receiver: usize) {
        let is_webhook = self.stage.scenario.receivers[receiver].is_webhook;
        let address = endpoint(receiver, is_webhook, self.incarnations[receiver]);
        let endpoint = Endpoint::parse(&address).expect("invariant: an HTTPS address");
        for tenant in TENANTS {
            let key = subscription(tenant, receiver);
            let recipient = if is_webhook {
                Recipient::Webhook(WebhookTarget::at(endpoint.clone()))
            } else {
                let keys = PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys");
                Recipient::WebPush(PushTarget { endpoint: endpoint.clone(), keys, vapid_key_id: None })
            };
            let stored = Subscription::new(key.clone(), recipient);
            self.memory.state().subscriptions.insert(key, stored);
        }
    }
}

fn delivery(tenant: &str, id: &str) -> DeliveryKey {
    DeliveryKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: DeliveryId::parse(id).expect("invariant: a delivery's id"),
    }
}

fn subscription(tenant: &str, receiver: usize) -> SubscriptionKey {
    SubscriptionKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: SubscriptionId::parse(&format!("r{receiver}")).expect("invariant: a subscription's id"),
    }
}
