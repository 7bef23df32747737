//! Who is there and what is sent to them: keys, subscriptions, and messages of tenant `acme`.

use redial_core::access::TokenKeys;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::webhook::WebhookTarget;

use redial_testkit::memory;

use super::Harness;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

impl Harness {
    /// What browsers' tokens are made with.
    pub(crate) fn token_keys() -> TokenKeys {
        memory::dispatch_settings().token_keys
    }

    pub(crate) fn key(id: &str) -> DeliveryKey {
        DeliveryKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: DeliveryId::parse(id).expect("valid"),
        }
    }

    pub(crate) fn subscription_key(id: &str) -> SubscriptionKey {
        SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse(id).expect("valid"),
        }
    }

    pub(crate) fn endpoint(id: &str) -> String {
        format!("https://push.example/{id}")
    }

    /// Stores an active subscription, which leads to [`Self::endpoint`].
    pub(crate) fn subscribe(&self, id: &str) {
        let key = Self::subscription_key(id);
        let target = PushTarget {
            endpoint: Endpoint::parse(&Self::endpoint(id)).expect("valid"),
            keys: PushKeys::parse(P256DH, AUTH).expect("valid"),
            vapid_key_id: None,
        };
        let subscription = Subscription::new(key.clone(), Recipient::WebPush(target));
        self.memory.state().subscriptions.insert(key, subscription);
    }

    /// Where the webhook of an id leads.
    pub(crate) fn hook(id: &str) -> String {
        format!("https://hooks.example/{id}")
    }

    /// A message of that id to a subscription of another.
    pub(crate) fn message_to(subscription: &str, id: &str, more: &str) -> String {
        Self::message(subscription, more).replacen(
            &format!(r#""id":"{subscription}""#),
            &format!(r#""id":"{id}""#),
            1,
        )
    }

    /// Stores an active webhook's subscription, which leads to [`Self::hook`].
    pub(crate) fn subscribe_hook(&self, id: &str) {
        let key = Self::subscription_key(id);
        let target = WebhookTarget::at(Endpoint::parse(&Self::hook(id)).expect("valid"));
        let subscription = Subscription::new(key.clone(), Recipient::Webhook(target));
        self.memory.state().subscriptions.insert(key, subscription);
    }

    /// Changes a stored subscription.
    pub(crate) fn amend(&self, id: &str, change: impl FnOnce(&mut Subscription)) {
        change(self.memory.state().subscriptions.get_mut(&Self::subscription_key(id)).expect("stored"));
    }

    pub(crate) fn subscription(&self, id: &str) -> Subscription {
        self.memory.state().subscriptions[&Self::subscription_key(id)].clone()
    }

    /// A message of tenant `acme` to the webhook of that id by its bare address, with more fields.
    pub(crate) fn message_to_url(id: &str, more: &str) -> String {
        let url = Self::hook(id);
        format!(
            r#"{{"tenant":"acme","id":"{id}","to":{{"webhook":{{"url":"{url}"}}}},"payload":"hello {id}"{more}}}"#
        )
    }

    /// A message of tenant `acme` to a subscription of that id, with more fields.
    pub(crate) fn message(id: &str, more: &str) -> String {
        format!(
            r#"{{"tenant":"acme","id":"{id}","to":{{"subscription":"{id}"}},"payload":"hello {id}"{more}}}"#
        )
    }
}
