//! What attempts show of their receivers' health, and what is kept of it.
//!
//! A webhook's failures are counted on its subscription, all of a batch in one update; the first success forgets them, as it
//! forgets the flag of a push subscription's 404. Counting is best effort: a fault of it holds no message up.
//!
//! A receiver that has failed for days is switched off here, where its failures are counted. Cleanup does so, too, with each dead
//! letter; but behind an open breaker nothing becomes a dead letter, and a policy without retries makes none.

use std::collections::BTreeMap;
use std::time::Duration;

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::dead_letters;
use super::job::Job;
use super::planned::{Gone, Planned};
use super::rarely::rarely;
use super::worker::{Ports, Worker};
use crate::ports::{Outbox, PortError, SubscriptionUpdate, Subscriptions, Telemetry};
use redial_core::channel::Channel;
use redial_core::distinct::distinct;
use redial_core::event::{Event, State as Announced};
use redial_core::identity::SubscriptionKey;
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::queue::Outgoing;
use redial_core::subscription::State;
use redial_core::time::Timestamp;
use redial_core::webhook::Health;

impl<P: Ports> Worker<P> {
    /// Counts the failed attempts of webhooks, and switches off receivers that have failed for too long. That is announced before
    /// anything is handed off: once a retry is on its way, no redelivery of its message would announce it. What could not be
    /// announced comes back.
    pub(super) async fn count_failures(
        &self,
        mut ready: Vec<Planned>,
        now: Timestamp,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Planned> {
        let Self { telemetry, subscriptions, .. } = self;
        let after = self.settings.switched_off_after;
        let failures: Vec<&Planned> = ready.iter().filter(|it| it.is_webhook_failure()).collect();
        let mut counted: BTreeMap<SubscriptionKey, (SubscriptionUpdate, u64)> = BTreeMap::new();
        for update in failures.iter().filter_map(|it| update(&it.job, now)) {
            counted.entry(update.key.clone()).or_insert((update, 0)).1 += 1;
        }
        if !counted.is_empty() {
            let counted = Box::pin(subscriptions.failed(counted.into_values().collect())).await;
            counted.into_iter().filter_map(Result::err).for_each(|error| telemetry.infrastructure(&error));
        }
        let deciding = failures.into_iter().filter(|it| it.decides_on_its_receiver(after, now));
        let given_up = rarely(deciding.collect(), |deciding| self.give_up(deciding, now)).await;
        if !self.outbox.has_events() {
            return ready;
        }
        let announced = self.send(given_up.into_iter().filter_map(announced).collect()).await;
        for (place, sent) in announced {
            if sent != Acknowledgement::Acknowledged {
                ready.retain(|it| it.job.place != place);
                acknowledgements.set(place, sent);
            }
        }
        ready
    }

    /// Switches off the receivers of these. Returns those of these messages whose receivers are off now.
    async fn give_up<'a>(&self, deciding: Vec<&'a Planned>, now: Timestamp) -> Vec<&'a Planned> {
        let Self { telemetry, subscriptions, .. } = self;
        // One that is off already was switched off by a worker that may have died before it announced it.
        let (mut given_up, active): (Vec<&Planned>, Vec<&Planned>) =
            deciding.into_iter().partition(|it| it.job.is_switched_off());
        let mut wanted: BTreeMap<SubscriptionKey, (&Planned, (SubscriptionUpdate, Health))> = BTreeMap::new();
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
        for (message, done) in messages.into_iter().zip(subscriptions.give_up(updates).await) {
            match done {
                Ok(true) => {
                    disabled += 1;
                    given_up.push(message);
                }
                // It has recovered, leads elsewhere, or is off: by another worker, or by a first try whose answer was lost.
                Ok(false) => unsure.extend(message.job.subscription_key().map(|key| (key, message))),
                // The next failure decides.
                Err(error) => telemetry.infrastructure(&error),
            }
        }
        telemetry.count(Metric::EndpointsDisabled, disabled);
        if !unsure.is_empty() {
            let stored = subscriptions.load(unsure.keys().cloned().collect()).await;
            for (message, stored) in unsure.into_values().zip(stored) {
                given_up
                    .extend(stored.ok().flatten().filter(|it| it.state == State::Disabled).map(|_| message));
            }
        }
        given_up
    }

    /// Switches off the webhooks whose receivers answered 410; a message whose receiver could not be switched off comes back.
    pub(super) async fn disable(
        &self,
        mut ready: Vec<Planned>,
        now: Timestamp,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Planned> {
        let wanted = ready
            .iter()
            .filter(|it| it.wants_no_more())
            .filter_map(|it| Some((it.job.place, update(&it.job, now)?)))
            .collect();
        let done = self.switch_off(wanted, State::Disabled).await;
        let off = distinct(done.iter().filter(|(_, _, done)| *done == Ok(true)).map(|(_, key, _)| key));
        self.telemetry.count(Metric::EndpointsDisabled, off.len() as u64);
        for (place, _, done) in done {
            if let Err(error) = done {
                ready.retain(|it| it.job.place != place);
                acknowledgements.failed(place, error, &self.telemetry);
            }
        }
        ready
    }

    /// Switches these off to `state`; returns for each message whether its subscription was, by this call.
    async fn switch_off(
        &self,
        wanted: Vec<(usize, SubscriptionUpdate)>,
        state: State,
    ) -> Vec<(usize, SubscriptionKey, Result<bool, PortError>)> {
        let Shared { updates, waiting } = Shared::of(wanted);
        if updates.is_empty() {
            return Vec::new();
        }
        let keys: Vec<SubscriptionKey> = updates.iter().map(|update| update.key.clone()).collect();
        let updates = updates.into_iter().map(|update| (update, state)).collect();
        let done = Box::pin(self.subscriptions.switch_off(updates)).await;
        waiting.into_iter().map(|(place, at)| (place, keys[at].clone(), done[at].clone())).collect()
    }

    pub(super) async fn recover(&self, recovered: Vec<(usize, SubscriptionUpdate)>) -> Acknowledgements {
        let Shared { updates, waiting } = Shared::of(recovered);
        if updates.is_empty() {
            return Acknowledgements::default();
        }
        let done = self.subscriptions.recovered(updates).await;
        waiting
            .into_iter()
            .map(|(place, at)| (place, Acknowledgement::of(done[at].clone(), &self.telemetry)))
            .collect()
    }

    /// Hands off endpoints that are gone, each with whether that is confirmed: a 410 switches the subscription off before its message is
    /// acknowledged, and a 404 is left to cleanup to confirm. Both send a reference without a body.
    pub(super) async fn hand_off_gone(&self, mut gone: Vec<Gone>, now: Timestamp) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        let confirmed = gone.iter().filter(|it| it.confirmed);
        let updates = confirmed.filter_map(|it| Some((it.job.place, update(&it.job, now)?))).collect();
        for (place, _, done) in self.switch_off(updates, State::Gone).await {
            if let Err(error) = done {
                acknowledgements.failed(place, error, &self.telemetry);
                gone.retain(|it| it.job.place != place);
            }
        }
        let reference = |it: &Gone| {
            (it.job.place, dead_letters::reference_to_gone(&it.job, it.confirmed, &it.facts, it.at))
        };
        acknowledgements.extend(self.send(gone.iter().map(reference).collect()).await);
        acknowledgements
    }
}

fn announced(it: &Planned) -> Option<(usize, Outgoing)> {
    let key = it.job.subscription_key()?;
    Some((it.job.place, Event::of_subscription(&key, Announced::Disabled, None, it.at).outgoing()))
}

impl Planned {
    fn is_webhook_failure(&self) -> bool {
        let Self { job, plan, facts, .. } = self;
        job.channel == Channel::Webhook && facts.attempted && !matches!(plan, Plan::Sent)
    }

    /// Whether this failure decides that its receiver is switched off. A receiver that is seldom sent to may have failed a message last
    /// week and now another's first attempt: that message's retries are still to come, and may succeed.
    fn decides_on_its_receiver(&self, after: Duration, now: Timestamp) -> bool {
        let Self { job, plan, .. } = self;
        if self.wants_no_more() || !job.health.is_given_up(now, after) {
            return false;
        }
        match plan {
            Plan::FailedNoRetries(_) => true,
            // While a breaker is open nothing but probes is attempted, and nothing becomes a dead letter.
            Plan::Retry { .. } => {
                let is_probe = job.slot.is_some_and(|slot| slot.probe.is_some());
                is_probe || tried_for(job, now) >= after || job.is_switched_off()
            }
            // Cleanup decides, when it gets the dead letter.
            Plan::DeadLetter(_) => false,
            Plan::Sent
            | Plan::Gone { .. }
            | Plan::Expired
            | Plan::Cancelled
            | Plan::Expand
            | Plan::Defer { .. } => false,
        }
    }
}

/// How long ago its first attempt could be made, if this is not the first.
fn tried_for(job: &Job, now: Timestamp) -> Duration {
    let begin = job.travel.first_sent.max(job.message.deliver_at.unwrap_or_default());
    if job.travel.turn.attempt.0 > 0 { now.since(begin) } else { Duration::ZERO }
}

/// What a success forgets, if there is anything to forget.
pub(super) fn recovery(job: &Job, now: Timestamp) -> Option<SubscriptionUpdate> {
    let is_failing = job.flagged || job.health.failing_since.is_some();
    update(job, now).filter(|_| is_failing)
}

/// Updates that several messages of a batch may want alike: each is made once, because a store takes one statement an item.
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
        for (place, update) in wanted {
            let at = *places.entry(update.key.clone()).or_insert_with(|| {
                shared.updates.push(update);
                shared.updates.len() - 1
            });
            shared.waiting.push((place, at));
        }
        shared
    }
}

/// The change of a job's subscription at `at`, if the message names one and it is known where that leads.
pub(super) fn update(job: &Job, at: Timestamp) -> Option<SubscriptionUpdate> {
    let endpoint = job.recipient()?.endpoint().clone();
    Some(SubscriptionUpdate { key: job.subscription_key()?, endpoint, at })
}
