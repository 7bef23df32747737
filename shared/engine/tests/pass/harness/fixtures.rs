//! Receivers and the messages of tenant `acme` to them.

use std::time::Duration;

use redial_core::endpoint::{Endpoint, Origin};
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::outcome::Outcome;
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::webhook::WebhookTarget;

use super::Harness;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// Who a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    Browser,
    Hook,
    /// A webhook's bare address.
    Address,
}

pub(crate) fn tenant() -> Tenant {
    Tenant::parse("acme").expect("valid")
}

pub(crate) fn endpoint(url: &str) -> Endpoint {
    Endpoint::parse(url).expect("valid")
}

pub(crate) fn origin(url: &str) -> Origin {
    Origin::parse(url).expect("valid")
}

impl Harness {
    /// Makes `m` one of these, which responds with these outcomes, and puts a message to it on its queue.
    pub(crate) fn prepared(whom: Whom, answers: Vec<Outcome>, fields: &str) -> Self {
        let mut harness = Self::new();
        let message = harness.message_for(whom, fields);
        harness.will_answer("m", answers);
        harness.produce(&message);
        harness
    }

    /// The same, run to the end.
    pub(crate) fn finished(whom: Whom, answers: Vec<Outcome>, fields: &str) -> Self {
        Self::prepared(whom, answers, fields).run_to_the_end()
    }

    /// Makes `m` one of these; returns a message to it.
    pub(crate) fn message_for(&self, whom: Whom, fields: &str) -> String {
        match whom {
            Whom::Browser => self.subscribe("m"),
            Whom::Hook => self.subscribe_hook("m"),
            Whom::Address => return Self::message_to_url("m", "m", fields),
        }
        Self::message("m", fields)
    }

    /// What the browser or the webhook of an id responds with next; then it accepts again.
    pub(crate) fn will_answer(&self, id: &str, answers: Vec<Outcome>) {
        let mut state = self.state();
        state.answers.insert(Self::hook(id), answers.clone());
        state.answers.insert(Self::endpoint(id), answers);
    }

    /// Stores a browser of that id, and puts a message to it on its queue.
    pub(crate) fn push(&mut self, id: &str, fields: &str) -> String {
        self.subscribe(id);
        self.produce(&Self::message(id, fields))
    }

    /// The same, put there by a clock that is so far ahead of the worker's.
    pub(crate) fn push_from_ahead(&mut self, by: Duration, id: &str, fields: &str) {
        self.push(id, fields);
        let sent = self.now().plus(by);
        self.queued.last_mut().expect("it was just queued").sent = sent;
    }

    /// The same for `n` of them: `name0`, `name1`, …
    pub(crate) fn push_many(&mut self, name: &str, n: usize, fields: &str) {
        for at in 0..n {
            self.push(&format!("{name}{at}"), fields);
        }
    }

    pub(crate) fn key(id: &str) -> DeliveryKey {
        DeliveryKey { tenant: tenant(), id: DeliveryId::parse(id).expect("valid") }
    }

    pub(crate) fn subscription_key(id: &str) -> SubscriptionKey {
        SubscriptionKey { tenant: tenant(), id: SubscriptionId::parse(id).expect("valid") }
    }

    pub(crate) fn endpoint(id: &str) -> String {
        format!("https://push.example/{id}")
    }

    pub(crate) fn hook(id: &str) -> String {
        format!("https://hooks.example/{id}")
    }

    /// A browser as a message names it.
    pub(crate) fn push_target(id: &str) -> String {
        let endpoint = Self::endpoint(id);
        format!(r#"{{"endpoint":"{endpoint}","keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}"#)
    }

    /// Stores an active subscription, which leads to [`Self::endpoint`].
    pub(crate) fn subscribe(&self, id: &str) {
        let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
        let target = PushTarget { endpoint: endpoint(&Self::endpoint(id)), keys, vapid_key_id: None };
        self.store(id, Recipient::WebPush(target));
    }

    /// Stores an active webhook's subscription, which leads to [`Self::hook`].
    pub(crate) fn subscribe_hook(&self, id: &str) {
        self.store(id, Recipient::Webhook(WebhookTarget::at(endpoint(&Self::hook(id)))));
    }

    fn store(&self, id: &str, recipient: Recipient) {
        let key = Self::subscription_key(id);
        self.state().subscriptions.insert(key.clone(), Subscription::new(key, recipient));
    }

    pub(crate) fn amend(&self, id: &str, change: impl FnOnce(&mut Subscription)) {
        change(self.state().subscriptions.get_mut(&Self::subscription_key(id)).expect("stored"));
    }

    pub(crate) fn redirect(&self, id: &str, url: &str) {
        self.amend(id, |it| match &mut it.recipient {
            Recipient::WebPush(target) => target.endpoint = endpoint(url),
            Recipient::Webhook(target) => target.endpoint = endpoint(url),
        });
    }

    pub(crate) fn subscription(&self, id: &str) -> Subscription {
        self.state().subscriptions[&Self::subscription_key(id)].clone()
    }

    pub(crate) fn message_with(id: &str, to: &str, payload: &str, fields: &str) -> String {
        format!(r#"{{"tenant":"acme","id":"{id}","to":{{{to}}},"payload":"{payload}"{fields}}}"#)
    }

    /// A message to a subscription of the same id, with more fields.
    pub(crate) fn message(id: &str, fields: &str) -> String {
        Self::message_to(id, id, fields)
    }

    /// A message of that id to a subscription of another.
    pub(crate) fn message_to(subscription: &str, id: &str, fields: &str) -> String {
        let to = format!(r#""subscription":"{subscription}""#);
        Self::message_with(id, &to, &format!("hello {subscription}"), fields)
    }

    /// A message of that id to the bare address of a webhook.
    pub(crate) fn message_to_url(hook: &str, id: &str, fields: &str) -> String {
        let to = format!(r#""webhook":{{"url":"{}"}}"#, Self::hook(hook));
        Self::message_with(id, &to, &format!("hello {hook}"), fields)
    }

    /// A message to the subscription `m` that carries `bytes` bytes.
    pub(crate) fn long_message(bytes: usize, fields: &str) -> String {
        Self::message_with("m", r#""subscription":"m""#, &"x".repeat(bytes), fields)
    }
}
