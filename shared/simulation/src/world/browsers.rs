//! What users do: browsers subscribe, move and return.

use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::{State as SubscriptionState, Subscription};
use redial_core::webhook::WebhookTarget;

use super::World;
use crate::address::{ALL, endpoint};
use crate::scenario::TENANTS;
use crate::scenario::operations::Operation;
use crate::situations::Situation;

pub(super) const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
pub(super) const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

impl World {
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

    /// A receiver's address, as a tenant has it.
    pub(super) fn address(&self, receiver: usize, is_webhook: bool, tenant: &str) -> String {
        let is_shared = self.stage.scenario.crowd.is_some_and(|crowd| crowd.shared == Some(receiver));
        let whose = if is_shared { ALL } else { tenant };
        endpoint(receiver, is_webhook, self.incarnations[receiver], whose)
    }

    /// Stores a receiver's subscription with each tenant.
    pub(super) fn subscribe(&mut self, receiver: usize) {
        let is_webhook = self.stage.scenario.receivers[receiver].is_webhook;
        for tenant in TENANTS {
            let address = self.address(receiver, is_webhook, tenant);
            let endpoint = Endpoint::parse(&address).expect("invariant: an HTTPS address");
            let key = subscription(tenant, receiver);
            let recipient = if is_webhook {
                Recipient::Webhook(WebhookTarget::at(endpoint.clone()))
            } else {
                let keys = PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys");
                Recipient::WebPush(PushTarget { endpoint: endpoint.clone(), keys, vapid_key_id: None })
            };
            let stored = Subscription::new(key.clone(), recipient);
            self.memory.state().subscriptions.insert(key.clone(), stored);
            self.knows(&key);
        }
    }
}

pub(super) fn subscription(tenant: &str, receiver: usize) -> SubscriptionKey {
    SubscriptionKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: SubscriptionId::parse(&format!("r{receiver}")).expect("invariant: a subscription's id"),
    }
}
