//! The port to log lines and metrics.

use redial_core::audience::Expansion;
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::ledger::HeldBy;
use redial_core::metric::Metric;
use redial_core::outcome::NotSent;
use redial_core::page::PageKey;
use redial_core::protection::{AtOrigin, Count, Phase};
use redial_core::provider::Provider;
use redial_core::quota::Exceeded;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::traceparent::{SpanId, Traceparent};

/// The one log line of an attempt. Holds nothing that may not be logged.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptEvent<'a> {
    pub correlation_id: &'a DeliveryId,
    /// Where it went, as a hash.
    pub endpoint_hash: Option<&'a str>,
    pub tenant: &'a Tenant,
    /// Its message's tags, with a space between them.
    pub tags: Option<&'a str>,
    /// The trace that it belongs to.
    pub traceparent: Option<Traceparent>,
    /// `web_push` or `webhook`.
    pub channel: &'static str,
    /// The push service, where it is a known one.
    pub provider: &'static str,
    /// From 0.
    pub attempt: u32,
    /// What was answered, if anything was.
    pub status_code: Option<u16>,
    /// The valid Retry-After that came with it, in seconds.
    pub retry_after_header: Option<u64>,
    /// What it meant: a label.
    pub verdict: &'static str,
    /// What follows: a label.
    pub plan: &'static str,
    pub reason: Option<Reason>,
    /// What failed, if nothing was sent.
    pub not_sent: Option<NotSent>,
    /// Where its retry policy comes from: a label.
    pub policy_source: &'static str,
    pub provider_word: Option<&'a str>,
    /// Until the next attempt.
    pub delay_ms: Option<u64>,
    /// How long the attempt took.
    pub took_ms: u64,
}

/// A message that is held back before its attempt, in one log line. Holds nothing that may not be logged.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldEvent<'a> {
    pub correlation_id: &'a DeliveryId,
    /// Where it will go, as a hash.
    pub endpoint_hash: Option<&'a str>,
    pub tenant: &'a Tenant,
    /// Its tags, with a space between them.
    pub tags: Option<&'a str>,
    /// `web_push` or `webhook`.
    pub channel: &'static str,
    /// The push service, where it is a known one.
    pub provider: &'static str,
    /// That it waits for, from 0.
    pub attempt: u32,
    pub by: HeldBy,
    pub until: Timestamp,
}

/// The span of an attempt, in the trace that its producer records. Holds nothing that may not be logged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttemptSpan<'a> {
    pub id: SpanId,
    /// The producer's span.
    pub parent: Traceparent,
    pub lane: Lane,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub attempt: &'a AttemptEvent<'a>,
}

/// Recipients of a page that accepted its message, in one log line. Holds nothing that may not be logged.
#[derive(Clone, PartialEq, Debug)]
pub struct PageEvent<'a> {
    /// The message to the audience.
    pub message: &'a DeliveryId,
    /// Its tags, with a space between them.
    pub tags: Option<&'a str>,
    /// The trace that it belongs to.
    pub traceparent: Option<Traceparent>,
    pub page: &'a PageKey,
    pub sent: Vec<SentByPage<'a>>,
}

/// One of them, at its first attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct SentByPage<'a> {
    pub correlation_id: &'a DeliveryId,
    /// Its place on the page.
    pub place: usize,
    /// Where it went, as a hash.
    pub endpoint_hash: Option<&'a EndpointHash>,
    pub channel: Channel,
    pub provider: Provider,
    pub status_code: Option<u16>,
    /// How long the attempt took.
    pub took_ms: u64,
}

/// A part of an audience that was not walked to its end, in one log line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AudienceExpired<'a> {
    pub message: &'a DeliveryId,
    pub part: &'a Expansion,
    /// How many recipients it was handed on to.
    pub recipients: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct BreakerEvent<'a> {
    /// The push service, where it is a known one.
    pub provider: Provider,
    /// Whose breaker, as a hash: a webhook's origin names its owner.
    pub origin_hash: &'a str,
    pub from: Phase,
    pub to: Phase,
    /// The attempts of the last five minutes that it was judged by.
    pub count: Count,
    pub holds_back: HoldsBack<'a>,
}

/// Whom a breaker holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldsBack<'a> {
    Everyone,
    OneTenant,
    OneRecipient(&'a AtOrigin),
}

impl HoldsBack<'_> {
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Everyone => None,
            Self::OneTenant => Some("one_tenant"),
            Self::OneRecipient(_) => Some("one_recipient"),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct QuarantineEvent<'a> {
    pub subscription: &'a SubscriptionKey,
    /// Where it leads, as a hash.
    pub endpoint_hash: &'a str,
    /// What its endpoint had been found to be.
    pub reason: Reason,
    /// How many of the tenant's endpoints were found so together with it.
    pub together: u32,
    /// How many subscriptions the tenant has.
    pub of: u64,
}

/// Writes log lines, and counts.
pub trait Telemetry: Send + Sync {
    fn attempt(&self, event: &AttemptEvent<'_>);

    /// Logged when it begins to wait and when its wait gets another end, not each time that it comes back early.
    fn held_back(&self, event: &HeldEvent<'_>);

    /// Whether spans are exported.
    fn exports_spans(&self) -> bool;

    /// An attempt was made of a message whose producer records its trace. Called only where spans are exported.
    fn span(&self, span: &AttemptSpan<'_>);

    /// Successes of a page; [`Telemetry::attempt`] is not called for them.
    fn sent_by_page(&self, event: &PageEvent<'_>);

    /// Something happened `n` times.
    fn count(&self, metric: Metric, n: u64);

    /// Something happened `n` times, with a push service or with any other origin.
    fn count_with(&self, metric: Metric, provider: Provider, n: u64);

    /// Something happened to `n` messages of a lane.
    fn count_on(&self, metric: Metric, lane: Lane, n: u64);

    fn breaker(&self, event: &BreakerEvent<'_>);

    /// A dead letter was made, of a message of that lane if it is known.
    fn dead_letter(&self, reason: Reason, lane: Option<Lane>);

    /// Something was measured, in the metric's unit.
    fn measure(&self, metric: Metric, value: f64);

    /// Something was measured of a message of a lane, in the metric's unit.
    fn measure_on(&self, metric: Metric, lane: Lane, value: f64);

    /// A reference came through the dead-letter queue.
    fn reference(&self, reference: &redial_core::dead_letter::Reference);

    /// A subscription was put in quarantine; logged again if it is not certain that it was logged.
    fn quarantined(&self, event: &QuarantineEvent<'_>);

    /// The TTL of a message to an audience was over before all members of a part had it; logged again if its message comes again.
    fn audience_expired(&self, event: &AudienceExpired<'_>);

    /// A tenant's stored policy is not valid, and is not followed.
    fn policy_ignored(&self, tenant: &Tenant, ignored: &redial_core::policy::stored::Ignored);

    /// A tenant is over a quota; logged once in a while.
    fn quota_exceeded(&self, tenant: &Tenant, exceeded: &Exceeded);

    fn infrastructure(&self, error: &super::PortError);

    fn panicked(&self, correlation_id: &DeliveryId, tenant: &Tenant);
}
