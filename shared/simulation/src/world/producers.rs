//! What producers send.

use std::time::Duration;

use redial_core::identity::{DeliveryId, DeliveryKey, Tenant, Turn};
use redial_core::lane::Lane;
use serde_json::{Value, json};

use super::browsers::{AUTH, P256DH};
use super::hostile::Destination;
use super::{SETTLING, World};
use crate::payload::filling;
use crate::promises::{tags_of, traceparent_of};
use crate::scenario::focus::Focus;
use crate::scenario::hostile::{MOST_ATTEMPTS, POLICIES};
use crate::scenario::hours::Hours;
use crate::scenario::messages::Sending;
use crate::scenario::persons::{ERASED, REF};
use crate::scenario::pressure::{LONG, NEVER_IN_DOUBT, PARTED};
use crate::situations::Situation;
use crate::sqs::Source;
use crate::watch::Promise;

/// SendMessage takes as much (API reference: 1 MiB).
const SQS_MOST_BYTES: usize = 1_048_576;

impl World {
    pub(super) fn send(&mut self, at: usize) {
        self.planned -= 1;
        let sending = self.stage.scenario.sendings[at].clone();
        self.produce(&sending);
    }

    pub(super) fn produce(&mut self, sending: &Sending) {
        let body = self.message(sending);
        let lane = if sending.class == Some("campaign") { Lane::Bulk } else { Lane::Transactional };
        if let Some(shortage) = self.stage.scenario.pressure.shortage.filter(|_| sending.id == LONG) {
            return self.send_long(lane, &body, shortage);
        }
        let key = self.promise(sending, Duration::ZERO);
        self.accepted.entry(key.clone()).or_default().push(sending.clone());
        let content = sending.content;
        self.trace("producer", format_args!("sends {key} content {content} to r{}", sending.receiver));
        let mut body = body.to_string();
        if sending.id == PARTED {
            let filling = filling(self.stage.scenario.pressure.filled);
            body = body.replacen(&format!("/{content}\""), &format!("/{content}{filling}\""), 1);
            self.stage.watch.saw(Situation::InParts);
        }
        self.enqueue(Source::Ingest(lane), body, Duration::ZERO);
    }

    /// What a producer writes.
    pub(super) fn message(&self, sending: &Sending) -> Value {
        let Destination { subscription, address, is_webhook } = self.destination(sending);
        let mut to = json!({"subscription": subscription});
        if sending.by_address {
            to = if is_webhook {
                json!({"webhook": {"url": address}})
            } else {
                json!({"web_push": {"endpoint": address, "keys": {"p256dh": P256DH, "auth": AUTH}}})
            };
        }
        let Sending { tenant, id, content, .. } = sending;
        let payload = format!("{tenant}/{id}/{content}");
        let mut body = json!({"tenant": tenant, "id": id, "to": to, "payload": payload, "tags": tags_of(tenant),
                "traceparent": traceparent_of(tenant)});
        let deliver_at = sending.deliver_at.map(|after| self.stage.begin.plus(after));
        // A message to a webhook's address must not ask for acknowledgements: no browser could send them.
        let has_acks = self.stage.scenario.acknowledged.contains(id) && !(is_webhook && sending.by_address);
        let is_erased = self.stage.scenario.focus == Some(Focus::Erased) && sending.receiver == ERASED;
        let more = [
            ("ref", is_erased.then(|| Value::from(REF))),
            ("ttl", sending.ttl.map(Value::from)),
            ("class", sending.class.map(Value::from)),
            ("retry", sending.retry.map(policy)),
            ("deliver_at", deliver_at.map(|at| at.to_rfc3339().into())),
            ("deliver_between", sending.hours.map(Hours::field)),
            ("acks", has_acks.then_some(Value::from(true))),
        ];
        for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            body[name] = value;
        }
        body
    }

    /// What holds of a message that is sent now, or at most so much later.
    pub(super) fn promise(&self, sending: &Sending, later: Duration) -> DeliveryKey {
        let now = self.now();
        let is_webhook = self.destination(sending).is_webhook;
        let deliver_at = sending.deliver_at.map(|after| self.stage.begin.plus(after));
        let from = deliver_at.unwrap_or(now).max(now);
        let usual = match sending.class {
            _ if is_webhook => 365 * 86_400,
            Some("otp") => 60,
            Some("campaign") => 86_400,
            _ => 14_400,
        };
        // A TTL of 0 is one attempt, whenever it can be made.
        let ttl = Duration::from_secs(sending.ttl.filter(|ttl| *ttl > 0).map_or(usual, u64::from));
        let ttl = if sending.ttl == Some(0) { SETTLING * 2 } else { ttl };
        let is_foe = self.stage.scenario.foe.as_ref().is_some_and(|foe| foe.tenant == sending.tenant);
        let attempts = match sending.retry {
            _ if is_foe => MOST_ATTEMPTS,
            Some("none") => 1,
            Some("schedule-standard") => 4,
            Some(NEVER_IN_DOUBT) => 5,
            Some("schedule-cautious" | "fixed-jitter") => 6,
            _ => 8,
        };
        let key = delivery(sending.tenant, &sending.id);
        let until = from.plus(ttl).plus(later);
        let mut memo = self.stage.watch.memo();
        // Of several messages of one id any may be the one that counts.
        let may_repeat_in_doubt = sending.retry != Some(NEVER_IN_DOUBT);
        let end = if sending.ttl == Some(0) { from } else { from.plus(ttl) };
        let own =
            Promise { from, until, earliest_end: end, attempts, may_repeat_in_doubt, hours: sending.hours };
        // An API may take its time.
        if later.is_zero() {
            memo.punctual.is_due(key.clone(), Turn::default(), from, now);
        }
        let promise = memo.promises.entry(key.clone()).or_insert(own);
        promise.from = promise.from.min(from);
        promise.until = promise.until.max(until);
        promise.earliest_end = promise.earliest_end.min(end);
        key
    }

    /// A message whose payload is long as it is written. It has to be refused, because it could not be sent again.
    fn send_long(&mut self, lane: Lane, body: &Value, shortage: usize) {
        let body = body.to_string();
        let rest = SQS_MOST_BYTES - shortage - body.len();
        let payload = format!("\\u0020{}", "\\u0020".repeat(rest / 6 - 1));
        let body = body.replacen("/0\"", &format!("/0{payload}\""), 1);
        self.stage.watch.saw(Situation::TooLong);
        self.too_long += 1;
        self.enqueue(Source::Ingest(lane), body, Duration::ZERO);
    }
}

/// A retry policy: by its name, or as it is.
fn policy(name: &str) -> Value {
    match name {
        NEVER_IN_DOUBT => json!({"max_retries": 4, "retry_in_doubt": false}),
        name => match POLICIES.iter().find(|(of, _)| *of == name) {
            Some((_, policy)) => serde_json::from_str(policy).expect("invariant: a policy is JSON"),
            None => name.into(),
        },
    }
}

pub(super) fn delivery(tenant: &str, id: &str) -> DeliveryKey {
    DeliveryKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: DeliveryId::parse(id).expect("invariant: a delivery's id"),
    }
}
