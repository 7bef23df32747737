//! The functions' environment, read once: everything that is missing or wrong is told in one message.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use redial_core::cleanup;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::protection;
use redial_core::rate::Rate;
use redial_core::route::{SQS_MAX_DELAY_SECONDS, WaitSettings};
use redial_core::subscription::SpikeGuard;
use redial_core::wait::bucket::MAX_SHARDS;
use redial_core::webhook;

use crate::egress::{EgressAllow, ExtraRoots};
use crate::outbox_sqs::{QueueArn, QueueUrls};
use crate::secrets::Secret;
use crate::vapid::{VapidKeys, VapidSubject};
use crate::webhook_keys::WebhookKeys;

/// How many messages and other requests of an API key are let in unless the operator says otherwise: what a bucket takes in one
/// part.
pub const DEFAULT_API_RATE: &str = "500/s";

/// A stack's tables.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// The key that webhooks' secrets are sealed with, and follow from.
    pub webhook_key: SecretLocation,
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
}

/// What the front door needs besides.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// What all need.
    pub stack: StackConfig,
    /// The VAPID keys, whose public halves are listed.
    pub vapid_keys: SecretLocation,
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

/// Reads variables and collects what is wrong with them.
struct Reader<F> {
    lookup: F,
    problems: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// A variable that is set and not empty.
    fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn required(&mut self, name: &str, expected: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.problems.push(format!("{name} is missing (expected {expected})"));
            String::new()
        })
    }

    fn queue(&mut self, name: &str) -> String {
        let url = self.required(name, "the URL of an SQS queue");
        if !url.is_empty() && !url.starts_with("http") {
            self.problems.push(format!("{name} is not a URL (expected the URL of an SQS queue)"));
        }
        url
    }

    fn number<T: FromStr + PartialOrd + fmt::Display>(
        &mut self,
        name: &str,
        default: T,
        from: T,
        to: T,
    ) -> T {
        let Some(text) = self.optional(name) else { return default };
        match text.parse() {
            Ok(number) if number >= from && number <= to => number,
            _ => {
                self.problems.push(format!("{name} is not a number from {from} to {to}"));
                default
            }
        }
    }

    /// `on` or `off`.
    fn switch(&mut self, name: &str, default: bool) -> bool {
        match self.optional(name).as_deref() {
            None => default,
            Some("on") => true,
            Some("off") => false,
            Some(_) => {
                self.problems.push(format!("{name} is neither `on` nor `off`"));
                default
            }
        }
    }

    fn protection(&mut self) -> protection::Settings {
        let default = protection::Settings::default();
        let cooldowns = default.cooldowns;
        let (first, longest) = (cooldowns.first.as_secs(), cooldowns.longest.as_secs());
        let first = Duration::from_secs(self.number("BREAKER_COOLDOWN_SECONDS", first, 1, longest));
        protection::Settings {
            judges: self.switch("BREAKER", default.judges),
            cooldowns: protection::Cooldowns { first, ..cooldowns },
            ..default
        }
    }

    /// A secret that stands in one of two variables.
    fn secret(
        &mut self,
        value: &str,
        id: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> SecretLocation {
        match (self.optional(value), self.optional(id)) {
            (Some(text), _) => {
                if let Err(problem) = check(&text) {
                    self.problems.push(format!("{value} cannot be used: {problem}"));
                }
                SecretLocation::Value(Secret::new(text))
            }
            (None, Some(id)) => SecretLocation::SecretsManager(id),
            (None, None) => {
                self.problems.push(format!("{value} or {id} is missing"));
                SecretLocation::SecretsManager(String::new())
            }
        }
    }

    fn events(&mut self) -> Option<QueueArn> {
        let arn = self.optional("EVENTS_QUEUE_ARN")?;
        let queue = QueueArn::parse(&arn);
        if queue.is_none() {
            self.problems.push("EVENTS_QUEUE_ARN is not the ARN of a standard SQS queue".to_owned());
        }
        queue
    }

    fn stack(&mut self) -> StackConfig {
        const A_TABLE: &str = "the name of a DynamoDB table";
        StackConfig {
            stack: self.optional("REDIAL_STACK").unwrap_or_else(|| "redial".to_owned()),
            queues: QueueUrls {
                ingest: self.queue("INGEST_QUEUE_URL"),
                bulk: self.queue("BULK_QUEUE_URL"),
                retry: self.queue("RETRY_QUEUE_URL"),
                retry_bulk: self.queue("RETRY_BULK_QUEUE_URL"),
                dead_letters: self.queue("DLQ_URL"),
            },
            events: self.events(),
            tables: Tables {
                deliveries: self.required("DELIVERIES_TABLE", A_TABLE),
                subscriptions: self.required("SUBSCRIPTIONS_TABLE", A_TABLE),
                audiences: self.required("AUDIENCES_TABLE", A_TABLE),
                parked: self.required("PARKED_TABLE", A_TABLE),
                dead_letters: self.required("DEAD_LETTERS_TABLE", A_TABLE),
                control: self.required("CONTROL_TABLE", A_TABLE),
            },
            hash_key: self.secret("ENDPOINT_HASH_KEY", "ENDPOINT_HASH_SECRET_ID", |text| {
                HashKeys::parse(text).map(|_| ()).map_err(|error| error.to_string())
            }),
            webhook_key: self.secret("WEBHOOK_KEY", "WEBHOOK_KEY_SECRET_ID", |text| {
                WebhookKeys::parse(text).map(|_| ()).map_err(|error| error.to_string())
            }),
            policy_max_age: Duration::from_secs(self.number("POLICY_CACHE_SECONDS", 30, 0, 60)),
        }
    }

    fn vapid_keys(&mut self) -> SecretLocation {
        self.secret("VAPID_PRIVATE_KEY", "VAPID_SECRET_ID", |text| {
            VapidKeys::parse(text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    fn push_hosts(&mut self) -> Option<PushHosts> {
        let hosts = self.optional("PUSH_HOSTS").unwrap_or_else(|| PushHosts::DEFAULT.to_owned());
        PushHosts::parse(&hosts)
            .map_err(|pattern| {
                self.problems
                    .push(format!("PUSH_HOSTS has `{pattern}`, which is no host and no `*.` pattern"));
            })
            .ok()
    }

    fn egress_allow(&mut self) -> Option<EgressAllow> {
        EgressAllow::parse(&self.optional("EGRESS_ALLOW").unwrap_or_default())
            .map_err(|_| {
                self.problems
                    .push("EGRESS_ALLOW has what is no origin (expected https://HOST[:PORT],…)".into());
            })
            .ok()
    }

    /// Sites: origins as a browser writes them.
    fn cors_origins(&mut self) -> Vec<Origin> {
        let listed = self.optional("API_CORS_ORIGINS").unwrap_or_default();
        let texts = listed.split(',').map(str::trim).filter(|text| !text.is_empty());
        let origins: Vec<Option<Origin>> = texts.map(Origin::parse).collect();
        if origins.contains(&None) {
            self.problems
                .push("API_CORS_ORIGINS has what is no origin (expected https://HOST[:PORT],…)".to_owned());
        }
        origins.into_iter().flatten().collect()
    }

    /// A rate, or `off`.
    fn rate(&mut self, name: &str, default: &str) -> Option<Rate> {
        let text = self.optional(name).unwrap_or_else(|| default.to_owned());
        if text == "off" {
            return None;
        }
        let rate = Rate::parse(&text);
        if let Err(expected) = &rate {
            self.problems.push(format!("{name} is neither a rate nor `off` ({expected})"));
        }
        rate.ok()
    }

    fn finish<T>(self, config: Option<T>) -> Result<T, ConfigError> {
        match config {
            Some(config) if self.problems.is_empty() => Ok(config),
            _ => Err(ConfigError(self.problems)),
        }
    }
}

/// Reads dispatch's configuration through `lookup`, usually the environment.
pub fn dispatch(lookup: impl Fn(&str) -> Option<String>) -> Result<DispatchConfig, ConfigError> {
    let mut read = Reader { lookup, problems: Vec::new() };
    let stack = read.stack();
    let state_machine_arn = read.required("WAIT_STATE_MACHINE_ARN", "the ARN of a state machine");
    if !state_machine_arn.is_empty() && !state_machine_arn.contains(":stateMachine:") {
        read.problems.push("WAIT_STATE_MACHINE_ARN is not the ARN of a state machine".to_owned());
    }
    let subject = read.required("VAPID_SUBJECT", "a mailto: or https: address of your own");
    let vapid_subject = VapidSubject::parse(&subject)
        .map_err(|error| {
            if !subject.is_empty() {
                read.problems.push(format!("VAPID_SUBJECT cannot be used: {error}"));
            }
        })
        .ok();
    let vapid_keys = read.vapid_keys();
    let push_hosts = read.push_hosts();
    let egress_allow = read.egress_allow();
    let egress_roots = match read.optional("EGRESS_CA_FILE") {
        None => Some(ExtraRoots::default()),
        Some(file) => ExtraRoots::from_file(Path::new(&file))
            .map_err(|error| read.problems.push(format!("EGRESS_CA_FILE cannot be used: {error}")))
            .ok(),
    };
    let send_timeout = Duration::from_secs(read.number("SEND_TIMEOUT_SECONDS", 10, 1, 60));
    let webhook_timeout = webhook::TIMEOUT.as_secs();
    let webhook_timeout = Duration::from_secs(read.number("WEBHOOK_TIMEOUT_SECONDS", webhook_timeout, 1, 60));
    let waits = WaitSettings {
        sqs_max_delay: read.number("SQS_MAX_DELAY_SECONDS", SQS_MAX_DELAY_SECONDS, 0, SQS_MAX_DELAY_SECONDS),
        bucket_secs: read.number("WAIT_BUCKET_SECONDS", 60, 1, 3600),
        shards: read.number("WAIT_SHARDS", 128, 1, MAX_SHARDS),
    };
    let lease_margin = Duration::from_secs(read.number("LEASE_MARGIN_SECONDS", 10, 0, 900));
    let protection = read.protection();
    let whole = vapid_subject.zip(push_hosts).zip(egress_allow.zip(egress_roots));
    let config = whole.map(|((vapid_subject, push_hosts), (egress_allow, egress_roots))| DispatchConfig {
        stack,
        state_machine_arn,
        vapid_subject,
        vapid_keys,
        push_hosts,
        egress_allow,
        egress_roots,
        send_timeout,
        webhook_timeout,
        waits,
        lease_margin,
        protection,
    });
    read.finish(config)
}

/// Reads the front door's configuration through `lookup`, usually the environment.
pub fn ingest(lookup: impl Fn(&str) -> Option<String>) -> Result<IngestConfig, ConfigError> {
    let mut read = Reader { lookup, problems: Vec::new() };
    let stack = read.stack();
    let vapid_keys = read.vapid_keys();
    let hosts = read.push_hosts().zip(read.egress_allow());
    let cors_origins = read.cors_origins();
    let rate = read.rate("API_RATE_LIMIT", DEFAULT_API_RATE);
    let config = hosts.map(|(push_hosts, egress_allow)| IngestConfig {
        stack,
        vapid_keys,
        push_hosts,
        egress_allow,
        cors_origins,
        rate,
    });
    read.finish(config)
}

/// Reads cleanup's configuration through `lookup`, usually the environment.
pub fn cleanup(lookup: impl Fn(&str) -> Option<String>) -> Result<CleanupConfig, ConfigError> {
    let mut read = Reader { lookup, problems: Vec::new() };
    let default = SpikeGuard::default();
    let config = CleanupConfig {
        stack: read.stack(),
        guard: SpikeGuard {
            window: Duration::from_secs(read.number(
                "SPIKE_WINDOW_SECONDS",
                default.window.as_secs(),
                1,
                86_400,
            )),
            at_least: read.number("SPIKE_AT_LEAST", default.at_least, 1, u32::MAX),
            share: read.number("SPIKE_SHARE", default.share, 0.0, 1.0),
        },
        late_after: Duration::from_secs(read.number(
            "WAIT_LATE_SECONDS",
            cleanup::LATE_AFTER.as_secs(),
            1,
            86_400,
        )),
        switched_off_after: Duration::from_secs(read.number(
            "WEBHOOK_SWITCHED_OFF_AFTER_SECONDS",
            webhook::SWITCHED_OFF_AFTER.as_secs(),
            1,
            365 * 86_400,
        )),
    };
    read.finish(Some(config))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn complete() -> HashMap<&'static str, &'static str> {
        HashMap::from([
            ("INGEST_QUEUE_URL", "https://sqs.example/1/ingest"),
            ("BULK_QUEUE_URL", "https://sqs.example/1/bulk"),
            ("RETRY_QUEUE_URL", "https://sqs.example/1/retry"),
            ("RETRY_BULK_QUEUE_URL", "https://sqs.example/1/retry-bulk"),
            ("DLQ_URL", "https://sqs.example/1/dlq"),
            ("DELIVERIES_TABLE", "deliveries"),
            ("SUBSCRIPTIONS_TABLE", "subscriptions"),
            ("AUDIENCES_TABLE", "audiences"),
            ("PARKED_TABLE", "parked"),
            ("DEAD_LETTERS_TABLE", "dead_letters"),
            ("CONTROL_TABLE", "control"),
            ("WAIT_STATE_MACHINE_ARN", "arn:aws:states:eu-central-1:1:stateMachine:wait"),
            ("VAPID_SUBJECT", "mailto:ops@example.com"),
            ("VAPID_SECRET_ID", "vapid"),
            ("ENDPOINT_HASH_KEY", "k1:0123456789abcdef"),
            ("WEBHOOK_KEY", "k1:0123456789abcdef"),
        ])
    }

    fn read(vars: &HashMap<&str, &str>) -> Result<DispatchConfig, ConfigError> {
        dispatch(|name| vars.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_defaults_are_the_contract_s() {
        let config = read(&complete()).expect("complete");
        assert_eq!(config.waits, WaitSettings::default());
        assert_eq!(config.lease_margin, Duration::from_secs(10));
        assert_eq!(config.protection, protection::Settings::default());
        assert_eq!(config.stack.policy_max_age, Duration::from_secs(30));
        assert_eq!(config.webhook_timeout, Duration::from_secs(15));
        assert!(config.egress_allow.is_empty());
        let vars = complete();
        let config = cleanup(|name| vars.get(name).map(|value| (*value).to_owned())).expect("complete");
        assert_eq!(config.switched_off_after, Duration::from_secs(5 * 86_400));
    }

    #[test]
    fn everything_that_is_missing_or_bad_is_told_at_once_and_no_value() {
        let mut vars = complete();
        for name in ["DLQ_URL", "CONTROL_TABLE", "VAPID_SUBJECT", "VAPID_SECRET_ID", "ENDPOINT_HASH_KEY"] {
            vars.remove(name);
        }
        vars.insert("WEBHOOK_KEY", "k1:s3cret");
        vars.insert("WEBHOOK_TIMEOUT_SECONDS", "61");
        vars.insert("WAIT_SHARDS", "s3cret");
        vars.insert("SQS_MAX_DELAY_SECONDS", "901");
        vars.insert("EGRESS_ALLOW", "s3cret");
        vars.insert("EGRESS_CA_FILE", "/nowhere/ca.pem");
        vars.insert("PUSH_HOSTS", "a_b");
        vars.insert("EVENTS_QUEUE_ARN", "s3cret");
        let told = read(&vars).expect_err("incomplete").to_string();
        for name in [
            "DLQ_URL",
            "CONTROL_TABLE",
            "VAPID_SUBJECT",
            "VAPID_SECRET_ID",
            "ENDPOINT_HASH_SECRET_ID",
            "WEBHOOK_KEY",
            "WEBHOOK_TIMEOUT_SECONDS",
            "WAIT_SHARDS",
            "SQS_MAX_DELAY_SECONDS",
            "EGRESS_ALLOW",
            "EGRESS_CA_FILE",
            "PUSH_HOSTS",
            "EVENTS_QUEUE_ARN",
        ] {
            assert!(told.contains(name), "{name}: {told}");
        }
        assert!(!told.contains("s3cret"), "{told}");
    }

    #[test]
    fn a_changed_policy_is_never_overlooked_for_longer_than_a_minute() {
        let with = |secs| {
            let mut vars = complete();
            vars.insert("POLICY_CACHE_SECONDS", secs);
            let cleanup = cleanup(|name| vars.get(name).map(|value| (*value).to_owned()));
            let dispatch = read(&vars).map(|config| config.stack.policy_max_age);
            assert_eq!(cleanup.map(|config| config.stack.policy_max_age), dispatch);
            dispatch
        };
        assert_eq!(with("0"), Ok(Duration::ZERO));
        assert_eq!(with("60"), Ok(Duration::from_secs(60)));
        for bad in ["61", "-1", "1.5", "soon"] {
            let told = with(bad).expect_err("out of its range").to_string();
            assert!(told.contains("POLICY_CACHE_SECONDS is not a number from 0 to 60"), "{told}");
        }
    }

    #[test]
    fn the_breaker_can_be_switched_off_and_its_first_cooldown_is_never_longer_than_its_longest() {
        let with = |name, value| {
            let mut vars = complete();
            vars.insert(name, value);
            read(&vars).map(|config| config.protection)
        };
        assert!(
            !with("BREAKER", "off").expect("valid").judges && with("BREAKER", "on").expect("valid").judges
        );
        let secs = |first, longest| protection::Cooldowns {
            first: Duration::from_secs(first),
            longest: Duration::from_secs(longest),
        };
        for (text, first) in [("1", 1), ("30", 30), ("900", 900)] {
            let cooldowns = with("BREAKER_COOLDOWN_SECONDS", text).map(|it| it.cooldowns);
            assert_eq!(cooldowns, Ok(secs(first, 900)));
        }
        for bad in ["0", "901", "soon"] {
            let told = with("BREAKER_COOLDOWN_SECONDS", bad).expect_err("out of its range").to_string();
            assert!(told.contains("BREAKER_COOLDOWN_SECONDS is not a number from 1 to 900"), "{told}");
        }
        let told = with("BREAKER", "s3cret").expect_err("no switch").to_string();
        assert!(told.contains("BREAKER is neither `on` nor `off`") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn the_front_door_is_told_whose_pages_may_call_and_how_much_it_lets_in() {
        let with = |vars: &[(&'static str, &'static str)]| {
            let mut all = complete();
            all.extend(vars.iter().copied());
            ingest(|name| all.get(name).map(|value| (*value).to_owned()))
        };
        let config = with(&[]).expect("complete");
        assert_eq!(config.rate.map(|rate| rate.to_string()).as_deref(), Some(DEFAULT_API_RATE));
        assert!(config.cors_origins.is_empty());
        let config = with(&[
            ("API_RATE_LIMIT", "off"),
            ("API_CORS_ORIGINS", "https://a.example, http://localhost:3000"),
        ]);
        let config = config.expect("complete");
        let origins: Vec<_> = config.cors_origins.iter().map(Origin::as_str).collect();
        assert_eq!((config.rate, origins), (None, vec!["https://a.example", "http://localhost:3000"]));
        let told = with(&[("API_RATE_LIMIT", "s3cret"), ("API_CORS_ORIGINS", "*"), ("DLQ_URL", "")]);
        let told = told.expect_err("no rate, and no origin").to_string();
        for name in ["API_RATE_LIMIT", "API_CORS_ORIGINS", "DLQ_URL"] {
            assert!(told.contains(name), "{name}: {told}");
        }
        assert!(!told.contains("s3cret"), "{told}");
    }

    #[test]
    fn an_empty_variable_is_a_missing_one() {
        let mut vars = complete();
        vars.insert("DLQ_URL", " ");
        vars.insert("EGRESS_ALLOW", "");
        let told = read(&vars).expect_err("incomplete").to_string();
        assert!(told.contains("DLQ_URL is missing") && !told.contains("EGRESS_ALLOW"), "{told}");
    }
}
