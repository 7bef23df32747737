//! Subscriptions as the HTTP API keeps them, and whose their endpoints are, in memory.

use redial_core::endpoint::{Endpoint, HashKeys};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::same_endpoint::{FORMER_KEPT, keeps_it};
use redial_core::subscription::{self, Decision, Permit, Renewal, Rival, SameEndpoint, Subscription};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Endowed, Erased, Found, Kept, PortError, Removals, Removed, Renewed, SubscriptionBook, SubscriptionWalk,
    WalkProgress, Walked, WalkedPage,
};

use super::{Memory, State};

/// The most of a page of the walk.
const WALKED_AT_A_TIME: usize = 100;

fn holder_of(key: &SubscriptionKey, endpoint: &Endpoint) -> (Tenant, String) {
    (key.tenant.clone(), endpoint.expose().as_str().to_owned())
}

/// Another browser's subscription of the tenant with this endpoint.
fn other<'a>(state: &'a State, key: &SubscriptionKey, endpoint: &Endpoint) -> Option<&'a Subscription> {
    let is_it = |it: &&Subscription| {
        it.key.tenant == key.tenant
            && it.key != *key
            && matches!(&it.recipient, Recipient::WebPush(target) if target.endpoint == *endpoint)
    };
    state.subscriptions.values().find(is_it)
}

fn rival(state: &State, key: &SubscriptionKey, endpoint: &Endpoint, now: Timestamp) -> Option<Rival> {
    if let Some(other) = other(state, key, endpoint) {
        return Some(Rival::Stored(Box::new(other.clone())));
    }
    let (former, until) = state.former_holders.get(&holder_of(key, endpoint))?;
    (*former != key.id && now < *until).then_some(Rival::Former)
}

/// Removes a subscription, and remembers for a while who had its endpoint.
pub(super) fn leaves(state: &mut State, key: &SubscriptionKey, now: Timestamp) -> Option<Subscription> {
    let removed = state.subscriptions.remove(key)?;
    let had_it = !state.unclaimed.remove(key);
    if had_it && matches!(removed.recipient, Recipient::WebPush(_)) {
        let until = now.plus(FORMER_KEPT);
        let endpoint = holder_of(key, removed.recipient.endpoint());
        state.former_holders.insert(endpoint, (key.id.clone(), until));
    }
    Some(removed)
}

impl SubscriptionWalk for Memory {
    async fn walk_page(&self, from: Option<String>) -> Result<WalkedPage, PortError> {
        self.effect("walk_page", |state| {
            let is_after = |key: &&SubscriptionKey| from.as_ref().is_none_or(|from| key.to_string() > *from);
            let mut keys: Vec<SubscriptionKey> =
                state.subscriptions.keys().filter(is_after).cloned().collect();
            keys.sort_by_key(ToString::to_string);
            let is_last = keys.len() <= WALKED_AT_A_TIME;
            keys.truncate(WALKED_AT_A_TIME);
            let next = keys.last().filter(|_| !is_last).map(ToString::to_string);
            let walked = |key: &SubscriptionKey| Walked {
                subscription: state.subscriptions[key].clone(),
                has_its_endpoint: !state.unclaimed.contains(key),
            };
            WalkedPage { found: keys.iter().map(walked).collect(), next }
        })
        .await
    }

    async fn walk_progress(&self) -> Result<Option<WalkProgress>, PortError> {
        self.effect("walk_progress", |state| state.walk.clone()).await
    }

    async fn walk_to(&self, progress: &WalkProgress) -> Result<(), PortError> {
        self.effect("walk_to", |state| state.walk = Some(progress.clone())).await
    }

    async fn endow(&self, found: &Subscription, _at: Timestamp) -> Result<Endowed, PortError> {
        self.effect("endow", |state| {
            let endpoint = found.recipient.endpoint();
            let Some(stored) = state.subscriptions.get(&found.key).cloned() else { return Endowed::Changed };
            if stored.recipient.endpoint() != endpoint || !state.unclaimed.contains(&found.key) {
                return Endowed::Changed;
            }
            let Some(other) = other(state, &found.key, endpoint).cloned() else {
                state.unclaimed.remove(&found.key);
                return Endowed::Its;
            };
            // Of two that no release has decided on, the first to be walked meets the second.
            let lost = if keeps_it(&stored, &other) { other } else { stored };
            if lost.key == found.key && lost.state != subscription::State::Active {
                return Endowed::Changed;
            }
            let keeps = if lost.key == found.key { None } else { Some(&found.key) };
            keeps.map(|key| state.unclaimed.remove(key));
            state.unclaimed.insert(lost.key.clone());
            let it = state.subscriptions.get_mut(&lost.key).expect("it is stored");
            it.state = subscription::State::Stale;
            Endowed::Lost(Box::new(it.clone()))
        })
        .await
    }
}

impl Removals for Memory {
    async fn removed(&self) -> Result<Vec<Removed>, PortError> {
        self.effect("removed", |state| state.removed.iter().take(WALKED_AT_A_TIME).cloned().collect()).await
    }

    async fn announced(&self, removed: &Removed) -> Result<(), PortError> {
        self.effect("announced", |state| {
            state.removed.remove(removed);
        })
        .await
    }
}

impl SubscriptionBook for Memory {
    async fn renew(
        &self,
        renewal: Renewal,
        same_endpoint: SameEndpoint,
        now: Timestamp,
    ) -> Result<Renewed, PortError> {
        self.effect("renew", |state| {
            let before = state.subscriptions.get(&renewal.key);
            let deleted_at = state.tombstones.get(&renewal.key).map(|(_, at)| *at);
            let rival = rival(state, &renewal.key, &renewal.document.target.endpoint, now);
            let (stored, is_new) =
                match renewal.decide(before, deleted_at, rival.as_ref(), same_endpoint, now) {
                    Decision::Begins(stored) => (stored, true),
                    Decision::Moves(stored) | Decision::Stays(stored) => (stored, false),
                    Decision::NeedsConsent => return Renewed::NeedsConsent,
                    Decision::IsAWebhook => return Renewed::IsAWebhook,
                    Decision::TokenEnded => return Renewed::TokenEnded,
                    Decision::TagsNotPermitted => return Renewed::TagsNotPermitted,
                    Decision::EndpointTaken { same } => return Renewed::EndpointTaken { same },
                };
            let replaced = matches!(rival, Some(Rival::Stored(_)));
            if let Some(Rival::Stored(rival)) = rival {
                state.subscriptions.remove(&rival.key);
                state.unclaimed.remove(&rival.key);
                state.tombstones.insert(rival.key.clone(), (None, now));
                let reason = Reason::EndpointReplaced;
                state.removed.insert(Removed { key: rival.key, at: now, reason });
            }
            // Where it led before, if that was elsewhere, is remembered.
            leaves(state, &renewal.key, now);
            let endpoint = holder_of(&renewal.key, stored.recipient.endpoint());
            state.former_holders.remove(&endpoint);
            state.tombstones.remove(&renewal.key);
            state.subscriptions.insert(renewal.key.clone(), stored.clone());
            let kept = Box::new(Kept { subscription: stored, replaced });
            if is_new { Renewed::New(kept) } else { Renewed::Renewed(kept) }
        })
        .await
    }

    async fn find(&self, key: &SubscriptionKey) -> Result<Found, PortError> {
        self.effect("find", |state| match (state.subscriptions.get(key), state.tombstones.get(key)) {
            (Some(stored), _) => Found::Stored(Box::new(stored.clone())),
            (None, Some((endpoint_hash, at))) => {
                Found::Deleted { endpoint_hash: endpoint_hash.clone(), at: *at }
            }
            (None, None) => Found::Unknown,
        })
        .await
    }

    async fn same_as(&self, renewal: &Renewal, now: Timestamp) -> Result<Option<SubscriptionId>, PortError> {
        self.effect("same_as", |state| {
            let rival = rival(state, &renewal.key, &renewal.document.target.endpoint, now);
            rival.and_then(|rival| renewal.same_as(&rival))
        })
        .await
    }

    async fn erase(
        &self,
        key: &SubscriptionKey,
        permit: Option<&Permit>,
        hash_keys: &HashKeys,
        now: Timestamp,
    ) -> Result<Erased, PortError> {
        self.effect("erase", |state| {
            let Some(stored) = state.subscriptions.get(key) else { return Erased::Nothing };
            let Recipient::WebPush(target) = &stored.recipient else { return Erased::Nothing };
            if permit.is_some_and(|permit| !permit.is_for(stored)) {
                return Erased::TokenEnded;
            }
            let hash = hash_keys.endpoint(&target.endpoint);
            leaves(state, key, now);
            state.tombstones.insert(key.clone(), (Some(hash), now));
            Erased::Yes
        })
        .await
    }
}
