//! Recording the outcomes of attempts under their fences: of a wave that was just made, and of what messages carry.
//!
//! A message that was sent again may carry an outcome of an earlier receive. Where its fence holds, the outcome is handed off and its
//! attempt is never made again, and a claim that was never used is given back. Where it is lost, another worker has gone on with the
//! delivery, and the ledger says what is left to do.

use super::acknowledgements::Acknowledgements;
use super::attempt::Finished;
use super::job::Job;
use super::planned::Planned;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, Ledger, Telemetry};
use redial_core::lane::Lane;
use redial_core::ledger::{Fence, Record, State, Unrecorded};
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Records a wave of finished attempts; returns those to hand off, whose records were ours to write.
    pub(super) async fn record(
        &self,
        lease_token: &str,
        wave: Vec<Finished>,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Planned> {
        let now = self.system.now();
        let records = wave.iter().map(|finished| record_of(finished, lease_token, now)).collect();
        let mut ready = Vec::with_capacity(wave.len());
        for (finished, fence) in wave.into_iter().zip(self.ledger.record(records).await) {
            if let Err(error) = &fence {
                self.telemetry.infrastructure(error);
            }
            let Finished { job, made, .. } = &finished;
            let setback = match (fence, made) {
                (Ok(Fence::Held), Ok((plan, facts))) => {
                    self.count(plan, job.lane);
                    let (plan, facts) = (*plan, facts.clone());
                    ready.push(Planned { job: finished.job, plan, facts, at: now });
                    continue;
                }
                (Ok(Fence::Held), Err(setback)) => setback.clone(),
                (_, Err(Setback::Panicked)) => Setback::Panicked,
                // Another worker owns the attempt. The message is not acknowledged: it may be the very one that the
                // other worker holds, and that worker's hand-off is not yet made.
                (Ok(Fence::Lost), _) => Setback::Infrastructure,
                (Err(_), _) => {
                    Setback::unrecorded(record_of(&finished, lease_token, now), job.endpoint_hash.as_ref())
                }
            };
            acknowledgements.comes_back(finished.job.place, setback);
        }
        ready
    }

    /// Records what these messages carry. Returns the jobs that go on to the gates, and those whose attempts were made: they are handed off.
    pub(super) async fn record_carried(
        &self,
        jobs: Vec<Job>,
        acknowledgements: &mut Acknowledgements,
    ) -> (Vec<Job>, Vec<Planned>) {
        let mut going = Vec::with_capacity(jobs.len());
        let mut carrying: Vec<(Job, Unrecorded)> = Vec::new();
        for mut job in jobs {
            match job.travel.unrecorded.take() {
                Some(unrecorded) => carrying.push((job, *unrecorded)),
                None => going.push(job),
            }
        }
        let mut ready = Vec::new();
        if carrying.is_empty() {
            return (going, ready);
        }
        let records = carrying.iter().map(|(_, unrecorded)| unrecorded.record.clone()).collect();
        for ((job, unrecorded), fence) in
            carrying.into_iter().zip(Box::pin(self.ledger.record_carried(records)).await)
        {
            match fence {
                Ok(Fence::Held) if unrecorded.has_an_outcome() => {
                    let planned = Planned::of_unrecorded(job, unrecorded, &self.settings.hash_keys);
                    self.count(&planned.plan, planned.job.lane);
                    ready.push(planned);
                }
                Ok(Fence::Held | Fence::Lost) => going.push(job),
                Err(error) => acknowledgements.failed(job.place, error, &self.telemetry),
            }
        }
        (going, ready)
    }

    /// Counts what a plan makes of a delivery.
    pub(super) fn count(&self, plan: &Plan, lane: Lane) {
        let telemetry = &self.telemetry;
        match plan {
            Plan::Sent => telemetry.count_on(Metric::Sent, lane, 1),
            Plan::FailedNoRetries(_) => telemetry.count_on(Metric::FailedNoRetries, lane, 1),
            Plan::Gone { .. } => telemetry.count(Metric::Gone, 1),
            Plan::Expired => telemetry.count(Metric::Expired, 1),
            Plan::Retry { .. } => telemetry.count(Metric::Retried, 1),
            Plan::Defer { .. } => telemetry.count(Metric::Deferred, 1),
            // Counted by reason, or by recipients, where it is handed off.
            Plan::DeadLetter(_) | Plan::Expand | Plan::Cancelled => {}
        }
    }
}

pub(super) fn record_of(Finished { job, made, .. }: &Finished, lease_token: &str, now: Timestamp) -> Record {
    let given_back = given_back(job, lease_token, now);
    match made {
        Ok((plan, facts)) => Record {
            state: plan.state(),
            status: facts.status,
            verdict: facts.verdict,
            reason: plan.reason(),
            not_sent: facts.not_sent,
            provider_word: facts.provider_word.clone(),
            headers: facts.headers.clone(),
            not_before: plan.not_before(),
            in_doubt: facts.in_doubt,
            ..given_back
        },
        // It may have panicked before or after the POST.
        Err(setback) => Record { in_doubt: *setback == Setback::Panicked, ..given_back },
    }
}

/// A claim that is given back: nothing was attempted, or nothing that can have arrived. Whether an earlier attempt is in doubt stays
/// as it is.
pub(super) fn given_back(job: &Job, lease_token: &str, now: Timestamp) -> Record {
    Record {
        key: job.message.key(),
        turn: job.travel.turn,
        lease_token: lease_token.to_owned(),
        place: Some(job.claim_place()),
        state: State::Queued,
        status: None,
        verdict: None,
        reason: None,
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: None,
        in_doubt: false,
        kept_until: job.kept_until(),
        now,
    }
}
