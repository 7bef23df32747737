//! One attempt: wait out the last fraction of a second, send, sign again after a 401, judge, plan.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::FutureExt;

use super::fate::Setback;
use super::hand_off::Facts;
use super::inbox::Job;
use super::{Invocation, RESERVE, Settings};
use crate::ports::{
    AttemptEvent, Clock, Environment, Keys, Push, PushSender, Randomness, Telemetry, Webhook, WebhookSender,
};
use crate::protection::Seen;
use redial_core::channel::Channel;
use redial_core::ledger::kept_headers;
use redial_core::message::Message;
use redial_core::metric::Metric;
use redial_core::outcome::{Attempted, Outcome};
use redial_core::plaintext::Plaintext;
use redial_core::plan::{self, Plan, Situation};
use redial_core::provider::{self, Provider};
use redial_core::push_target::PushTarget;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::retry_after;
use redial_core::time::Timestamp;
use redial_core::verdict::{self, Verdict};

/// An attempt that is over, in one way or another.
pub(crate) enum Finished {
    /// It has an outcome and a plan.
    Planned {
        /// Whose attempt.
        job: Job,
        /// What follows.
        plan: Plan,
        /// What was seen.
        facts: Facts,
        /// The token that its claim was made with.
        lease_token: String,
        /// What it tells of its origin, if anything was sent there.
        seen: Option<Seen>,
    },
    /// There was no attempt, or none that can have arrived: the claim is given back, and the message comes back.
    NotAttempted {
        /// Whose attempt.
        job: Job,
        /// The token that its claim was made with.
        lease_token: String,
        /// Why.
        setback: Setback,
    },
    /// Its handling panicked: the claim is given back.
    Panicked {
        /// Whose attempt.
        job: Job,
        /// The token that its claim was made with.
        lease_token: String,
    },
}

impl Finished {
    /// Whose attempt.
    pub(crate) fn job(&self) -> &Job {
        match self {
            Self::Planned { job, .. } | Self::NotAttempted { job, .. } | Self::Panicked { job, .. } => job,
        }
    }

    /// What it tells of its origin.
    pub(crate) fn seen(&self) -> Option<Seen> {
        match self {
            Self::Planned { seen, .. } => seen.clone(),
            Self::NotAttempted { .. } | Self::Panicked { .. } => None,
        }
    }
}

/// Makes one attempt. A panic in it is this message's alone.
pub(crate) async fn attempt<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    job: Job,
    was_in_doubt: bool,
) -> Finished {
    let lease_token = invocation.lease_token.clone();
    let attempted = try_attempt(env, settings, invocation, &job, was_in_doubt);
    match AssertUnwindSafe(attempted).catch_unwind().await {
        Ok(Ok((plan, facts, seen))) => Finished::Planned { job, plan, facts, lease_token, seen },
        Ok(Err(setback)) => Finished::NotAttempted { job, lease_token, setback },
        Err(_panic) => {
            // What it panicked with may quote the message: it is not looked at.
            env.telemetry().panicked(&job.message.id, &job.message.tenant);
            Finished::Panicked { job, lease_token }
        }
    }
}

async fn try_attempt<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    job: &Job,
    was_in_doubt: bool,
) -> Result<(Plan, Facts, Option<Seen>), Setback> {
    let policy = job.policy();
    if was_in_doubt && !policy.retry_in_doubt {
        let facts = Facts { in_doubt: true, ..Facts::without_attempt() };
        return Ok((plan::failed(Reason::InDoubtNotRetried, policy), facts, None));
    }
    wait_until(env, job.due()).await;
    let began = env.clock().now();
    if job.deadline.is_over(began, job.travel.turn.attempt.0) {
        return Ok((Plan::Expired, Facts::without_attempt(), None));
    }
    // The calls before this one may have been slow. An attempt that outlives its invocation would never be recorded.
    let last_start = last_start(env, invocation, job);
    if began > last_start {
        return Err(Setback::NotAdmitted);
    }
    if let Some(not_before) = job.travel.not_before {
        // A slot under a limit is no overhead.
        let due = job.slot.map_or(not_before, |slot| slot.at.max(not_before));
        let overhead_ms = began.since(due).as_secs_f64() * 1000.0;
        env.telemetry().measure(Metric::RetryOverhead, overhead_ms);
    }

    let (outcome, verdict) = send(env, settings, job, began, last_start).await?;
    let now = env.clock().now();
    let situation = Situation {
        policy,
        attempt: job.travel.turn.attempt,
        ttl: job.message.ttl_on(job.channel),
        deadline: job.deadline,
        now,
    };
    let plan = plan::after(&verdict, &situation, &mut env.randomness().rng());
    let attempted = Attempted { outcome, took: now.since(began) };
    let facts = Facts::of(&attempted, job.channel, &verdict, was_in_doubt);
    report(env, job, &attempted, &verdict, &plan, &facts, now);
    let seen = super::protect::seen(job, &attempted.outcome, &verdict);
    Ok((plan, facts, seen))
}

/// The latest moment at which a send may start, so that it ends with [`RESERVE`] left to record it and to hand it off.
fn last_start<E: Environment>(env: &E, invocation: &Invocation, job: &Job) -> Timestamp {
    let longest = match job.channel {
        Channel::WebPush => env.sender().attempt_timeout(),
        Channel::Webhook => env.webhooks().attempt_timeout(),
    };
    invocation.deadline.minus(longest + RESERVE)
}

async fn wait_until<E: Environment>(env: &E, due: Timestamp) {
    let rest = due.since(env.clock().now());
    if rest > Duration::ZERO {
        env.clock().sleep(rest).await;
    }
}

async fn send<E: Environment>(
    env: &E,
    settings: &Settings,
    job: &Job,
    began: Timestamp,
    last_start: Timestamp,
) -> Result<(Outcome, Verdict), Setback> {
    match job.target.ready().expect("the gate lets nothing pass that has no target") {
        Recipient::WebPush(target) => {
            let plaintext = job.plaintext(&settings.token_keys);
            push(env, job, target, &plaintext, began, last_start).await
        }
        Recipient::Webhook(target) => {
            env.telemetry().count(Metric::Attempts, 1);
            let Message { tenant, id, payload, headers, .. } = &job.message;
            let webhook = Webhook { tenant, target, id, payload, headers, at: began };
            let outcome = env.webhooks().send(webhook).await;
            let verdict = verdict::webhook(&outcome, job.policy().overrides());
            Ok((outcome, verdict))
        }
    }
}

/// Pushes once; and once more with the keys loaded again, if the signature was refused or its key is not known here.
async fn push<E: Environment>(
    env: &E,
    job: &Job,
    target: &PushTarget,
    plaintext: &Plaintext<'_>,
    began: Timestamp,
    last_start: Timestamp,
) -> Result<(Outcome, Verdict), Setback> {
    let overrides = job.policy().overrides();
    let outcome = push_once(env, job, target, plaintext, began).await;
    let verdict = verdict::web_push(&outcome, false, overrides);
    if verdict != Verdict::SignAgain {
        return Ok((outcome, verdict));
    }
    let keys = reload(env, last_start).await;
    if keys == Keys::Unavailable && matches!(outcome, Outcome::Impossible(_)) {
        // Whether there is such a key cannot be known now.
        return Err(Setback::Infrastructure);
    }
    let now = env.clock().now();
    if now > last_start {
        return Err(Setback::NotAdmitted);
    }
    let outcome = push_once(env, job, target, plaintext, now).await;
    let verdict = verdict::web_push(&outcome, true, overrides);
    Ok((outcome, verdict))
}

/// Loads the keys again, for no longer than there is time for a send after it.
async fn reload<E: Environment>(env: &E, last_start: Timestamp) -> Keys {
    let budget = last_start.since(env.clock().now());
    let mut loaded = pin!(env.sender().reload_keys().fuse());
    let mut too_late = pin!(env.clock().sleep(budget).fuse());
    futures_util::select_biased! {
        keys = loaded => keys,
        () = too_late => Keys::Unavailable,
    }
}

async fn push_once<E: Environment>(
    env: &E,
    job: &Job,
    target: &PushTarget,
    plaintext: &Plaintext<'_>,
    now: Timestamp,
) -> Outcome {
    env.telemetry().count(Metric::Attempts, 1);
    env.sender()
        .send(Push {
            target,
            payload: plaintext.as_payload(),
            ttl: job.deadline.remaining_ttl(now),
            urgency: job.message.urgency,
            topic: job.message.topic.as_ref(),
        })
        .await
}

fn report<E: Environment>(
    env: &E,
    job: &Job,
    attempted: &Attempted,
    verdict: &Verdict,
    plan: &Plan,
    facts: &Facts,
    now: Timestamp,
) {
    let telemetry = env.telemetry();
    if facts.status == Some(503) {
        telemetry.count(Metric::ServiceUnavailable, 1);
    }
    if facts.status == Some(400) && matches!(verdict, Verdict::Failed(Reason::Rejected)) {
        telemetry.count(Metric::BadRequests, 1);
    }
    if matches!(verdict, Verdict::Retry(retry) if retry.in_doubt) {
        telemetry.count(Metric::InDoubt, 1);
    }
    if matches!(verdict, Verdict::Gone { .. } | Verdict::Failed(_)) {
        telemetry.count(Metric::PermanentFailures, 1);
    }
    if matches!(plan, Plan::Sent) && job.travel.turn.attempt.0 > 0 {
        telemetry.count(Metric::SentOnRetry, 1);
    }
    let response = match &attempted.outcome {
        Outcome::Response(response) => Some(response),
        Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_) => None,
    };
    telemetry.attempt(&AttemptEvent {
        correlation_id: &job.message.id,
        endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str()),
        tenant: &job.message.tenant,
        channel: job.channel.label(),
        provider: job.target.ready().map_or(Provider::Other, |to| Provider::of(to.endpoint())).label(),
        attempt: job.travel.turn.attempt.0,
        status_code: facts.status,
        retry_after_header: response.and_then(retry_after::from_response).map(|wait| wait.as_secs()),
        verdict: verdict.label(),
        plan: plan.label(),
        reason: plan.reason(),
        not_sent: facts.not_sent,
        policy_source: job.chosen.source.label(),
        provider_word: facts.provider_word.as_deref(),
        delay_ms: plan.not_before().map(|at| plan::delay_ms(at, now)),
        took_ms: u64::try_from(attempted.took.as_millis()).unwrap_or(u64::MAX),
    });
}

impl Facts {
    /// A webhook's receiver is anyone: nothing of its own words is kept.
    fn of(attempted: &Attempted, channel: Channel, verdict: &Verdict, was_in_doubt: bool) -> Self {
        let response = match &attempted.outcome {
            Outcome::Response(response) => Some(response),
            Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_) => None,
        };
        Self {
            attempted: true,
            status: response.map(|response| response.status),
            verdict: Some(verdict.label()),
            not_sent: attempted.outcome.not_sent(),
            provider_word: response.filter(|_| channel == Channel::WebPush).and_then(provider::quotable),
            headers: response.map(kept_headers).unwrap_or_default(),
            in_doubt: was_in_doubt || matches!(verdict, Verdict::Retry(retry) if retry.in_doubt),
        }
    }
}
