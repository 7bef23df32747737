//! Suspect subscriptions: which of their messages are held, what shows that one works again, and which failures are shared.
//!
//! Where the stack holds them, a first attempt to a suspect subscription ends as a dead letter, but for one message every few hours. That
//! probe is written to the subscription with its delivery, so that the same message is let through when it comes back. Retries go on: they
//! are few, and those of a probe belong to it.

use std::collections::BTreeMap;

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::attempt::Finished;
use super::health;
use super::job::Job;
use super::planned::Planned;
use super::worker::{Ports, Worker};
use crate::ports::{Outbox, PortError, SubscriptionUpdate, Subscriptions, Telemetry};
use crate::protection::ProbeOf;
use redial_core::event::{Event, State as Announced};
use redial_core::gate::Gate;
use redial_core::identity::SubscriptionKey;
use redial_core::plan::Plan;
use redial_core::reason::Reason;
use redial_core::setback::Setback;
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{Doubts, Suspects};
use redial_core::time::Timestamp;

/// The probe that a job became in this pass.
pub(super) fn probe_of(job: &Job, now: Timestamp) -> Option<(SubscriptionUpdate, Probe)> {
    let at = job.probed_at?;
    Some((health::update(job, now)?, Probe { delivery: job.message.id.clone(), at }))
}

impl<P: Ports> Worker<P> {
    /// Holds the messages to suspect subscriptions, but for their probes. `doubts`: those of a job's subscription. Those whose probe could
    /// not be written come back.
    pub(super) async fn hold_suspects<'d>(
        &self,
        jobs: &mut Vec<Job>,
        doubts: impl Fn(&SubscriptionKey) -> Option<&'d Doubts>,
        now: Timestamp,
        acknowledgements: &mut Acknowledgements,
    ) {
        if self.settings.suspects == Suspects::Send {
            return;
        }
        let mut probes: BTreeMap<SubscriptionKey, (usize, SubscriptionUpdate)> = BTreeMap::new();
        for job in jobs.iter_mut() {
            let is_first = job.travel.turn.attempt.0 == 0;
            if !job.is_suspect || !is_first || job.gate(&self.settings, now) != Gate::Go {
                continue;
            }
            let Some(update) = health::update(job, now) else { continue };
            let doubts = doubts(&update.key);
            if doubts.is_some_and(|doubts| doubts.is_probed_by(&job.message.id)) {
                continue;
            }
            let is_due = doubts.is_none_or(|doubts| doubts.is_probe_due(self.settings.probed_every, now));
            if is_due && !probes.contains_key(&update.key) {
                probes.insert(update.key.clone(), (job.place, update));
            } else {
                job.target = Err(Reason::SubscriptionSuspect);
            }
        }
        if probes.is_empty() {
            return;
        }
        let (places, updates): (Vec<_>, Vec<_>) = probes.into_values().unzip();
        let before = now.minus(self.settings.probed_every);
        let delivery = |place: usize| {
            let job = jobs.iter().find(|job| job.place == place);
            job.expect("invariant: the place is a job's").message.id.clone()
        };
        let wanted = updates.into_iter().zip(&places).map(|(update, place)| {
            let probe = Probe { delivery: delivery(*place), at: now };
            (update, probe, before)
        });
        let wanted = wanted.collect();
        let answers: Vec<Result<bool, PortError>> = Box::pin(self.subscriptions.probe(wanted)).await;
        for (place, answer) in places.into_iter().zip(answers) {
            match answer {
                Ok(true) => {
                    let job = jobs.iter_mut().find(|job| job.place == place);
                    job.expect("invariant: the place is a job's").probed_at = Some(now);
                }
                // Another worker's message is the probe, or it is not suspect any more: the next receive shows which.
                Ok(false) => {
                    jobs.retain(|job| job.place != place);
                    acknowledgements.comes_back(place, Setback::NotAdmitted);
                }
                Err(error) => {
                    jobs.retain(|job| job.place != place);
                    acknowledgements.failed(place, error, &self.telemetry);
                }
            }
        }
    }

    /// Lets others be the probes of suspect subscriptions in the place of these, which this pass let through and will not send: they are over
    /// already. Otherwise all others would be held until the next probe is due, and nothing would have been found out.
    pub(super) async fn forget_probes(&self, over: Vec<(SubscriptionUpdate, Probe)>) {
        for error in self.subscriptions.forget_probes(over).await.into_iter().filter_map(Result::err) {
            self.telemetry.infrastructure(&error);
        }
    }

    /// Announces the suspect subscriptions that were sent to. That is before they are verified, so that a message that comes back announces
    /// them again. What could not be announced comes back.
    pub(super) async fn announce_verified(
        &self,
        mut ready: Vec<Planned>,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Planned> {
        let verified = |it: &&Planned| it.job.is_suspect && it.plan == Plan::Sent;
        if !self.outbox.has_events() || !ready.iter().any(|it| verified(&it)) {
            return ready;
        }
        let events = ready.iter().filter(verified).filter_map(|it| {
            let key = it.job.subscription_key().filter(|_| it.job.recipient().is_some())?;
            Some((it.job.place, Event::of_subscription(&key, Announced::Verified, None, it.at).outgoing()))
        });
        let events = events.collect();
        for (place, sent) in Box::pin(self.send(events)).await {
            if sent != Acknowledgement::Acknowledged {
                ready.retain(|it| it.job.place != place);
                acknowledgements.set(place, sent);
            }
        }
        ready
    }

    /// Remembers how these pushes fared.
    pub(super) fn note_peers(&self, wave: &[Finished], now: Timestamp) {
        // What is gone says nothing of the others.
        let pushes =
            wave.iter().filter(|it| it.seen.is_some()).filter_map(|Finished { job, made, .. }| {
                let (plan, _) = made.as_ref().ok().filter(|(plan, _)| !matches!(plan, Plan::Gone { .. }))?;
                Some((job.peer()?, *plan == Plan::Sent))
            });
        self.guard.note_peers(pushes, now);
    }

    /// Whether a failure of this one is everybody's, and says nothing about its subscription.
    pub(super) fn is_shared_failure(&self, job: &Job, now: Timestamp) -> bool {
        let is_probe = job.slot.is_some_and(|slot| slot.probe == Some(ProbeOf::Origin));
        is_probe || job.peer().is_some_and(|peer| self.guard.fail_alike(peer, now))
    }
}
