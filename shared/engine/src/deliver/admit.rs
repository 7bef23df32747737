//! The protection of origins: it is asked before an attempt is claimed, and learns from the outcome.

use std::time::Duration;

use super::job::{Job, Slot};
use super::worker::{Ports, Worker};
use crate::ports::{BreakerEvent, Clock, HoldsBack, Randomness, Telemetry};
use crate::protection::{Admission, Ask, Changes, EndpointLimit, Posted, Seen, Transition};
use redial_core::channel::Channel;
use redial_core::gate::Gate;
use redial_core::lane::Lane;
use redial_core::ledger::HeldBy;
use redial_core::metric::Metric;
use redial_core::outcome::{Attempted, Outcome};
use redial_core::plan::{self, Plan};
use redial_core::protection::patience::{Patience, Posting};
use redial_core::protection::{Circuit, Count, Phase, Rank, Whose};
use redial_core::provider::Provider;
use redial_core::reason::Reason;
use redial_core::time::{Timestamp, Ttl};
use redial_core::verdict::{self, Overrides, Verdict};

/// What may be sent, and what not.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    pub(super) gated: Vec<(Job, Gate)>,
    /// Those whose tenants have as many attempts under way as they may have: they follow the others, or come back then.
    pub(super) seatless: Vec<(Job, Option<Timestamp>)>,
}

impl<P: Ports> Worker<P> {
    /// Asks whether these may be sent now. `may_follow`: whether there is time for some of them after the others.
    pub(super) async fn admit(&self, jobs: Vec<Job>, may_follow: bool) -> Admitted {
        let asks: Vec<Ask> = jobs.iter().map(ask).collect();
        let now = self.system.now();
        let rng = &mut self.system.rng();
        let admitted = self.guard.admit_some(&self.protection, &asks, may_follow, now, rng).await;
        self.report(&admitted.changes).await;
        let mut all = Admitted { gated: Vec::with_capacity(jobs.len()), ..Admitted::default() };
        let admissions = admitted.admissions.into_iter().zip(admitted.patience).zip(admitted.seats);
        for ((mut job, ask), ((admission, patience), seat)) in jobs.into_iter().zip(asks).zip(admissions) {
            job.patience = patience;
            job.seat = seat;
            let gate = match admission {
                Admission::Go { at, probe } => {
                    job.slot = Some(Slot { at, since: now, probe, whose: ask.whose });
                    Gate::Go
                }
                Admission::Later { at } | Admission::LinesUp { or_at: at } => {
                    job.lines_up =
                        self.settings.origin_lines && matches!(admission, Admission::LinesUp { .. });
                    job.held_by = Some(if job.lines_up { HeldBy::Origin } else { HeldBy::Protection });
                    if patience == Patience::InBulk {
                        job.lane = Lane::Bulk;
                    }
                    self.telemetry.count_with(Metric::Deferred, Provider::of_origin(&ask.origin), 1);
                    self.within_hours(&mut job, at)
                }
                Admission::Seatless { at } => {
                    job.held_by = Some(HeldBy::Protection);
                    all.seatless.push((job, at));
                    continue;
                }
                Admission::TooLate => Gate::End(plan::failed(Reason::TtlExceeded, job.policy())),
            };
            all.gated.push((job, gate));
        }
        all
    }

    /// What is held back until `at` waits for its hours if they are over by then. In a line it waits until its origin may be sent to.
    fn within_hours(&self, job: &mut Job, at: Timestamp) -> Gate {
        let opens = job.opening(at, &self.settings);
        if opens == at || job.lines_up {
            return Gate::Later(at);
        }
        job.held_by = Some(HeldBy::Hours);
        if opens < job.deadline.at() { Gate::Later(opens) } else { Gate::End(Plan::Expired) }
    }

    pub(super) async fn learn(&self, seen: Vec<Seen>) {
        let rng = &mut self.system.rng();
        let changes = self.guard.learn(&self.protection, seen, self.system.now(), rng).await;
        self.report(&changes).await;
    }

    async fn report(&self, changes: &Changes) {
        for error in &changes.errors {
            self.telemetry.infrastructure(error);
        }
        for Transition { circuit, from, to, count, is_for_one_tenant } in &changes.transitions {
            let provider = Provider::of_origin(circuit.origin());
            let holds_back = match circuit {
                Circuit::Origin(_) if *is_for_one_tenant => HoldsBack::OneTenant,
                Circuit::Origin(_) => HoldsBack::Everyone,
                Circuit::Recipient(recipient) => HoldsBack::OneRecipient(recipient),
            };
            // One recipient's is nothing that an operator has to be woken for, and neither is a probe that fails: in a long outage that is
            // no news, every few minutes.
            let is_news = matches!(circuit, Circuit::Origin(_)) && !matches!(from, Phase::HalfOpen { .. });
            if is_news && matches!(to, Phase::Open { .. } | Phase::Paused { .. }) {
                self.telemetry.count_with(Metric::BreakersOpened, provider, 1);
            }
            let origin_hash = self.settings.hash_keys.origin(circuit.origin());
            self.telemetry.breaker(&BreakerEvent {
                provider,
                origin_hash: origin_hash.as_str(),
                from: *from,
                to: *to,
                count: *count,
                holds_back,
            });
        }
        self.release_lines(&changes.transitions).await;
    }
}

/// What an attempt shows of its origin. What could not be sent at all shows nothing.
pub(super) fn seen(job: &Job, attempted: &Attempted, verdict: &Verdict) -> Option<Seen> {
    let Attempted { outcome, took } = attempted;
    if matches!(outcome, Outcome::Impossible(_)) {
        return None;
    }
    let is_retry = is_retry(job);
    let (count, retry_after) = of_origin(job.channel, outcome, verdict, is_retry);
    let fails_again = is_retry && matches!(verdict, Verdict::Retry(_));
    let slot = job.slot?;
    Some(Seen {
        origin: job.recipient()?.endpoint().origin(),
        whose: slot.whose,
        tenant: job.message.tenant.clone(),
        address: job.endpoint_hash.clone(),
        count,
        probe: slot.probe,
        retry_after,
        failed_again: fails_again.then(|| job.subscription_key()).flatten(),
        posted: (job.channel == Channel::Webhook).then(|| Posted {
            tenant: job.message.tenant.clone(),
            lane: job.lane,
            took: *took,
            is_answered: outcome.response().is_some(),
        }),
    })
}

/// What an attempt counts as, and what its origin asks for. A policy's lists decide on the message alone: an origin that answers with a 429
/// or a 5xx is limited or failing, whatever a producer makes of it.
fn of_origin(
    channel: Channel,
    outcome: &Outcome,
    verdict: &Verdict,
    is_retry: bool,
) -> (Count, Option<Duration>) {
    let usual = match verdict.reason() {
        Some(Reason::RetryableByPolicy | Reason::PermanentByPolicy) => Some(match channel {
            Channel::WebPush => verdict::web_push(outcome, true, Overrides::default()),
            Channel::Webhook => verdict::webhook(outcome, Overrides::default()),
        }),
        _ => None,
    };
    let of_origin = usual.as_ref().map(|usual| Count::of(usual, is_retry));
    let of_origin = of_origin.filter(|count| count.failures + count.limited > 0);
    let count = of_origin.unwrap_or_else(|| Count::of(verdict, is_retry));
    (count, usual.as_ref().unwrap_or(verdict).retry_after())
}

fn is_retry(job: &Job) -> bool {
    job.travel.turn.attempt.0 > 0
}

fn ask(job: &Job) -> Ask {
    let recipient = job.recipient().expect("the gate lets nothing pass that has no target");
    let is_limited = job.terms.rate.is_some() || is_retry(job);
    let limited = is_limited.then(|| job.subscription_key()).flatten();
    let origin = recipient.endpoint().origin();
    Ask {
        whose: Whose::of(&origin, &job.message.tenant, recipient.endpoint()),
        origin,
        address: job.endpoint_hash.clone(),
        tenant: job.message.tenant.clone(),
        endpoint: limited.map(|subscription| EndpointLimit { subscription, rate: job.terms.rate }),
        rank: Rank::of(&job.message),
        is_retry: is_retry(job),
        is_last: job.policy().is_last(job.travel.turn.attempt),
        deadline: job.deadline,
        posting: (job.channel == Channel::Webhook).then(|| posting(job)),
    }
}

fn posting(job: &Job) -> Posting {
    let (policy, attempt) = (job.policy(), job.travel.turn.attempt);
    Posting {
        lane: job.lane,
        first_sent: job.travel.first_sent,
        is_first: !is_retry(job),
        may_be_repeated: policy.retry_in_doubt && !policy.is_last(attempt),
        is_immediate: job.message.ttl_on(job.channel) == Ttl::ZERO,
    }
}
