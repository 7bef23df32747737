//! The functions' environment, read once: everything that is missing or wrong is told in one message.

mod reader;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use redial_core::endpoint::{Origin, PushHosts};
use redial_core::rate::Rate;
use redial_core::route::{SQS_MAX_DELAY_SECONDS, WaitSettings};
use redial_core::subscription::SpikeGuard;
use redial_core::wait::bucket::MAX_SHARDS;
use redial_core::webhook;
use redial_engine::cleanup;
use redial_engine::protection;
use serde::{Deserialize, Serialize};

use self::reader::Reader;
use crate::egress::{EgressAllow, ExtraRoots};
use crate::outbox_sqs::{QueueArn, QueueUrls};
use crate::secrets::Secret;
use crate::vapid::VapidSubject;

/// How many messages and other requests of an API key are let in unless the operator says otherwise: what a bucket takes in one
/// part.
pub const DEFAULT_API_RATE: &str = "500/s";

/// Names of a stack's tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// The ledger.
    pub deliveries: String,
    /// Stored subscriptions.
    pub subscriptions: String,
    /// Which of them a tag gathers.
    pub audiences: String,
    /// Waiting messages.
    pub parked: String,
    /// Dead letters.
    pub dead_letters: String,
    /// Small shared facts.
    pub control: String,
}

/// Where a secret value stands.
#[derive(Clone, Debug)]
pub enum SecretLocation {
    /// In the environment itself.
    Value(Secret),
    /// In Secrets Manager, under this name or ARN.
    SecretsManager(String),
}

/// What all functions need.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The stack's name: the dimension of its metrics.
    pub stack: String,
    /// Its queues.
    pub queues: QueueUrls,
    /// Where producers are told of ends, if they want to be.
    pub events: Option<QueueArn>,
    /// Its tables.
    pub tables: Tables,
    /// The key that endpoints are hashed with.
    pub hash_key: SecretLocation,
    /// For how long tenants' policies are remembered.
    pub policy_max_age: Duration,
}

/// What dispatch needs besides.
#[derive(Clone, Debug)]
pub struct DispatchConfig {
    /// What both need.
    pub stack: StackConfig,
    /// The state machine that ends waits.
    pub state_machine_arn: String,
    /// Whom push services may write to.
    pub vapid_subject: VapidSubject,
    /// The VAPID keys.
    pub vapid_keys: SecretLocation,
    /// The key that webhooks' secrets are sealed with, and follow from.
    pub webhook_key: SecretLocation,
    /// The key that browsers' tokens are made with.
    pub token_key: SecretLocation,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that egress reaches besides.
    pub egress_allow: EgressAllow,
    /// Roots that egress trusts besides.
    pub egress_roots: ExtraRoots,
    /// The longest that one push takes.
    pub send_timeout: Duration,
    /// The longest that one webhook takes.
    pub webhook_timeout: Duration,
    /// How waits are divided.
    pub waits: WaitSettings,
    /// How long a lease outlives its invocation.
    pub lease_margin: Duration,
    /// How origins are protected.
    pub protection: protection::Settings,
    /// How long a webhook's receiver may fail without one success before it is switched off.
    pub switched_off_after: Duration,
}

/// What the front door needs besides. It faces the internet: no private VAPID key, and no key of webhooks, is among it.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// What all need.
    pub stack: StackConfig,
    /// The key that browsers' tokens are made with.
    pub token_key: SecretLocation,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides.
    pub egress_allow: EgressAllow,
    /// The sites whose pages may call.
    pub cors_origins: Vec<Origin>,
    /// How many requests of an API key are let in; `None`: any number.
    pub rate: Option<Rate>,
}

/// What cleanup needs besides.
#[derive(Clone, Debug)]
pub struct CleanupConfig {
    /// What both need.
    pub stack: StackConfig,
    /// The key that webhooks' secrets are sealed with, and follow from.
    pub webhook_key: SecretLocation,
    /// When so many gone endpoints are too many.
    pub guard: SpikeGuard,
    /// How late a bucket of waits may be before the sweep releases it.
    pub late_after: Duration,
    /// How long a webhook's receiver may fail without one success before it is switched off.
    pub switched_off_after: Duration,
}

/// Everything that is wrong with the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError(Vec<String>);

/// As it reads: it is what ends `main`, which prints this form.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment is not complete: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// Reads dispatch's configuration through `lookup`, usually the environment.
pub fn dispatch(lookup: impl Fn(&str) -> Option<String>) -> Result<DispatchConfig, ConfigError> {
    let mut read = Reader::through(lookup);
    let stack = read.stack();
    let state_machine_arn = read.state_machine("WAIT_STATE_MACHINE_ARN");
    let vapid_subject = read.vapid_subject();
    let vapid_keys = read.vapid_keys();
    let (webhook_key, token_key) = (read.webhook_key(), read.token_key());
    let push_hosts = read.push_hosts();
    let egress_allow = read.egress_allow();
    let egress_roots = read.egress_roots();
    let send_timeout = read.seconds("SEND_TIMEOUT_SECONDS", Duration::from_secs(10), 1, 60);
    let webhook_timeout = read.seconds("WEBHOOK_TIMEOUT_SECONDS", webhook::TIMEOUT, 1, 60);
    let waits = WaitSettings {
        sqs_max_delay: read.number("SQS_MAX_DELAY_SECONDS", SQS_MAX_DELAY_SECONDS, 0, SQS_MAX_DELAY_SECONDS),
        bucket_secs: read.number("WAIT_BUCKET_SECONDS", 60, 1, 3600),
        shards: read.number("WAIT_SHARDS", 128, 1, MAX_SHARDS),
    };
    let lease_margin = read.seconds("LEASE_MARGIN_SECONDS", Duration::from_secs(10), 0, 900);
    let protection = read.protection();
    let switched_off_after = read.switched_off_after();
    let whole = vapid_subject.zip(push_hosts).zip(egress_allow.zip(egress_roots));
    let config = whole.map(|((vapid_subject, push_hosts), (egress_allow, egress_roots))| DispatchConfig {
        stack,
        state_machine_arn,
        vapid_subject,
        vapid_keys,
        webhook_key,
        token_key,
        push_hosts,
        egress_allow,
        egress_roots,
        send_timeout,
        webhook_timeout,
        waits,
        lease_margin,
        protection,
        switched_off_after,
    });
    read.finish(config)
}

/// Reads the front door's configuration through `lookup`, usually the environment.
pub fn ingest(lookup: impl Fn(&str) -> Option<String>) -> Result<IngestConfig, ConfigError> {
    let mut read = Reader::through(lookup);
    let stack = read.stack();
    let token_key = read.token_key();
    let hosts = read.push_hosts().zip(read.egress_allow());
    let cors_origins = read.cors_origins();
    let rate = read.rate("API_RATE_LIMIT", DEFAULT_API_RATE);
    let config = hosts.map(|(push_hosts, egress_allow)| IngestConfig {
        stack,
        token_key,
        push_hosts,
        egress_allow,
        cors_origins,
        rate,
    });
    read.finish(config)
}

/// Reads cleanup's configuration through `lookup`, usually the environment.
pub fn cleanup(lookup: impl Fn(&str) -> Option<String>) -> Result<CleanupConfig, ConfigError> {
    let mut read = Reader::through(lookup);
    let default = SpikeGuard::default();
    let config = CleanupConfig {
        stack: read.stack(),
        webhook_key: read.webhook_key(),
        guard: SpikeGuard {
            window: read.seconds("SPIKE_WINDOW_SECONDS", default.window, 1, 86_400),
            at_least: read.number("SPIKE_AT_LEAST", default.at_least, 1, u32::MAX),
            share: read.number("SPIKE_SHARE", default.share, 0.0, 1.0),
        },
        late_after: read.seconds("WAIT_LATE_SECONDS", cleanup::LATE_AFTER, 1, 86_400),
        switched_off_after: read.switched_off_after(),
    };
    read.finish(Some(config))
}
