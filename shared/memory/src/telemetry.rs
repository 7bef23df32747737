//! Log lines and metrics in memory.

use redial_core::dead_letter::Reference;
use redial_core::identity::{DeliveryId, Tenant};
use redial_core::lane::Lane;
use redial_core::metric::Metric;
use redial_core::policy::stored::Ignored;
use redial_core::provider::Provider;
use redial_core::quota::Exceeded;
use redial_core::reason::Reason;
use redial_engine::ports::{
    AttemptEvent, AttemptSpan, AudienceExpired, BreakerEvent, HeldEvent, PageEvent, PortError,
    QuarantineEvent, Telemetry,
};

use super::Memory;
use super::state::SpanOfAttempt;

impl Telemetry for Memory {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        self.state().not_sent.extend(event.not_sent);
    }

    fn held_back(&self, event: &HeldEvent<'_>) {
        self.state().held_back.push((event.correlation_id.clone(), event.attempt, event.by, event.until));
    }

    fn exports_spans(&self) -> bool {
        self.state().exports_spans
    }

    fn span(&self, span: &AttemptSpan<'_>) {
        let AttemptSpan { id, parent, began, ended, attempt, .. } = *span;
        let (delivery, verdict) = (attempt.correlation_id.clone(), attempt.verdict);
        self.state().spans.push(SpanOfAttempt {
            id,
            parent,
            delivery,
            attempt: attempt.attempt,
            verdict,
            began,
            ended,
        });
    }

    fn sent_by_page(&self, event: &PageEvent<'_>) {
        let sent = event.sent.iter().map(|it| it.correlation_id.clone()).collect();
        self.state().sent_by_page.push(sent);
    }

    fn count(&self, metric: Metric, n: u64) {
        *self.state().counts.entry(metric).or_default() += n;
    }

    fn count_with(&self, metric: Metric, _provider: Provider, n: u64) {
        self.count(metric, n);
    }

    fn count_on(&self, metric: Metric, _lane: Lane, n: u64) {
        self.count(metric, n);
    }

    fn breaker(&self, event: &BreakerEvent<'_>) {
        self.state().breakers.push((event.from.label(), event.to.label()));
    }

    fn dead_letter(&self, reason: Reason, _lane: Option<Lane>) {
        *self.state().dead_letters.entry(reason).or_default() += 1;
    }

    fn measure(&self, metric: Metric, value: f64) {
        self.state().measured.push((metric, None, value));
    }

    fn measure_on(&self, metric: Metric, lane: Lane, value: f64) {
        self.state().measured.push((metric, Some(lane), value));
    }

    fn reference(&self, _reference: &Reference) {}

    fn quarantined(&self, event: &QuarantineEvent<'_>) {
        self.state().quarantined.push((event.subscription.clone(), event.endpoint_hash.to_owned()));
    }

    fn audience_expired(&self, event: &AudienceExpired<'_>) {
        self.state().audiences_expired.push((event.part.clone(), event.recipients));
    }

    fn quota_exceeded(&self, tenant: &Tenant, exceeded: &Exceeded) {
        self.state().exceeded.push((tenant.clone(), *exceeded));
    }

    fn infrastructure(&self, _error: &PortError) {}

    fn policy_ignored(&self, _tenant: &Tenant, _ignored: &Ignored) {}

    fn panicked(&self, _correlation_id: &DeliveryId, _tenant: &Tenant) {}
}
