//! The functions' environment variables, read once: one error names everything that is missing or invalid.

mod reader;
#[cfg(test)]
mod tests;

use std::time::Duration;

use redial_core::endpoint::{Origin, PushHosts};
use redial_core::erasure::LONGEST_INVOCATION;
use redial_core::quota;
use redial_core::rate::Rate;
use redial_core::route::{SQS_MAX_DELAY_SECONDS, WaitSettings};
use redial_core::strip::StripFields;
use redial_core::subscription::{SameEndpoint, SpikeGuard, Suspects, suspicion};
use redial_core::wait::MAX_SHARDS;
use redial_core::webhook;
use redial_core::zone::Zone;
use redial_engine::cleanup;
use redial_engine::protection;

use self::reader::Reader;
pub use self::reader::{ConfigError, StackConfig, Tables};
use crate::egress::{EgressAllow, ExtraRoots};
use crate::otlp::Collector;
use crate::outbox_sqs::QueueArn;
use crate::secrets::SecretLocation;
use crate::success_logs::SuccessLogs;
use crate::vapid::{VapidKeys, VapidSubject};

/// The default rate of messages and other requests of an API key: as much as one part of a token bucket takes.
pub const DEFAULT_API_RATE: &str = "500/s";

/// Dispatch's configuration.
#[derive(Clone, Debug)]
pub struct DispatchConfig {
    pub stack: StackConfig,
    pub state_machine_arn: String,
    pub vapid_subject: VapidSubject,
    pub vapid_keys: SecretLocation,
    /// The key that webhooks' secrets are sealed with, and derived from.
    pub webhook_key: SecretLocation,
    /// The key of browsers' tokens.
    pub token_key: SecretLocation,
    pub push_hosts: PushHosts,
    pub egress_allow: EgressAllow,
    pub egress_roots: ExtraRoots,
    pub send_timeout: Duration,
    pub webhook_timeout: Duration,
    pub waits: WaitSettings,
    /// How long a claim's lease outlives its invocation.
    pub lease_margin: Duration,
    pub protection: protection::Settings,
    /// How long a webhook's receiver may fail without one success before it is switched off.
    pub switched_off_after: Duration,
    /// What happens to messages to suspect subscriptions.
    pub suspects: Suspects,
    /// How often a probe of one is let through, where they are held.
    pub probed_every: Duration,
    pub quotas: quota::Limits,
    /// Whether the successes of an invocation are recorded in one item.
    pub records_together: bool,
    /// Whether messages to audiences that are opened now are sent by the page.
    pub audience_pages: bool,
    /// Whether what an open breaker holds back waits in its origin's line.
    pub origin_lines: bool,
    /// Whose clock the hours of messages follow that name no zone, to recipients without one.
    pub time_zone: Zone,
    /// Which successes have a log line.
    pub success_logs: SuccessLogs,
    /// What payloads of pushes lose before they are sealed.
    pub strip: StripFields,
    /// Where spans of attempts are sent; `None` for nowhere.
    pub otlp: Option<Collector>,
    /// What it is shown.
    pub otlp_headers: Option<SecretLocation>,
}

/// The HTTP API's configuration. The API faces the internet: it has no private VAPID key and no webhook key.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    pub stack: StackConfig,
    /// The key of browsers' tokens.
    pub token_key: SecretLocation,
    pub push_hosts: PushHosts,
    pub egress_allow: EgressAllow,
    pub cors_origins: Vec<Origin>,
    /// The rate of each API key; `None`: unlimited.
    pub rate: Option<Rate>,
    pub quotas: quota::Limits,
    /// What becomes of an endpoint that another subscription of the tenant has.
    pub same_endpoint: SameEndpoint,
}

/// Cleanup's configuration.
#[derive(Clone, Debug)]
pub struct CleanupConfig {
    pub stack: StackConfig,
    /// The key that webhooks' secrets are sealed with, and derived from.
    pub webhook_key: SecretLocation,
    pub guard: SpikeGuard,
    /// How late a bucket may be before the sweep releases it.
    pub late_after: Duration,
    /// How long a webhook's receiver may fail without one success before it is switched off.
    pub switched_off_after: Duration,
    /// How far apart dead letters are that count against a browser's subscription.
    pub suspect_apart: Duration,
    /// For how long nothing may be heard of a browser's subscription before it is removed; `None` for any time.
    pub stale_after: Option<Duration>,
    /// How long after the mark of an erasure a worker may be at work that has not seen it.
    pub longest_invocation: Duration,
    /// The stack's own queue of events, also where none are relayed.
    pub events_relay: Option<QueueArn>,
    /// The producers' queue of events, where events are relayed to it.
    pub producers_events: Option<QueueArn>,
    /// The ARN of the bus that events are relayed to.
    pub event_bus: Option<String>,
    /// Whether events are posted to the webhooks that tenants have set for them.
    pub callbacks: bool,
}

pub fn dispatch(lookup: impl Fn(&str) -> Option<String>) -> Result<DispatchConfig, ConfigError> {
    Reader::through(lookup, |read| {
        let send_timeout = read.seconds("SEND_TIMEOUT_SECONDS", Duration::from_secs(10), 1, 60);
        let webhook_timeout = read.seconds("WEBHOOK_TIMEOUT_SECONDS", webhook::TIMEOUT, 1, 60);
        Some(DispatchConfig {
            stack: read.stack(),
            state_machine_arn: read.state_machine(),
            vapid_keys: read.secret("VAPID_PRIVATE_KEY", "VAPID_SECRET_ID", VapidKeys::parse),
            webhook_key: read.webhook_key(),
            token_key: read.token_key(),
            push_hosts: read.push_hosts(),
            egress_allow: read.egress_allow(),
            egress_roots: read.egress_roots(),
            send_timeout,
            webhook_timeout,
            waits: WaitSettings {
                sqs_max_delay: read.number(
                    "SQS_MAX_DELAY_SECONDS",
                    SQS_MAX_DELAY_SECONDS,
                    0,
                    SQS_MAX_DELAY_SECONDS,
                ),
                bucket_secs: read.number("WAIT_BUCKET_SECONDS", 60, 1, 3600),
                shards: read.number("WAIT_SHARDS", 128, 1, MAX_SHARDS),
                ..WaitSettings::default()
            },
            lease_margin: read.seconds("LEASE_MARGIN_SECONDS", Duration::from_secs(10), 0, 900),
            // A push may be sent twice: once more with a new signature.
            protection: read.protection((send_timeout * 2).max(webhook_timeout)),
            switched_off_after: read.switched_off_after(),
            suspects: read.suspects(),
            probed_every: read.seconds("SUSPECT_PROBE_SECONDS", suspicion::PROBED_EVERY, 1, 604_800),
            quotas: read.quotas(),
            records_together: read.switch("RECORD_TOGETHER", true),
            audience_pages: read.switch("AUDIENCE_PAGES", false),
            origin_lines: read.switch("ORIGIN_LINES", true),
            time_zone: read.time_zone(),
            success_logs: read.success_logs(),
            strip: read.strip_fields(),
            otlp: read.otlp_endpoint(),
            otlp_headers: read.otlp_headers(),
            // Last, because it has no default: the others have been read.
            vapid_subject: read.vapid_subject()?,
        })
    })
}

pub fn ingest(lookup: impl Fn(&str) -> Option<String>) -> Result<IngestConfig, ConfigError> {
    Reader::through(lookup, |read| {
        Some(IngestConfig {
            stack: read.stack(),
            token_key: read.token_key(),
            push_hosts: read.push_hosts(),
            egress_allow: read.egress_allow(),
            cors_origins: read.cors_origins(),
            rate: read.rate("API_RATE_LIMIT", DEFAULT_API_RATE),
            quotas: read.quotas(),
            same_endpoint: read.same_endpoint(),
        })
    })
}

pub fn cleanup(lookup: impl Fn(&str) -> Option<String>) -> Result<CleanupConfig, ConfigError> {
    let default = SpikeGuard::default();
    Reader::through(lookup, |read| {
        Some(CleanupConfig {
            stack: read.stack(),
            webhook_key: read.webhook_key(),
            guard: SpikeGuard {
                window: read.seconds("SPIKE_WINDOW_SECONDS", default.window, 1, 86_400),
                at_least: read.number("SPIKE_AT_LEAST", default.at_least, 1, u32::MAX),
                share: read.number("SPIKE_SHARE", default.share, 0.0, 1.0),
            },
            late_after: read.seconds("WAIT_LATE_SECONDS", cleanup::LATE_AFTER, 1, 86_400),
            switched_off_after: read.switched_off_after(),
            suspect_apart: read.seconds("SUSPECT_APART_SECONDS", suspicion::APART, 1, 86_400),
            stale_after: read.stale_after(),
            longest_invocation: read.seconds("LONGEST_INVOCATION_SECONDS", LONGEST_INVOCATION, 0, 900),
            events_relay: read.queue_arn("EVENTS_RELAY_QUEUE_ARN"),
            producers_events: read.queue_arn("PRODUCERS_EVENTS_QUEUE_ARN"),
            event_bus: read.event_bus(),
            callbacks: read.switch("CALLBACKS", false),
        })
    })
}
