//! Webhooks that tenants' events are posted to.

use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::webhook::WebhookTarget;

use super::World;
use crate::address;
use crate::scenario::TENANTS;
use crate::situations::Situation;

impl World {
    /// Each tenant has its own, under an id that no other one has.
    pub(super) fn set_callbacks(&mut self) {
        if !self.stage.scenario.calls_back {
            return;
        }
        self.stage.watch.saw(Situation::CalledBack);
        for tenant in TENANTS {
            let address = Endpoint::parse(&address::callback(tenant)).expect("invariant: an HTTPS address");
            let key = SubscriptionKey {
                tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
                id: SubscriptionId::parse(&format!("events-of-{tenant}")).expect("invariant: an id"),
            };
            let recipient = Recipient::Webhook(WebhookTarget::at(address));
            {
                let mut state = self.memory.state();
                state.callbacks.insert(key.tenant.clone(), key.id.clone());
                state.subscriptions.insert(key.clone(), Subscription::new(key.clone(), recipient));
            }
            self.knows(&key);
        }
    }
}
