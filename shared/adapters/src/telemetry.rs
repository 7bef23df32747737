//! Log lines and metrics: JSON on standard output, which Lambda takes to CloudWatch.
//!
//! Each attempt has one line with all of its fields, but for successes that the operator wants no lines of ([`SuccessLogs`]), and so has
//! each change of a breaker and each subscription in quarantine. Recipients of a page that accepted its message have one line together, with
//! a list for each field, because lines of their own would cost more than the sending. Metrics are
//! summed over an invocation and written once at its end, in CloudWatch's embedded metric format, which needs no call. Payloads,
//! endpoints and keys cannot be logged: their types have no `Display`.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::channel::Channel;
use redial_core::dead_letter::Reference;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryId, Tenant};
use redial_core::lane::Lane;
use redial_core::metric::Metric;
use redial_core::outcome::NotSent;
use redial_core::policy::stored::Ignored;
use redial_core::protection::Phase;
use redial_core::provider::Provider;
use redial_core::quota::Exceeded;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::verdict::Verdict;
use redial_engine::ports::{
    AttemptEvent, AttemptSpan, AudienceExpired, BreakerEvent, HeldEvent, HoldsBack, PageEvent, PortError,
    QuarantineEvent, SentByPage, Telemetry,
};
use serde_json::Value;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::embedded_metrics::{Dimension, Metrics};
use crate::log_lines::JsonLines;
use crate::otlp::Spans;
use crate::success_logs::{SuccessLogs, Successes};

pub use crate::embedded_metrics::{LANE, NAMESPACE, STACK};

/// Starts logging: JSON lines on standard output, at the level that `RUST_LOG` names, else `info`. That level is for Redial's
/// own lines, whose types cannot be printed where they are secret; libraries, which would print them, only ever warn.
/// Panics are logged by their place alone: a panic's message may quote what it should not.
pub fn start_logging() {
    let level: LevelFilter =
        std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO);
    let own = ["redial_adapters", "dispatch", "cleanup", "ingest"].map(|target| (target, level));
    let filter = Targets::new().with_default(LevelFilter::WARN.min(level)).with_targets(own);
    let lines = json_lines(std::io::stdout).with_filter(filter);
    let logging = tracing_subscriber::registry().with(lines).try_init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
        tracing::error!(event = "panic_place", place, "a panic was caught");
    }));
    if logging.is_err() {
        tracing::warn!(event = "logging_started_before", "logging was started before");
    }
}

/// An event a line, as JSON.
pub fn json_lines<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(writer)
}

#[derive(Debug)]
pub struct JsonTelemetry {
    stack: String,
    success_logs: SuccessLogs,
    spans: Option<Spans>,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    metrics: Metrics,
    successes: Successes,
}

impl JsonTelemetry {
    pub fn new(stack: String) -> Self {
        Self { stack, success_logs: SuccessLogs::default(), spans: None, sums: Mutex::default() }
    }

    /// With lines of these successes.
    #[must_use]
    pub fn logging(self, success_logs: SuccessLogs) -> Self {
        Self { success_logs, ..self }
    }

    /// With these spans, which are sent by [`JsonTelemetry::export`].
    #[must_use]
    pub fn tracing(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    /// Sends the spans since the last time to their collector, if there is one; an invocation that ends then waits a moment for it.
    pub async fn export(&self, now: Timestamp, deadline: Timestamp) {
        if let Some(spans) = &self.spans {
            Box::pin(spans.export(now, deadline)).await;
        }
    }

    /// The lines of the sums since the last flush, which it resets.
    pub fn take_lines(&self, now: Timestamp) -> Vec<Value> {
        let sums = self.take_sums();
        let value = |line| serde_json::to_value(line).expect("invariant: names and numbers are JSON");
        sums.metrics.lines(&self.stack, now).into_iter().map(value).collect()
    }

    fn take_sums(&self) -> Sums {
        let sums = std::mem::take(&mut *self.sums());
        self.log_successes(sums.successes);
        sums
    }

    /// One line for all successes of an invocation.
    fn log_successes(&self, successes: Successes) {
        if successes.sent == 0 {
            return;
        }
        let (took_ms, longest_ms) = successes.took_ms();
        tracing::info!(
            event = "successes",
            sent = successes.sent,
            logged = successes.logged,
            success_logs = self.success_logs.label(),
            took_ms,
            longest_ms,
        );
    }

    /// Writes these lines, all at once.
    pub fn flush(&self, now: Timestamp) {
        let sums = self.take_sums();
        let mut text = Vec::new();
        for line in sums.metrics.lines(&self.stack, now) {
            serde_json::to_writer(&mut text, &line).expect("invariant: names and numbers are JSON");
            text.push(b'\n');
        }
        // Standard output is a pipe to Lambda: without it, there is nowhere to report the error.
        let _ = std::io::stdout().lock().write_all(&text);
    }

    /// Adds to the sum of the stack, and to the sum of each of these dimensions.
    fn add(&self, metric: Metric, n: u64, by: impl IntoIterator<Item = Dimension>) {
        if n > 0 {
            self.sums().metrics.add(metric, n, by);
        }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Telemetry for JsonTelemetry {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        if event.verdict == Verdict::Sent.label() {
            let is_logged = self.success_logs.logs(event.correlation_id.as_str());
            self.sums().successes.add(is_logged, event.took_ms);
            if !is_logged {
                return;
            }
        }
        tracing::info!(
            event = "attempt",
            correlation_id = event.correlation_id.as_str(),
            endpoint_hash = event.endpoint_hash,
            tenant = event.tenant.as_str(),
            tags = event.tags,
            trace_id = event.traceparent.map(|it| it.trace_id()),
            channel = event.channel,
            provider = event.provider,
            attempt = event.attempt,
            status_code = event.status_code,
            retry_after_header = event.retry_after_header,
            verdict = event.verdict,
            plan = event.plan,
            reason = event.reason.map(Reason::label),
            not_sent = event.not_sent.map(NotSent::label),
            policy_source = event.policy_source,
            provider_word = event.provider_word,
            delay_ms = event.delay_ms,
            took_ms = event.took_ms,
        );
    }

    fn held_back(&self, event: &HeldEvent<'_>) {
        tracing::info!(
            event = "held_back",
            correlation_id = event.correlation_id.as_str(),
            endpoint_hash = event.endpoint_hash,
            tenant = event.tenant.as_str(),
            tags = event.tags,
            channel = event.channel,
            provider = event.provider,
            attempt = event.attempt,
            by = event.by.label(),
            until = event.until.to_rfc3339(),
        );
    }

    fn exports_spans(&self) -> bool {
        self.spans.is_some()
    }

    fn span(&self, span: &AttemptSpan<'_>) {
        if let Some(spans) = &self.spans {
            spans.add(span);
        }
    }

    fn sent_by_page(&self, event: &PageEvent<'_>) {
        let PageEvent { message, tags, traceparent, page, sent } = event;
        let logged: Vec<&SentByPage<'_>> = sent
            .iter()
            .filter(|it| {
                let is_logged = self.success_logs.logs(it.correlation_id.as_str());
                self.sums().successes.add(is_logged, it.took_ms);
                is_logged
            })
            .collect();
        if logged.is_empty() {
            return;
        }
        let list = |of: &dyn Fn(&SentByPage<'_>) -> String| {
            logged.iter().map(|it| of(it)).collect::<Vec<_>>().join(" ")
        };
        let to = |it: &SentByPage<'_>| match it.channel {
            Channel::WebPush => it.provider.label(),
            Channel::Webhook => it.channel.label(),
        };
        tracing::info!(
            event = "sent_by_page",
            correlation_id = message.as_str(),
            tenant = page.run.tenant.as_str(),
            tags,
            trace_id = traceparent.map(|it| it.trace_id()),
            run = page.run.id.as_str(),
            part = page.shard,
            numbers = list(&|it| page.position(it.place).number.to_string()),
            endpoints = list(&|it| it.endpoint_hash.map_or("-", EndpointHash::short).to_owned()),
            to = list(&|it| to(it).to_owned()),
            statuses = list(&|it| it.status_code.map_or("-".to_owned(), |status| status.to_string())),
            took_ms = list(&|it| it.took_ms.to_string()),
            verdict = Verdict::Sent.label(),
        );
    }

    fn count(&self, metric: Metric, n: u64) {
        self.add(metric, n, []);
    }

    fn count_with(&self, metric: Metric, provider: Provider, n: u64) {
        self.add(metric, n, [("Provider", provider.label())]);
    }

    fn count_on(&self, metric: Metric, lane: Lane, n: u64) {
        self.add(metric, n, [(LANE, lane.label())]);
    }

    fn breaker(&self, event: &BreakerEvent<'_>) {
        let until = match event.to {
            Phase::Open { until } | Phase::Paused { until } => Some(until.to_rfc3339()),
            Phase::Closed | Phase::HalfOpen { .. } | Phase::Ramping { .. } => None,
        };
        let count = event.count.with_older();
        let recipient = match event.holds_back {
            HoldsBack::OneRecipient(recipient) => Some(recipient),
            HoldsBack::Everyone | HoldsBack::OneTenant => None,
        };
        tracing::warn!(
            event = "breaker",
            provider = event.provider.label(),
            origin_hash = event.origin_hash,
            from = event.from.label(),
            to = event.to.label(),
            until,
            attempts = count.attempts,
            failures = count.failures,
            limited = count.limited,
            holds_back = event.holds_back.label(),
            tenant = recipient.map(|recipient| recipient.tenant.as_str()),
            endpoint_hash = recipient.map(|recipient| recipient.endpoint.as_str()),
        );
    }

    fn dead_letter(&self, reason: Reason, lane: Option<Lane>) {
        let lane = lane.map(|lane| (LANE, lane.label()));
        self.add(Metric::DeadLetters, 1, [("Reason", reason.label())].into_iter().chain(lane));
    }

    fn measure(&self, metric: Metric, value: f64) {
        self.sums().metrics.add_value(metric, value, None);
    }

    fn measure_on(&self, metric: Metric, lane: Lane, value: f64) {
        self.sums().metrics.add_value(metric, value, Some((LANE, lane.label())));
    }

    fn reference(&self, reference: &Reference) {
        tracing::info!(
            event = "dead_letter",
            correlation_id = reference.id,
            tenant = reference.tenant,
            tags = reference.tags,
            trace_id = reference.trace_id,
            channel = reference.channel,
            endpoint_hash = reference.endpoint_hash,
            reason = reference.reason,
            detail = reference.detail,
            status_code = reference.status,
            attempts = reference.attempts,
        );
    }

    fn quarantined(&self, event: &QuarantineEvent<'_>) {
        tracing::warn!(
            event = "quarantined",
            tenant = event.subscription.tenant.as_str(),
            subscription = event.subscription.id.as_str(),
            endpoint_hash = event.endpoint_hash,
            reason = event.reason.label(),
            together = event.together,
            of = event.of,
        );
    }

    fn audience_expired(&self, event: &AudienceExpired<'_>) {
        tracing::warn!(
            event = "audience_expired",
            correlation_id = event.message.as_str(),
            tenant = event.part.run.tenant.as_str(),
            run = event.part.run.id.as_str(),
            part = event.part.shard,
            recipients = event.recipients,
        );
    }

    fn policy_ignored(&self, tenant: &Tenant, ignored: &Ignored) {
        let errors: Vec<String> = ignored.errors.iter().map(ToString::to_string).collect();
        policy_ignored(tenant, &ignored.slot.to_string(), &errors.join("; "));
    }

    fn quota_exceeded(&self, tenant: &Tenant, exceeded: &Exceeded) {
        let Exceeded { quota, limit, used } = exceeded;
        tracing::warn!(
            event = "quota_exceeded",
            tenant = tenant.as_str(),
            quota = quota.label(),
            limit,
            used
        );
    }

    fn infrastructure(&self, error: &PortError) {
        infrastructure(error);
    }

    fn panicked(&self, correlation_id: &DeliveryId, tenant: &Tenant) {
        tracing::error!(event = "panic", correlation_id = correlation_id.as_str(), tenant = tenant.as_str());
    }
}

/// A stored policy of a tenant or subscription is invalid.
pub(crate) fn policy_ignored(tenant: &Tenant, policy: &str, errors: &str) {
    tracing::error!(event = "policy_ignored", tenant = tenant.as_str(), policy, errors);
}

/// A stored limit is invalid. An origin is not named: it identifies its owner.
pub(crate) fn limit_ignored(tenant: Option<&Tenant>, limit: &str, errors: &str) {
    tracing::error!(event = "limit_ignored", tenant = tenant.map(Tenant::as_str), limit, errors);
}

pub(crate) fn infrastructure(error: &PortError) {
    tracing::error!(event = "infrastructure", operation = error.operation, code = error.code);
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
