//! One attempt: wait out the last fraction of a second, send, sign again after a 401, judge, plan.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::FutureExt;
use rand::RngExt as _;

use super::admit;
use super::job::Job;
use super::planned::Facts;
use super::worker::{Invocation, Ports, RESERVE, Worker};
use crate::ports::{
    AttemptEvent, AttemptSpan, Clock, Keys, Push, PushSender, Randomness, Telemetry, Webhook, WebhookSender,
};
use crate::protection::Seen;
use crate::within::within;
use redial_core::channel::Channel;
use redial_core::gate::WAITED_OUT_INSIDE;
use redial_core::message::Message;
use redial_core::metric::Metric;
use redial_core::outcome::{Attempted, NotSent, Outcome};
use redial_core::plaintext::Plaintext;
use redial_core::plan::{self, Plan, Situation};
use redial_core::protection::patience::{FIRST_TIMEOUT, Patience};
use redial_core::push_target::PushTarget;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::retry_after;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;
use redial_core::traceparent::{SpanId, Traceparent};
use redial_core::verdict::{self, Verdict};

pub(super) struct Finished {
    pub(super) job: Job,
    /// Its plan; or why there was no attempt, or none that can have arrived, unless it panicked.
    pub(super) made: Result<(Plan, Facts), Setback>,
    /// What it shows of its origin, if anything was sent there.
    pub(super) seen: Option<Seen>,
    /// How long the attempt took, if there was one.
    pub(super) took: Duration,
}

/// An attempt, or an end without one.
struct Tried {
    plan: Plan,
    facts: Facts,
    seen: Option<Seen>,
    took: Duration,
}

impl Tried {
    fn without_attempt(plan: Plan, in_doubt: bool) -> Self {
        Self { plan, facts: Facts { in_doubt, ..Facts::default() }, seen: None, took: Duration::ZERO }
    }
}

impl<P: Ports> Worker<P> {
    /// Makes one attempt. A panic in it is this message's alone.
    pub(super) async fn attempt(&self, invocation: &Invocation, job: Job, was_in_doubt: bool) -> Finished {
        let attempt = AssertUnwindSafe(self.try_attempt(invocation, &job, was_in_doubt));
        let made = attempt.catch_unwind().await.unwrap_or_else(|_panic| {
            // What it panicked with may quote the message: it is not looked at.
            self.telemetry.panicked(&job.message.id, &job.message.tenant);
            Err(Setback::Panicked)
        });
        let job = Job { seat: None, ..job };
        match made {
            Ok(Tried { plan, facts, seen, took }) => Finished { job, made: Ok((plan, facts)), seen, took },
            Err(setback) => Finished { job, made: Err(setback), seen: None, took: Duration::ZERO },
        }
    }

    async fn try_attempt(
        &self,
        invocation: &Invocation,
        job: &Job,
        was_in_doubt: bool,
    ) -> Result<Tried, Setback> {
        let policy = job.policy();
        if let Some(end) = plan::in_doubt(was_in_doubt, policy) {
            return Ok(Tried::without_attempt(end, was_in_doubt));
        }
        let rest = job.due().since(self.system.now());
        if rest > Duration::ZERO {
            self.system.sleep(rest).await;
        }
        let opens = job.opening(self.system.now(), &self.settings).since(self.system.now());
        if opens >= WAITED_OUT_INSIDE {
            // Its hours have ended meanwhile.
            return Err(Setback::NotAdmitted);
        }
        if opens > Duration::ZERO {
            self.system.sleep(opens).await;
        }
        let began = self.system.now();
        if job.deadline.is_over(began, job.travel.turn.attempt.0) {
            return Ok(Tried::without_attempt(Plan::Expired, was_in_doubt));
        }
        // The calls before this one may have been slow. An attempt that outlives its invocation would never be recorded: the latest
        // start leaves [`RESERVE`] after it, to record it and to hand it off.
        let longest = self.whole_time_out(job.channel);
        let mut last_start = invocation.deadline.minus(longest + RESERVE);
        if let Some(seat) = &job.seat {
            last_start = last_start.min(seat.until().minus(longest));
        }
        if began > last_start {
            return Err(Setback::NotAdmitted);
        }
        if let Some(due) = job.retry_due() {
            let overhead_ms = began.since(due).as_secs_f64() * 1000.0;
            self.telemetry.measure(Metric::RetryOverhead, overhead_ms);
        }

        if let Some(ms) = self.latency_ms(job, began).filter(|_| job.travel.turn.attempt.0 == 0) {
            self.telemetry.measure_on(Metric::DispatchLatency, job.lane, ms);
        }

        let span = self.span_of(job);
        let (outcome, verdict) = self.post_once(job, span, began, last_start).await?;
        let now = self.system.now();
        let situation = Situation {
            policy,
            attempt: job.travel.turn.attempt,
            ttl: job.message.ttl_on(job.channel),
            deadline: job.deadline,
            now,
        };
        let plan = plan::after(&verdict, &situation, &mut self.system.rng());
        if let Some(ms) = self.latency_ms(job, now).filter(|_| plan == Plan::Sent) {
            self.telemetry.measure_on(Metric::DeliveryLatency, job.lane, ms);
        }
        let attempted = Attempted { outcome, took: now.since(began) };
        let facts = Facts::of(&attempted, job.channel, &verdict, was_in_doubt);
        self.report_attempt(job, &attempted, &verdict, (&plan, &facts), span, now);
        let seen = admit::seen(job, &attempted, &verdict);
        Ok(Tried { plan, facts, seen, took: attempted.took })
    }

    /// The span of the attempt that is made now, if its message's producer records the trace that it belongs to.
    fn span_of(&self, job: &Job) -> Option<SpanId> {
        let is_recorded = |it: &Traceparent| it.is_sampled() && self.telemetry.exports_spans();
        job.message.traceparent.filter(is_recorded)?;
        Some(SpanId::of(self.system.rng().random()))
    }

    /// The longest that one send takes.
    fn whole_time_out(&self, channel: Channel) -> Duration {
        match channel {
            Channel::WebPush => self.push_sender.attempt_timeout(),
            Channel::Webhook => self.webhook_sender.attempt_timeout(),
        }
    }

    fn time_out(&self, job: &Job) -> Duration {
        let whole = self.whole_time_out(job.channel);
        match job.patience {
            Patience::Short => whole.min(FIRST_TIMEOUT),
            Patience::Whole | Patience::InBulk => whole,
        }
    }

    async fn post_once(
        &self,
        job: &Job,
        span: Option<SpanId>,
        began: Timestamp,
        last_start: Timestamp,
    ) -> Result<(Outcome, Verdict), Setback> {
        let (outcome, verdict) = match job.recipient().expect("the gate lets nothing pass that has no target")
        {
            Recipient::WebPush(target) => {
                let plaintext = Plaintext::of(
                    &job.message,
                    job.deadline,
                    &self.settings.token_keys,
                    &self.settings.strip,
                );
                self.push(job, target, &plaintext, began, last_start).await?
            }
            Recipient::Webhook(target) => {
                self.telemetry.count(Metric::Attempts, 1);
                let Message { tenant, id, payload, headers, traceparent, .. } = &*job.message;
                let traceparent = traceparent.map(|it| span.map_or(it, |span| it.with_span(span)));
                let within = self.time_out(job);
                let webhook =
                    Webhook { tenant, target, id, payload, headers, traceparent, at: began, within };
                let outcome = Box::pin(self.webhook_sender.send(webhook)).await;
                let verdict = verdict::webhook(&outcome, job.policy().overrides());
                (outcome, verdict)
            }
        };
        // What this process lacks says nothing of the receiver: no attempt was made, and its origin is not judged.
        match outcome.not_sent() {
            Some(NotSent::NoResources) => Err(Setback::Infrastructure),
            _ => Ok((outcome, verdict)),
        }
    }

    /// Pushes once; and once more with the keys loaded again, if the signature was refused or its key is not known here.
    async fn push(
        &self,
        job: &Job,
        target: &PushTarget,
        plaintext: &Plaintext<'_>,
        began: Timestamp,
        last_start: Timestamp,
    ) -> Result<(Outcome, Verdict), Setback> {
        let overrides = job.policy().overrides();
        let outcome = self.push_once(job, target, plaintext, began).await;
        let verdict = verdict::web_push(&outcome, false, overrides);
        if verdict != Verdict::SignAgain {
            return Ok((outcome, verdict));
        }
        let keys = Box::pin(self.reload_keys(last_start)).await;
        if keys == Keys::Unavailable && matches!(outcome, Outcome::Impossible(_)) {
            // There may be such a key: that cannot be known now.
            return Err(Setback::Infrastructure);
        }
        let now = self.system.now();
        if now > last_start {
            return Err(Setback::NotAdmitted);
        }
        let outcome = Box::pin(self.push_once(job, target, plaintext, now)).await;
        let verdict = verdict::web_push(&outcome, true, overrides);
        Ok((outcome, verdict))
    }

    /// Loads the keys again, for no longer than there is time for a send after it.
    async fn reload_keys(&self, last_start: Timestamp) -> Keys {
        let budget = last_start.since(self.system.now());
        let loaded = within(&self.system, budget, self.push_sender.reload_keys()).await;
        loaded.unwrap_or(Keys::Unavailable)
    }

    async fn push_once(
        &self,
        job: &Job,
        target: &PushTarget,
        plaintext: &Plaintext<'_>,
        now: Timestamp,
    ) -> Outcome {
        self.telemetry.count(Metric::Attempts, 1);
        let push = Push {
            target,
            payload: plaintext.as_payload(),
            ttl: job.deadline.remaining_ttl(now),
            urgency: job.message.urgency,
            topic: job.message.topic.as_ref(),
        };
        // Boxed, or each move of an attempt copies the state of its request.
        Box::pin(self.push_sender.send(push)).await
    }

    /// In whole milliseconds since its clock started, or its hours began. A replay has none: when it started was up to an operator.
    fn latency_ms(&self, job: &Job, now: Timestamp) -> Option<f64> {
        let is_replay = job.travel.turn.lineage.0 > 0;
        let starts_at = job.opening(job.message.starts_at(job.travel.first_sent), &self.settings);
        (!is_replay).then(|| (now.since(starts_at).as_secs_f64() * 1000.0).round())
    }

    fn report_attempt(
        &self,
        job: &Job,
        attempted: &Attempted,
        verdict: &Verdict,
        (plan, facts): (&Plan, &Facts),
        span: Option<SpanId>,
        now: Timestamp,
    ) {
        let is_retry = job.travel.turn.attempt.0 > 0;
        for (metric, is_so) in [
            (Metric::ServiceUnavailable, facts.status == Some(503)),
            (Metric::BadRequests, facts.status == Some(400) && *verdict == Verdict::Failed(Reason::Rejected)),
            (Metric::InDoubt, verdict.is_in_doubt()),
            (Metric::PermanentFailures, matches!(verdict, Verdict::Gone { .. } | Verdict::Failed(_))),
            (Metric::SentOnRetry, *plan == Plan::Sent && is_retry),
        ] {
            if is_so {
                self.telemetry.count(metric, 1);
            }
        }
        // Its page logs it, with others.
        let is_logged = !job.is_on_page || *plan != Plan::Sent;
        if !is_logged && span.is_none() {
            return;
        }
        let retry_after = attempted.outcome.response().and_then(retry_after::from_response);
        let tags = job.message.tags.to_text();
        let event = AttemptEvent {
            correlation_id: &job.message.id,
            endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str()),
            tenant: &job.message.tenant,
            tags: tags.as_deref(),
            traceparent: job.message.traceparent,
            channel: job.channel.label(),
            provider: job.provider().label(),
            attempt: job.travel.turn.attempt.0,
            status_code: facts.status,
            retry_after_header: retry_after.map(|wait| wait.as_secs()),
            verdict: verdict.label(),
            plan: plan.label(),
            reason: plan.reason(),
            not_sent: facts.not_sent,
            policy_source: job.chosen.source.label(),
            provider_word: facts.provider_word.as_deref(),
            delay_ms: plan.not_before().map(|at| plan::delay_ms(at, now)),
            took_ms: ms(attempted.took),
        };
        if is_logged {
            self.telemetry.attempt(&event);
        }
        if let (Some(id), Some(parent)) = (span, job.message.traceparent) {
            let (lane, began, attempt) = (job.lane, now.minus(attempted.took), &event);
            self.telemetry.span(&AttemptSpan { id, parent, lane, began, ended: now, attempt });
        }
    }
}

/// In whole milliseconds.
pub(super) fn ms(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
