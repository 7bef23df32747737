//! What protects the origins, asked before an attempt is claimed, and told what it saw.

use super::Settings;
use super::gate::Gate;
use super::inbox::{Job, Slot};
use crate::ports::{BreakerEvent, Clock, Environment, Randomness, Telemetry};
use crate::protection::{Admission, Ask, EndpointLimit, Seen, Told, Transition};
use redial_core::metric::Metric;
use redial_core::outcome::Outcome;
use redial_core::plan;
use redial_core::protection::{Count, Phase, Rank};
use redial_core::provider::Provider;
use redial_core::reason::Reason;
use redial_core::verdict::{Retry, Verdict};

/// Asks whether these may be sent now.
pub(super) async fn admit<E: Environment>(env: &E, settings: &Settings, jobs: Vec<Job>) -> Vec<(Job, Gate)> {
    let asks: Vec<Ask> = jobs.iter().map(ask).collect();
    let now = env.clock().now();
    let admitted = env.guard().admit(env.protection(), &asks, now, &mut env.randomness().rng()).await;
    tell(env, settings, &admitted.told);
    let mut answers = Vec::with_capacity(jobs.len());
    for ((mut job, ask), admission) in jobs.into_iter().zip(asks).zip(admitted.admissions) {
        let gate = match admission {
            Admission::Go { at, probe } => {
                job.slot = Some(Slot { at, probe });
                Gate::Go
            }
            Admission::Later { at, .. } => {
                env.telemetry().count_with(Metric::Deferred, Provider::of_origin(&ask.origin), 1);
                Gate::Later(at)
            }
            Admission::TooLate { .. } => Gate::End(plan::failed(Reason::TtlExceeded, job.policy())),
        };
        answers.push((job, gate));
    }
    answers
}

/// Tells what attempts saw.
pub(super) async fn learn<E: Environment>(env: &E, settings: &Settings, seen: Vec<Seen>) {
    let now = env.clock().now();
    let told = env.guard().learn(env.protection(), seen, now, &mut env.randomness().rng()).await;
    tell(env, settings, &told);
}

/// What an attempt tells of its origin. What could not be sent at all tells nothing.
pub(super) fn seen(job: &Job, outcome: &Outcome, verdict: &Verdict) -> Option<Seen> {
    if matches!(outcome, Outcome::Impossible(_)) {
        return None;
    }
    let retry_after = match verdict {
        Verdict::Retry(Retry { retry_after, .. }) => *retry_after,
        Verdict::Sent | Verdict::SignAgain | Verdict::Gone { .. } | Verdict::Failed(_) => None,
    };
    Some(Seen {
        origin: job.target.ready()?.endpoint().origin(),
        count: Count::of(verdict, job.travel.turn.attempt.0 > 0),
        probe: job.slot.is_some_and(|slot| slot.probe),
        retry_after,
    })
}

fn ask(job: &Job) -> Ask {
    let recipient = job.target.ready().expect("the gate lets nothing pass that has no target");
    let limit = job.terms.rate.zip(job.subscription_key());
    Ask {
        origin: recipient.endpoint().origin(),
        tenant: job.message.tenant.clone(),
        endpoint: limit.map(|(rate, subscription)| EndpointLimit { subscription, rate }),
        rank: Rank::of(&job.message),
        is_retry: job.travel.turn.attempt.0 > 0,
        is_last: job.policy().is_last(job.travel.turn.attempt),
        deadline: job.deadline,
    }
}

fn tell<E: Environment>(env: &E, settings: &Settings, told: &Told) {
    for error in &told.errors {
        env.telemetry().infrastructure(error);
    }
    for Transition { origin, from, to, count } in &told.transitions {
        let provider = Provider::of_origin(origin);
        if matches!(to, Phase::Open { .. } | Phase::Paused { .. }) {
            env.telemetry().count_with(Metric::BreakersOpened, provider, 1);
        }
        env.telemetry().breaker(&BreakerEvent {
            provider,
            origin_hash: settings.hash_keys.origin(origin).as_str(),
            from: *from,
            to: *to,
            count: *count,
        });
    }
}
