//! Claiming attempts: what each answer of the ledger leaves to do.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::job::Job;
use super::planned::Planned;
use super::rarely::rarely;
use super::record;
use super::suspects;
use super::worker::{Invocation, Ports, Settings, Worker};
use crate::ports::{Claim, ClaimAnswer, Clock, Ledger, PortError, Settlement, Telemetry};
use redial_core::ledger::{Ask, Record, State};
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;

/// What there is to do after the claims.
#[derive(Default)]
pub(super) struct Claimed {
    /// To be attempted; and whether an earlier attempt may have arrived.
    pub(super) admitted: Vec<(Job, bool)>,
    /// Ended without an attempt, or recorded before: to be handed off.
    pub(super) ready: Vec<Planned>,
    /// Their ids were used for another content.
    pub(super) conflicts: Vec<Job>,
}

impl<P: Ports> Worker<P> {
    /// Claims the attempts of these, or the ends of those that end without one.
    pub(super) async fn claim(
        &self,
        invocation: &Invocation,
        wanted: Vec<(Job, Option<Plan>)>,
        acknowledgements: &mut Acknowledgements,
    ) -> Claimed {
        let Self { settings, telemetry, ledger, .. } = self;
        let now = self.system.now();
        let mut claimed = Claimed { admitted: Vec::with_capacity(wanted.len()), ..Claimed::default() };
        if wanted.is_empty() {
            return claimed;
        }
        let mut unanswered = Vec::new();
        let claims = wanted.iter().map(|(job, end)| claim_of(job, *end, settings, invocation)).collect();
        let mut unused_probes = Vec::new();
        for ((job, end), answer) in wanted.into_iter().zip(ledger.claim(claims, now).await) {
            if is_over(&answer, end) {
                unused_probes.extend(suspects::probe_of(&job, now));
            }
            match answer {
                Ok(ClaimAnswer::Granted { in_doubt, at }) => match end {
                    None => claimed.admitted.push((job, in_doubt)),
                    Some(plan) => {
                        self.count(&plan, job.lane);
                        claimed.ready.push(Planned::without_attempt(job, plan, in_doubt, at));
                    }
                },
                Ok(ClaimAnswer::HandOffAgain(entry)) => {
                    claimed.ready.push(Planned::again(job, &entry, &settings.hash_keys));
                }
                Ok(ClaimAnswer::Leased { until }) => {
                    acknowledgements.comes_back(job.place, Setback::Leased { until });
                }
                Ok(ClaimAnswer::Done) => {
                    telemetry.count(Metric::DuplicatesDropped, 1);
                    acknowledgements.set(job.place, Acknowledgement::AcknowledgedAlone);
                }
                Ok(ClaimAnswer::Conflict) => claimed.conflicts.push(job),
                Err(error) => {
                    telemetry.infrastructure(&error);
                    let setback = match end {
                        Some(_) => Setback::Infrastructure,
                        None => {
                            // What was throttled was not written.
                            if !error.throttled {
                                unanswered.push(record::given_back(&job, &invocation.lease_token, now));
                            }
                            gives_back(&job, invocation, now)
                        }
                    };
                    acknowledgements.comes_back(job.place, setback);
                }
            }
        }
        rarely(unanswered, |records| self.give_back(records)).await;
        rarely(unused_probes, |unused| self.forget_probes(unused)).await;
        claimed
    }

    /// Gives back claims that were not answered: they may have been written, and left so they would be leased, and then seem to be attempts in
    /// doubt. Where this fails, too, what is sent again says that nothing was attempted.
    async fn give_back(&self, unanswered: Vec<Record>) {
        for error in self.ledger.record_carried(unanswered).await.into_iter().filter_map(Result::err) {
            self.telemetry.infrastructure(&error);
        }
    }
}

/// Whether nothing will be sent after this answer, by any worker. One that is leased may have been sent as the probe that it was let
/// through as.
const fn is_over(answer: &Result<ClaimAnswer, PortError>, end: Option<Plan>) -> bool {
    match answer {
        Ok(ClaimAnswer::Granted { .. }) => end.is_some(),
        Ok(ClaimAnswer::HandOffAgain(_) | ClaimAnswer::Done | ClaimAnswer::Conflict) => true,
        Ok(ClaimAnswer::Leased { .. }) | Err(_) => false,
    }
}

/// Gives this invocation's claim back, by the message.
pub(super) fn gives_back(job: &Job, invocation: &Invocation, now: Timestamp) -> Setback {
    let given_back = record::given_back(job, &invocation.lease_token, now);
    Setback::unrecorded(given_back, job.endpoint_hash.as_ref())
}

pub(super) fn claim_of(job: &Job, end: Option<Plan>, settings: &Settings, invocation: &Invocation) -> Claim {
    let ask = Ask {
        state: end.map_or(State::Sending, |plan| plan.state()),
        key: job.message.key(),
        turn: job.travel.turn,
        lease_token: invocation.lease_token.clone(),
        lease_until: invocation.deadline.plus(settings.lease_margin),
        source_message: job.source_message.clone(),
        fingerprint: job.fingerprint.clone(),
        id_source: job.message.id_source,
    };
    Claim {
        ask,
        endpoint_hash: job.endpoint_hash.clone(),
        channel: job.channel,
        subscription: job.message.to.subscription().cloned(),
        given: job.message.given(Some(job.channel)),
        place: Some(job.claim_place()),
        kept_until: job.kept_until(),
        settlement: end.map(|plan| Settlement { state: plan.state(), reason: plan.reason() }),
    }
}
