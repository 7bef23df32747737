//! Claiming attempts: what each answer of the ledger leaves to do.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::job::Job;
use super::planned::Planned;
use super::record;
use super::worker::{Invocation, Ports, Settings, Worker};
use crate::ports::{Claim, ClaimAnswer, Clock, Ledger, Settlement, Telemetry};
use redial_core::ledger::{Ask, State};
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
        for ((job, end), answer) in wanted.into_iter().zip(ledger.claim(claims, now).await) {
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
                            unanswered.push(record::given_back(&job, &invocation.lease_token, now));
                            gives_back(&job, invocation, now)
                        }
                    };
                    acknowledgements.comes_back(job.place, setback);
                }
            }
        }
        if !unanswered.is_empty() {
            // These claims may have been written: left so, they would be leased, and then seem to be attempts in doubt. If this fails, too, what
            // is sent again says that nothing was attempted.
            for error in ledger.record_carried(unanswered).await.into_iter().filter_map(Result::err) {
                telemetry.infrastructure(&error);
            }
        }
        claimed
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
