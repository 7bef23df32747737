//! What producers send.

use std::time::Duration;

use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_core::lane::Lane;
use serde_json::{Value, json};

use super::browsers::{AUTH, P256DH};
use super::{SETTLING, World};
use crate::scenario::messages::Sending;
use crate::sqs::Source;
use crate::watch::Promise;
use crate::worker::endpoint;

impl World {
    pub(super) fn send(&mut self, at: usize) {
        self.planned -= 1;
        let sending = self.stage.scenario.sendings[at].clone();
        self.produce(&sending);
    }

    pub(super) fn produce(&mut self, sending: &Sending) {
        let now = self.now();
        let receiver = &self.stage.scenario.receivers[sending.receiver];
        let incarnation = self.incarnations[sending.receiver];
        let address = endpoint(sending.receiver, receiver.is_webhook, incarnation, sending.tenant);
        let mut to = json!({"subscription": format!("r{}", sending.receiver)});
        if sending.by_address {
            to = if receiver.is_webhook {
                json!({"webhook": {"url": address}})
            } else {
                json!({"web_push": {"endpoint": address, "keys": {"p256dh": P256DH, "auth": AUTH}}})
            };
        }
        let Sending { tenant, id, content, .. } = sending;
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
}

pub(super) fn delivery(tenant: &str, id: &str) -> DeliveryKey {
    DeliveryKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: DeliveryId::parse(id).expect("invariant: a delivery's id"),
    }
}
