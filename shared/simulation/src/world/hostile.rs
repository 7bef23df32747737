//! Makes a hostile tenant's subscriptions and policy, and finds where a message goes, whosever it is.

use std::sync::Arc;
use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::policy::stored::{Slot, Stored};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::webhook::WebhookTarget;

use super::World;
use super::browsers::{AUTH, P256DH};
use crate::neighbours::Tenants;
use crate::scenario::messages::Sending;

/// How long ago it stored the subscriptions that are not young.
const LONG_AGO: Duration = Duration::from_secs(60 * 86_400);

/// Where a message goes.
pub(super) struct Destination {
    pub(super) subscription: String,
    pub(super) address: String,
    pub(super) is_webhook: bool,
}

impl World {
    /// Where a message goes: the numbers of a hostile tenant's receivers are its own.
    pub(super) fn destination(&self, sending: &Sending) -> Destination {
        let scenario = &self.stage.scenario;
        if let Some(foe) = scenario.foe.as_ref().filter(|foe| foe.tenant == sending.tenant) {
            let target = &foe.targets[sending.receiver];
            return Destination {
                subscription: target.id.clone(),
                address: target.address(foe.tenant),
                is_webhook: target.receiver.is_webhook,
            };
        }
        let Sending { receiver, tenant, .. } = sending;
        let is_webhook = scenario.receivers[*receiver].is_webhook;
        Destination {
            subscription: format!("r{receiver}"),
            address: self.address(*receiver, is_webhook, tenant),
            is_webhook,
        }
    }

    /// Stores what a hostile tenant has.
    pub(super) fn admit_foe(&mut self) {
        let scenario = self.stage.scenario.clone();
        let Some(foe) = &scenario.foe else { return };
        let tenant = Tenant::parse(foe.tenant).expect("invariant: a tenant's name");
        let mut state = self.memory.state();
        for target in &foe.targets {
            let endpoint = Endpoint::parse(&target.address(foe.tenant)).expect("invariant: an HTTPS address");
            let id = SubscriptionId::parse(&target.id).expect("invariant: a subscription's id");
            let key = SubscriptionKey { tenant: tenant.clone(), id };
            let recipient = if target.receiver.is_webhook {
                Recipient::Webhook(WebhookTarget::at(endpoint))
            } else {
                let keys = PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys");
                Recipient::WebPush(PushTarget { endpoint, keys, vapid_key_id: None })
            };
            let age = if target.is_young { Duration::ZERO } else { LONG_AGO };
            let created_at = Some(self.stage.begin.minus(age));
            let stored = Subscription { created_at, ..Subscription::new(key.clone(), recipient) };
            state.subscriptions.insert(key, stored);
        }
        if let Some(policy) = foe.stored {
            let stored = Stored { slot: Slot::Tenant, policy: policy.to_owned(), last_good: None };
            state.policies.insert(tenant.clone(), vec![stored]);
        }
        let leads_to = |stored: &Subscription| stored.recipient.endpoint().origin();
        let origins = state.subscriptions.iter().map(|(key, stored)| (key.clone(), leads_to(stored)));
        let tenants = Tenants {
            foe: tenant,
            is_calm: foe.is_calm,
            others_are_well: foe.others_are_well,
            is_limited: foe.limit.is_some(),
            workers: scenario.clocks.len(),
            origins: origins.collect(),
        };
        let mut memo = self.stage.watch.memo();
        memo.neighbours.tenants = Some(Arc::new(tenants));
        if foe.is_calm {
            memo.punctual.calm_from = self.stage.begin;
        }
    }
}
