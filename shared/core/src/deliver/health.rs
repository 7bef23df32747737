//! What attempts tell of their receivers' health, and what is kept of it.
//!
//! A webhook's failures are counted on its subscription, all of a batch in one update; the first success forgets them, as it
//! forgets the flag of a push subscription's 404. Counting is best effort: a fault of it holds no message up.

use std::collections::{BTreeMap, BTreeSet};

use super::fate::Fate;
use super::hand_off::{self, HandOff};
use super::inbox::Job;
use crate::channel::Channel;
use crate::identity::SubscriptionKey;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::ports::{Environment, PortError, SubscriptionUpdate, Subscriptions, Telemetry};
use crate::subscription::State;
use crate::time::Timestamp;

/// Counts the failed attempts of webhooks.
pub(super) async fn failed<E: Environment>(env: &E, ready: &[HandOff], now: Timestamp) {
    let mut counted: BTreeMap<SubscriptionKey, (SubscriptionUpdate, u64)> = BTreeMap::new();
    for HandOff { job, plan, facts, .. } in ready {
        if job.channel != Channel::Webhook || !facts.attempted || matches!(plan, Plan::Sent) {
            continue;
        }
        if let Some(update) = update(job, now) {
            counted.entry(update.key.clone()).or_insert((update, 0)).1 += 1;
        }
    }
    if counted.is_empty() {
        return;
    }
    for done in env.subscriptions().failed(counted.into_values().collect()).await {
        if let Err(error) = done {
            env.telemetry().infrastructure(&error);
        }
    }
}

/// Switches off the webhooks whose receivers answered 410; what could not be switched off comes back.
pub(super) async fn switched_off<E: Environment>(
    env: &E,
    ready: Vec<HandOff>,
    now: Timestamp,
    fates: &mut Vec<(usize, Fate)>,
) -> Vec<HandOff> {
    let wanted = ready
        .iter()
        .filter(|it| it.wants_no_more())
        .filter_map(|it| Some((it.job.index, update(&it.job, now)?)))
        .collect();
    let done = switch_off(env, wanted, State::Disabled).await;
    let off: BTreeSet<&SubscriptionKey> =
        done.iter().filter(|(_, _, done)| done.is_ok()).map(|(_, key, _)| key).collect();
    env.telemetry().count(Metric::EndpointsDisabled, off.len() as u64);
    let mut failed = Vec::new();
    for (index, _, done) in done {
        if done.is_err() {
            failed.push(index);
            fates.push((index, hand_off::fate_of(env, done)));
        }
    }
    ready.into_iter().filter(|it| !failed.contains(&it.job.index)).collect()
}

/// Switches these off to `state`, and tells each message what became of its subscription.
pub(super) async fn switch_off<E: Environment>(
    env: &E,
    wanted: Vec<(usize, SubscriptionUpdate)>,
    state: State,
) -> Vec<(usize, SubscriptionKey, Result<(), PortError>)> {
    let Shared { updates, waiting } = Shared::of(wanted);
    if updates.is_empty() {
        return Vec::new();
    }
    let keys: Vec<SubscriptionKey> = updates.iter().map(|update| update.key.clone()).collect();
    let updates = updates.into_iter().map(|update| (update, state)).collect();
    let done = env.subscriptions().switch_off(updates).await;
    waiting.into_iter().map(|(index, place)| (index, keys[place].clone(), done[place].clone())).collect()
}

/// What a success forgets, if there is anything to forget.
pub(super) fn recovery(job: &Job, now: Timestamp) -> Option<SubscriptionUpdate> {
    let is_ailing = job.flagged || job.health.failing_since.is_some();
    update(job, now).filter(|_| is_ailing)
}

/// Forgets flags and failures.
pub(super) async fn recovered<E: Environment>(
    env: &E,
    recovered: Vec<(usize, SubscriptionUpdate)>,
) -> Vec<(usize, Fate)> {
    let Shared { updates, waiting } = Shared::of(recovered);
    if updates.is_empty() {
        return Vec::new();
    }
    let done = env.subscriptions().recovered(updates).await;
    let fate = |(index, place): (usize, usize)| (index, hand_off::fate_of(env, done[place].clone()));
    waiting.into_iter().map(fate).collect()
}

/// Updates that several messages of a batch may want alike: each is made once, for a store takes one statement an item.
struct Shared {
    /// At most one a subscription.
    updates: Vec<SubscriptionUpdate>,
    /// A message's place in its batch, and that of the update that it waits for.
    waiting: Vec<(usize, usize)>,
}

impl Shared {
    fn of(wanted: Vec<(usize, SubscriptionUpdate)>) -> Self {
        let mut shared = Self { updates: Vec::new(), waiting: Vec::with_capacity(wanted.len()) };
        let mut places = BTreeMap::new();
        for (index, update) in wanted {
            let place = *places.entry(update.key.clone()).or_insert_with(|| {
                shared.updates.push(update);
                shared.updates.len() - 1
            });
            shared.waiting.push((index, place));
        }
        shared
    }
}

/// The change of a job's subscription at `at`, if the message names one and it is known where that leads.
pub(super) fn update(job: &Job, at: Timestamp) -> Option<SubscriptionUpdate> {
    let endpoint = job.target.ready()?.endpoint().clone();
    Some(SubscriptionUpdate { key: job.subscription_key()?, endpoint, at })
}
