//! Stored subscriptions in memory.

use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::reason::Reason;
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{self, Doubts, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::Health;
use redial_engine::ports::{
    OpenWindow, PortError, PruneCandidate, Removed, SubscriptionHealth, SubscriptionUpdate, Subscriptions,
};

use super::book::leaves;
use super::effects::assert_distinct;
use super::{Memory, State};

/// The subscription that an update is about, if it still leads to the endpoint that the update is about.
fn meant<'a>(state: &'a mut State, update: &SubscriptionUpdate) -> Option<&'a mut Subscription> {
    state.subscriptions.get_mut(&update.key).filter(|it| *it.recipient.endpoint() == update.endpoint)
}

fn turn(
    state: &mut State,
    update: &SubscriptionUpdate,
    from: subscription::State,
    to: subscription::State,
) -> bool {
    let found = meant(state, update).filter(|it| it.state == from);
    found.map(|it| it.state = to).is_some()
}

impl Subscriptions for Memory {
    async fn load(&self, keys: Vec<SubscriptionKey>) -> Vec<Result<Option<Subscription>, PortError>> {
        let partition = |key: &SubscriptionKey| Some(key.to_string());
        let load = |state: &mut State, key| state.subscriptions.get(&key).cloned();
        self.effect_on_each_at("load", keys, partition, load).await
    }

    async fn switch_off(
        &self,
        updates: Vec<(SubscriptionUpdate, subscription::State)>,
    ) -> Vec<Result<bool, PortError>> {
        assert_distinct(updates.iter().map(|(update, _)| &update.key));
        self.effect_on_each("switch_off", updates, |state, (update, to)| {
            let is_off = turn(state, &update, subscription::State::Active, to);
            // What is switched off is listed with those that fail.
            if is_off
                && to == subscription::State::Disabled
                && let Some(it) = meant(state, &update)
            {
                it.health.failing_since.get_or_insert(update.at);
            }
            is_off
        })
        .await
    }

    async fn probe(
        &self,
        probes: Vec<(SubscriptionUpdate, Probe, Timestamp)>,
    ) -> Vec<Result<bool, PortError>> {
        assert_distinct(probes.iter().map(|(update, ..)| &update.key));
        self.effect_on_each("probe", probes, |state, (update, probe, before)| {
            let is_due = |it: &&mut Subscription| {
                let last = it.doubts.probe.as_ref();
                it.state == subscription::State::Active
                    && it.doubts.suspect_at.is_some()
                    && last.is_none_or(|last| last.at <= before || last.delivery == probe.delivery)
            };
            meant(state, &update).filter(is_due).map(|it| it.doubts.probe = Some(probe)).is_some()
        })
        .await
    }

    async fn forget_probes(&self, probes: Vec<(SubscriptionUpdate, Probe)>) -> Vec<Result<(), PortError>> {
        assert_distinct(probes.iter().map(|(update, _)| &update.key));
        self.effect_on_each("forget_probes", probes, |state, (update, probe)| {
            if let Some(it) = meant(state, &update).filter(|it| it.doubts.probe.as_ref() == Some(&probe)) {
                it.doubts.probe = None;
            }
        })
        .await
    }

    async fn recovered(&self, updates: Vec<SubscriptionUpdate>) -> Vec<Result<(), PortError>> {
        assert_distinct(updates.iter().map(|update| &update.key));
        self.effect_on_each("recovered", updates, |state, update| {
            if let Some(it) = meant(state, &update).filter(|it| it.state == subscription::State::Active) {
                it.flagged_at = None;
                it.doubts = Doubts::default();
                it.health = Health::default();
            }
        })
        .await
    }

    async fn failed(&self, updates: Vec<(SubscriptionUpdate, u64)>) -> Vec<Result<(), PortError>> {
        assert_distinct(updates.iter().map(|(update, _)| &update.key));
        self.effect_on_each("failed", updates, |state, (update, failures)| {
            if let Some(it) = meant(state, &update) {
                it.health.failures += failures;
                it.health.failing_since.get_or_insert(update.at);
            }
        })
        .await
    }

    async fn give_up(&self, updates: Vec<(SubscriptionUpdate, Health)>) -> Vec<Result<bool, PortError>> {
        assert_distinct(updates.iter().map(|(update, _)| &update.key));
        self.effect_on_each("give_up", updates, |state, (update, health)| {
            let since = meant(state, &update).map(|it| it.health.failing_since);
            since == Some(health.failing_since)
                && turn(state, &update, subscription::State::Active, subscription::State::Disabled)
        })
        .await
    }
}

impl SubscriptionHealth for Memory {
    async fn get(&self, key: &SubscriptionKey) -> Result<Option<Subscription>, PortError> {
        self.effect("subscription.get", |state| state.subscriptions.get(key).cloned()).await
    }

    async fn flag(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        self.effect("flag", |state| {
            if let Some(it) = meant(state, &update) {
                it.flagged_at = Some(update.at);
            }
        })
        .await
    }

    async fn doubt(
        &self,
        update: SubscriptionUpdate,
        before: &Doubts,
        after: &Doubts,
    ) -> Result<bool, PortError> {
        self.effect("doubt", |state| {
            let is_same = |it: &&mut Subscription| {
                it.state == subscription::State::Active && it.doubts.last_at == before.last_at
            };
            meant(state, &update).filter(is_same).map(|it| it.doubts = after.clone()).is_some()
        })
        .await
    }

    async fn count_suspect(&self, tenant: &Tenant, at: Timestamp) -> Result<u64, PortError> {
        self.effect("count_suspect", |state| {
            let count = state.suspects.entry((tenant.clone(), at.as_secs() / 86_400)).or_default();
            *count += 1;
            *count
        })
        .await
    }

    async fn disable(&self, update: SubscriptionUpdate, health: Health) -> Result<bool, PortError> {
        self.effect("disable", |state| {
            let since = meant(state, &update).and_then(|it| it.health.failing_since);
            since.is_some()
                && since == health.failing_since
                && turn(state, &update, subscription::State::Active, subscription::State::Disabled)
        })
        .await
    }

    async fn mark_gone(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        self.effect("mark_gone", |state| {
            turn(state, &update, subscription::State::Active, subscription::State::Gone);
        })
        .await
    }

    async fn quarantine(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        self.effect("quarantine", |state| {
            turn(state, &update, subscription::State::Gone, subscription::State::Quarantined)
        })
        .await
    }

    async fn end(
        &self,
        found: &Subscription,
        to: subscription::State,
        _at: Timestamp,
    ) -> Result<bool, PortError> {
        self.effect("end", |state| {
            let stored = state.subscriptions.get_mut(&found.key);
            let is_meant = |it: &&mut Subscription| {
                it.state == subscription::State::Active
                    && it.recipient.endpoint() == found.recipient.endpoint()
                    && (it.last_seen_at, it.ends_at) == (found.last_seen_at, found.ends_at)
            };
            stored.filter(is_meant).map(|it| it.state = to).is_some()
        })
        .await
    }

    async fn remove(&self, update: SubscriptionUpdate, reason: Reason) -> Result<bool, PortError> {
        self.effect("remove", |state| {
            let is_over = |it: &mut Subscription| {
                matches!(
                    it.state,
                    subscription::State::Gone | subscription::State::Expired | subscription::State::Stale
                )
            };
            let is_over = meant(state, &update).is_some_and(is_over);
            if !is_over || leaves(state, &update.key, update.at).is_none() {
                return false;
            }
            state.removed.insert(Removed { key: update.key.clone(), at: update.at, reason })
        })
        .await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, PortError> {
        self.effect("count", |state| {
            state.subscriptions.keys().filter(|key| key.tenant == *tenant).count() as u64
        })
        .await
    }

    async fn add_candidate(&self, window: i64, candidate: PruneCandidate, now: i64) -> Result<(), PortError> {
        self.effect("add_candidate", |state| {
            state.open_windows.insert(window, now);
            state.candidates.entry(window).or_default().insert(candidate.key.clone(), candidate.clone());
        })
        .await
    }

    async fn candidates(&self, window: i64) -> Result<Vec<PruneCandidate>, PortError> {
        self.effect("candidates", |state| {
            state.candidates.get(&window).into_iter().flat_map(|all| all.values().cloned()).collect()
        })
        .await
    }

    async fn decide_candidate(&self, window: i64, candidate: &PruneCandidate) -> Result<(), PortError> {
        let decided = PruneCandidate { decided: true, ..candidate.clone() };
        self.effect("decide_candidate", |state| {
            state.candidates.entry(window).or_default().insert(decided.key.clone(), decided.clone());
        })
        .await
    }

    async fn open_windows(&self, before: i64) -> Result<Vec<OpenWindow>, PortError> {
        self.effect("open_windows", |state| {
            let open = state.open_windows.iter().map(|(&number, &added_in)| OpenWindow { number, added_in });
            open.filter(|open| open.number < before && open.added_in < before).collect()
        })
        .await
    }

    async fn close_window(&self, window: OpenWindow) -> Result<(), PortError> {
        self.effect("close_window", |state| {
            if state.open_windows.get(&window.number) == Some(&window.added_in) {
                state.open_windows.remove(&window.number);
            }
        })
        .await
    }
}
