//! Noting and logging what is held back, so that it can be found while it waits. Where the note cannot be written, the message goes on
//! anyway.
//!
//! What may not be noted may be a copy of a delivery that has gone on without it. Such a copy does not wait: it would be sent on at each
//! hop, and become more with each acknowledgement that is lost, for as long as the gate holds. What stays in its queue for the moment is
//! neither noted nor judged.

use std::collections::BTreeSet;

use super::acknowledgements::Acknowledgements;
use super::claim::claim_of;
use super::job::Job;
use super::planned::Planned;
use super::rarely::rarely;
use super::worker::{Invocation, Ports, Worker};
use crate::ports::{Clock, HeldEvent, Ledger, Telemetry};
use redial_core::ledger::hold::Hold;
use redial_core::ledger::{Entry, HeldBy, judge};
use redial_core::protection::patience::Patience;
use redial_core::route::{Route, route};
use redial_core::setback::{SENT_AGAIN_FROM, Setback};
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Notes why these wait and until when, and hands them off. What the ledger says is over is claimed instead, which makes no attempt.
    pub(super) async fn hold_back(&self, invocation: &Invocation, later: Vec<Planned>) -> Acknowledgements {
        let now = self.system.now();
        let mut all = Acknowledgements::default();
        let mut keys = BTreeSet::new();
        let (mut holds, mut noted, mut waiting, mut over) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for planned in later {
            let stays = planned.plan.not_before().filter(|until| self.stays(&planned.job, *until, now));
            // A message takes the place of this one, by its plan or after many receives.
            let is_sent = stays.is_none() || planned.job.receives >= SENT_AGAIN_FROM;
            match hold_of(&planned).filter(|hold| is_sent && keys.insert(hold.key.clone())) {
                Some(hold) => {
                    noted.push((planned, stays, hold.by, hold.until));
                    holds.push(hold);
                }
                None => waiting.push((planned, stays)),
            }
        }
        if !holds.is_empty() {
            let stored = self.ledger.hold(holds, now).await;
            for ((planned, stays, by, until), stored) in noted.into_iter().zip(stored) {
                match stored {
                    Ok(Some(entry)) if self.is_over(invocation, &planned.job, &entry, now) => {
                        over.push(planned.job);
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => self.telemetry.infrastructure(&error),
                }
                self.log_hold(&planned.job, by, until);
                waiting.push((planned, stays));
            }
        }
        let mut sent_on = Vec::new();
        for (planned, stays) in waiting {
            match stays {
                Some(until) => all.comes_back(planned.job.place, Setback::HeldBack { until }),
                None => sent_on.push(planned),
            }
        }
        let (sent_on, over) = futures_util::join!(
            self.hand_off(sent_on),
            rarely(over, |over| self.claim_over(invocation, over)),
        );
        all.extend(sent_on.alone());
        all.extend(over);
        all
    }

    /// Whether this waits by its visibility. An earlier receive may have sent it on, and its acknowledgement was lost: copies that are sent on
    /// again multiply. Those that are parked do not, and none goes on to the bulk lane twice.
    fn stays(&self, job: &Job, until: Timestamp, now: Timestamp) -> bool {
        job.receives > 1
            && !job.lines_up
            && job.patience != Patience::InBulk
            && matches!(route(job.lane, until, now, &self.settings.waits), Route::Queue(_))
    }

    /// Whether a claim of this attempt would not be granted, now or later.
    fn is_over(&self, invocation: &Invocation, job: &Job, entry: &Entry, now: Timestamp) -> bool {
        judge(entry, &claim_of(job, None, &self.settings, invocation).ask, now).is_over()
    }

    fn log_hold(&self, job: &Job, by: HeldBy, until: Timestamp) {
        self.telemetry.held_back(&HeldEvent {
            correlation_id: &job.message.id,
            endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str()),
            tenant: &job.message.tenant,
            tags: job.message.tags.to_text().as_deref(),
            channel: job.channel.label(),
            provider: job.provider().label(),
            attempt: job.travel.turn.attempt.0,
            by,
            until,
        });
    }
}

/// What is to be noted; nothing where the ledger says it already.
fn hold_of(planned: &Planned) -> Option<Hold> {
    let Planned { job, plan, .. } = planned;
    let until = plan.not_before()?;
    Some(Hold {
        by: job.held_by.or_else(|| by_the_clock(job, until))?,
        key: job.message.key(),
        turn: job.travel.turn,
        until,
        fingerprint: job.fingerprint.clone(),
        id_source: job.message.id_source,
        source_message: job.source_message.clone(),
        channel: job.channel,
        endpoint_hash: job.endpoint_hash.clone(),
        subscription: job.message.to.subscription().cloned(),
        given: job.message.given(Some(job.channel)),
        kept_until: job.kept_until(),
    })
}

/// What a message asks to wait for itself. One that comes back early waits on, and was noted when it came first.
fn by_the_clock(job: &Job, until: Timestamp) -> Option<HeldBy> {
    if job.travel.not_before == Some(until) {
        return None;
    }
    let is_its_time = job.message.deliver_at == Some(until);
    let has_hours = job.message.deliver_between.is_some().then_some(HeldBy::Hours);
    if is_its_time { Some(HeldBy::Schedule) } else { has_hours }
}
