//! What attempts tell of their receivers' health, and what is kept of it.
//!
//! A webhook's failures are counted on its subscription, all of a batch in one update; the first success forgets them, as it
//! forgets the flag of a push subscription's 404. Counting is best effort: a fault of it holds no message up.
//!
//! A receiver that has failed for days is given up here, where its failures are counted. Cleanup asks, too, with each dead
//! letter; but behind an open breaker nothing becomes a dead letter, and a policy without retries makes none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Settings;
use super::fate::Fate;
use super::hand_off::{self, HandOff};
use super::inbox::{Job, Target};
use crate::ports::{Environment, Outbox, PortError, SubscriptionUpdate, Subscriptions, Telemetry};
use redial_core::channel::Channel;
use redial_core::event::{Event, State as Announced};
use redial_core::identity::SubscriptionKey;
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::Health;

/// Counts the failed attempts of webhooks, and gives up receivers that have failed for too long. That is announced before
/// anything is handed off: once a retry is on its way, no redelivery of its message would announce it. What could not be
/// announced comes back.
pub(super) async fn failed<E: Environment>(
    env: &E,
    settings: &Settings,
    ready: Vec<HandOff>,
    now: Timestamp,
    fates: &mut Vec<(usize, Fate)>,
) -> Vec<HandOff> {
    let failures: Vec<&HandOff> = ready.iter().filter(|it| it.is_webhook_failure()).collect();
    let mut counted: BTreeMap<SubscriptionKey, (SubscriptionUpdate, u64)> = BTreeMap::new();
    for update in failures.iter().filter_map(|it| update(&it.job, now)) {
        counted.entry(update.key.clone()).or_insert((update, 0)).1 += 1;
    }
    if !counted.is_empty() {
        for done in env.subscriptions().failed(counted.into_values().collect()).await {
            if let Err(error) = done {
                env.telemetry().infrastructure(&error);
            }
        }
    }
    let deciding = failures.into_iter().filter(|it| it.decides_on_its_receiver(settings, now)).collect();
    let given_up = give_up(env, deciding, now).await;
    if !env.outbox().has_events() {
        return ready;
    }
    let sent = hand_off::send(env, given_up.into_iter().filter_map(announced).collect()).await;
    let unsent: Vec<_> = sent.into_iter().filter(|(_, fate)| *fate != Fate::Acknowledged).collect();
    let goes_on = |it: &HandOff| !unsent.iter().any(|(index, _)| *index == it.job.index);
    let ready = ready.into_iter().filter(goes_on).collect();
    fates.extend(unsent);
    ready
}

/// Gives up the receivers of these. Returns those of these messages whose receivers are off now.
async fn give_up<'a, E: Environment>(
    env: &E,
    deciding: Vec<&'a HandOff>,
    now: Timestamp,
) -> Vec<&'a HandOff> {
    // One that is off already was given up by a worker that may have died before it announced it.
    let (mut given_up, active): (Vec<&HandOff>, Vec<&HandOff>) =
        deciding.into_iter().partition(|it| it.job.is_switched_off());
    let mut wanted: BTreeMap<SubscriptionKey, (&HandOff, (SubscriptionUpdate, Health))> = BTreeMap::new();
    for it in active {
        if let Some(update) = update(&it.job, now) {
            wanted.entry(update.key.clone()).or_insert((it, (update, it.job.health)));
        }
    }
    if wanted.is_empty() {
        return given_up;
    }
    let (messages, updates): (Vec<_>, Vec<_>) = wanted.into_values().unzip();
    let mut disabled = 0;
    let mut unsure = BTreeMap::new();
    for (message, done) in messages.into_iter().zip(env.subscriptions().give_up(updates).await) {
        match done {
            Ok(true) => {
                disabled += 1;
                given_up.push(message);
            }
            // It has recovered, leads elsewhere, or is off: by another worker, or by a first try whose answer was lost.
            Ok(false) => {
                unsure.extend(message.job.subscription_key().map(|key| (key, message)));
            }
            // The next failure decides.
            Err(error) => env.telemetry().infrastructure(&error),
        }
    }
    env.telemetry().count(Metric::EndpointsDisabled, disabled);
    if !unsure.is_empty() {
        let stored = env.subscriptions().load(unsure.keys().cloned().collect()).await;
        let is_off = |stored: &Result<Option<Subscription>, PortError>| matches!(stored, Ok(Some(it)) if it.state == State::Disabled);
        let off = unsure.into_values().zip(stored).filter(|(_, stored)| is_off(stored));
        given_up.extend(off.map(|(message, _)| message));
    }
    given_up
}

fn announced(it: &HandOff) -> Option<(usize, Outgoing)> {
    let key = it.job.subscription_key()?;
    Some((it.job.index, Event::of_subscription(&key, Announced::Disabled, None, it.at).outgoing()))
}

impl HandOff {
    fn is_webhook_failure(&self) -> bool {
        let Self { job, plan, facts, .. } = self;
        job.channel == Channel::Webhook && facts.attempted && !matches!(plan, Plan::Sent)
    }

    /// Whether this failure decides that its receiver is given up. A receiver that is seldom sent to may have failed a message last
    /// week and now another's first attempt: that message's retries are still to come, and may succeed.
    fn decides_on_its_receiver(&self, settings: &Settings, now: Timestamp) -> bool {
        let Self { job, plan, .. } = self;
        let after = settings.switched_off_after;
        if self.wants_no_more() || !job.health.is_given_up(now, after) {
            return false;
        }
        match plan {
            Plan::FailedNoRetries(_) => true,
            // While a breaker is open nothing but probes is attempted, and nothing becomes a dead letter.
            Plan::Retry { .. } => {
                let is_probe = job.slot.is_some_and(|slot| slot.probe);
                is_probe || job.tried_for(now) >= after || job.is_switched_off()
            }
            // Cleanup decides, when it gets the dead letter.
            Plan::DeadLetter(_) => false,
            Plan::Sent | Plan::Gone { .. } | Plan::Expired | Plan::Expand | Plan::Defer { .. } => false,
        }
    }
}

impl Job {
    fn is_switched_off(&self) -> bool {
        self.target == Target::Nowhere(Reason::EndpointDisabled)
    }

    /// How long ago its first attempt could be made, if this is not the first.
    fn tried_for(&self, now: Timestamp) -> Duration {
        let begin = self.travel.first_sent.max(self.message.deliver_at.unwrap_or_default());
        if self.travel.turn.attempt.0 > 0 { now.since(begin) } else { Duration::ZERO }
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
