//! Reads variables, and collects what is missing or invalid.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::protection::Cooldowns;
use redial_core::quota::{self, Limit};
use redial_core::rate::Rate;
use redial_core::strip::StripFields;
use redial_core::subscription::{SameEndpoint, Suspects};
use redial_core::webhook;
use redial_core::zone::Zone;
use redial_engine::protection;
use serde::{Deserialize, Serialize};

use crate::egress::{EgressAllow, ExtraRoots};
use crate::otlp::{Collector, CollectorHeaders};
use crate::outbox_sqs::{QueueArn, QueueUrls};
use crate::secrets::{Secret, SecretLocation};
use crate::success_logs::SuccessLogs;
use crate::vapid::VapidSubject;
use crate::webhook_keys::{WebhookKeys, token_keys};

/// The names of a stack's tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tables {
    pub deliveries: String,
    pub subscriptions: String,
    pub audiences: String,
    pub parked: String,
    pub dead_letters: String,
    pub control: String,
}

impl Tables {
    pub fn all(&self) -> [&str; 6] {
        [
            &self.deliveries,
            &self.subscriptions,
            &self.audiences,
            &self.parked,
            &self.dead_letters,
            &self.control,
        ]
    }
}

/// What all functions read.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The stack's name: the dimension of its metrics.
    pub stack: String,
    pub queues: QueueUrls,
    /// Where events are announced: the producers' queue, or the stack's own, from which they are relayed.
    pub events: Option<QueueArn>,
    pub tables: Tables,
    /// The key that endpoints are hashed with.
    pub hash_key: SecretLocation,
    /// How long tenants' policies are cached.
    pub policy_max_age: Duration,
}

/// Everything that is missing or invalid in the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError(Vec<String>);

/// As text: `main` prints this form when it fails.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid configuration: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// The environment, and the problems found so far.
pub(super) struct Reader<F> {
    lookup: F,
    problems: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// What `read` reads, if nothing that it read was missing or invalid: then it may return anything.
    pub(super) fn through<T>(lookup: F, read: impl FnOnce(&mut Self) -> Option<T>) -> Result<T, ConfigError> {
        let mut reader = Self { lookup, problems: Vec::new() };
        let config = read(&mut reader);
        config.filter(|_| reader.problems.is_empty()).ok_or(ConfigError(reader.problems))
    }

    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// A variable that is set and not empty.
    fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn required(&mut self, name: &str, expected: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.problem(format!("{name} is missing (expected {expected})"));
            String::new()
        })
    }

    fn queue(&mut self, name: &str) -> String {
        let url = self.required(name, "the URL of an SQS queue");
        if !url.is_empty() && !url.starts_with("http") {
            self.problem(format!("{name} is not a URL (expected the URL of an SQS queue)"));
        }
        url
    }

    pub(super) fn number<T: FromStr + PartialOrd + fmt::Display>(
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
                self.problem(format!("{name} is not a number from {from} to {to}"));
                default
            }
        }
    }

    pub(super) fn switch(&mut self, name: &str, default: bool) -> bool {
        match self.optional(name).as_deref() {
            None => default,
            Some("on") => true,
            Some("off") => false,
            Some(_) => {
                self.problem(format!("{name} must be `on` or `off`"));
                default
            }
        }
    }

    /// One of some labels, which `expected` lists; without a value, the default.
    fn label<T: Default>(&mut self, name: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        let Some(text) = self.optional(name) else { return T::default() };
        parse(&text).unwrap_or_else(|| {
            self.problem(format!("{name} must be {expected}"));
            T::default()
        })
    }

    pub(super) fn success_logs(&mut self) -> SuccessLogs {
        self.label("SUCCESS_LOGS", "`all`, `sampled` or `none`", SuccessLogs::from_label)
    }

    pub(super) fn otlp_endpoint(&mut self) -> Option<Collector> {
        let collector = Collector::parse(&self.optional("OTLP_ENDPOINT")?);
        collector.map_err(|error| self.problem(format!("OTLP_ENDPOINT {error}"))).ok()
    }

    /// A secret that may be missing.
    pub(super) fn otlp_headers(&mut self) -> Option<SecretLocation> {
        let Some(text) = self.optional("OTLP_HEADERS") else {
            return self.optional("OTLP_HEADERS_SECRET_ID").map(SecretLocation::SecretsManager);
        };
        if let Err(error) = CollectorHeaders::parse(&text) {
            self.problem(format!("OTLP_HEADERS is invalid: {error}"));
        }
        Some(SecretLocation::Value(Secret::new(text)))
    }

    pub(super) fn protection(&mut self, longest_attempt: Duration) -> protection::Settings {
        let default = protection::Settings::default();
        let cooldowns = default.cooldowns;
        let longest = cooldowns.longest.as_secs();
        let first = self.seconds("BREAKER_COOLDOWN_SECONDS", cooldowns.first, 1, longest);
        protection::Settings {
            judges: self.switch("BREAKER", default.judges),
            cooldowns: Cooldowns { first, ..cooldowns },
            longest_attempt,
            ..default
        }
    }

    pub(super) fn switched_off_after(&mut self) -> Duration {
        const YEAR: u64 = 365 * 86_400;
        self.seconds("WEBHOOK_SWITCHED_OFF_AFTER_SECONDS", webhook::SWITCHED_OFF_AFTER, 1, YEAR)
    }

    pub(super) fn strip_fields(&mut self) -> StripFields {
        let fields = StripFields::parse(&self.optional("STRIP_PAYLOAD_FIELDS").unwrap_or_default());
        fields.unwrap_or_else(|| {
            let (most, longest) = (StripFields::MOST, StripFields::LONGEST);
            self.problem(format!(
                "STRIP_PAYLOAD_FIELDS must be at most {most} names of 1 to {longest} bytes with commas between them"
            ));
            StripFields::default()
        })
    }

    /// In days; 0 is any time.
    pub(super) fn stale_after(&mut self) -> Option<Duration> {
        const TEN_YEARS: u64 = 3_650;
        let days: u64 = self.number("STALE_AFTER_DAYS", 0, 0, TEN_YEARS);
        (days > 0).then(|| Duration::from_secs(days * 86_400))
    }

    pub(super) fn time_zone(&mut self) -> Zone {
        let Some(name) = self.optional("DEFAULT_TIME_ZONE") else { return Zone::utc() };
        Zone::parse(&name).unwrap_or_else(|| {
            self.problem(format!("DEFAULT_TIME_ZONE must be {}", Zone::expected(&name)));
            Zone::utc()
        })
    }

    pub(super) fn same_endpoint(&mut self) -> SameEndpoint {
        self.label("SAME_ENDPOINT", "`replace` or `refuse`", SameEndpoint::from_label)
    }

    pub(super) fn suspects(&mut self) -> Suspects {
        self.label("SUSPECT_SUBSCRIPTIONS", "`send` or `hold`", Suspects::from_label)
    }

    /// A secret in one of two variables.
    pub(super) fn secret<T, E: fmt::Display>(
        &mut self,
        value: &str,
        id: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> SecretLocation {
        if let Some(text) = self.optional(value) {
            if let Err(error) = parse(&text) {
                self.problem(format!("{value} is invalid: {error}"));
            }
            return SecretLocation::Value(Secret::new(text));
        }
        let found = self.optional(id);
        if found.is_none() {
            self.problem(format!("{value} or {id} is missing"));
        }
        SecretLocation::SecretsManager(found.unwrap_or_default())
    }

    pub(super) fn webhook_key(&mut self) -> SecretLocation {
        self.secret("WEBHOOK_KEY", "WEBHOOK_KEY_SECRET_ID", WebhookKeys::parse)
    }

    pub(super) fn token_key(&mut self) -> SecretLocation {
        self.secret("TOKEN_KEY", "TOKEN_KEY_SECRET_ID", token_keys)
    }

    /// A queue in the function's own region: no other can be sent to by the client of the stack's queues.
    pub(super) fn queue_arn(&mut self, name: &str) -> Option<QueueArn> {
        let arn = self.optional(name)?;
        let Some(queue) = QueueArn::parse(&arn) else {
            self.problem(format!("{name} is not the ARN of a standard SQS queue"));
            return None;
        };
        if let Some(own) = self.optional("AWS_REGION")
            && own != queue.region()
        {
            self.problem(format!(
                "{name} (parameter EventsQueueArn) is a queue in {}, and the stack is in {own} (expected a queue in {own})",
                queue.region()
            ));
        }
        Some(queue)
    }

    pub(super) fn event_bus(&mut self) -> Option<String> {
        let arn = self.optional("EVENT_BUS_ARN")?;
        if !(arn.starts_with("arn:") && arn.contains(":events:") && arn.contains(":event-bus/")) {
            self.problem("EVENT_BUS_ARN is not the ARN of an EventBridge bus");
        }
        Some(arn)
    }

    pub(super) fn stack(&mut self) -> StackConfig {
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
            events: self.queue_arn("EVENTS_QUEUE_ARN"),
            tables: Tables {
                deliveries: self.required("DELIVERIES_TABLE", A_TABLE),
                subscriptions: self.required("SUBSCRIPTIONS_TABLE", A_TABLE),
                audiences: self.required("AUDIENCES_TABLE", A_TABLE),
                parked: self.required("PARKED_TABLE", A_TABLE),
                dead_letters: self.required("DEAD_LETTERS_TABLE", A_TABLE),
                control: self.required("CONTROL_TABLE", A_TABLE),
            },
            hash_key: self.secret("ENDPOINT_HASH_KEY", "ENDPOINT_HASH_SECRET_ID", HashKeys::parse),
            policy_max_age: self.seconds("POLICY_CACHE_SECONDS", Duration::from_secs(30), 0, 60),
        }
    }

    pub(super) fn state_machine(&mut self) -> String {
        let arn = self.required("WAIT_STATE_MACHINE_ARN", "the ARN of a state machine");
        if !arn.is_empty() && !arn.contains(":stateMachine:") {
            self.problem("WAIT_STATE_MACHINE_ARN is not the ARN of a state machine");
        }
        arn
    }

    pub(super) fn vapid_subject(&mut self) -> Option<VapidSubject> {
        let subject = self.required("VAPID_SUBJECT", "a mailto: or https: address of your own");
        let parsed = VapidSubject::parse(&subject);
        if let Err(error) = parsed.as_ref()
            && !subject.is_empty()
        {
            self.problem(format!("VAPID_SUBJECT is invalid: {error}"));
        }
        parsed.ok()
    }

    pub(super) fn egress_roots(&mut self) -> ExtraRoots {
        let Some(file) = self.optional("EGRESS_CA_FILE") else { return ExtraRoots::default() };
        ExtraRoots::from_file(Path::new(&file)).unwrap_or_else(|error| {
            self.problem(format!("EGRESS_CA_FILE is invalid: {error}"));
            ExtraRoots::default()
        })
    }

    pub(super) fn seconds(&mut self, name: &str, default: Duration, from: u64, to: u64) -> Duration {
        Duration::from_secs(self.number(name, default.as_secs(), from, to))
    }

    pub(super) fn push_hosts(&mut self) -> PushHosts {
        let hosts = self.optional("PUSH_HOSTS");
        PushHosts::parse(hosts.as_deref().unwrap_or(PushHosts::DEFAULT)).unwrap_or_else(|pattern| {
            self.problem(format!(
                "PUSH_HOSTS contains `{pattern}`, which is neither a host nor a `*.` pattern"
            ));
            PushHosts::parse(PushHosts::DEFAULT).expect("invariant: the default is valid")
        })
    }

    pub(super) fn egress_allow(&mut self) -> EgressAllow {
        EgressAllow::parse(&self.optional("EGRESS_ALLOW").unwrap_or_default()).unwrap_or_else(|_| {
            self.problem("EGRESS_ALLOW contains an invalid origin (expected https://HOST[:PORT],…)");
            EgressAllow::default()
        })
    }

    /// Sites: origins as a browser writes them.
    pub(super) fn cors_origins(&mut self) -> Vec<Origin> {
        let listed = self.optional("API_CORS_ORIGINS").unwrap_or_default();
        let texts = listed.split(',').map(str::trim).filter(|text| !text.is_empty());
        let origins: Option<Vec<Origin>> = texts.map(Origin::parse).collect();
        origins.unwrap_or_else(|| {
            self.problem("API_CORS_ORIGINS contains an invalid origin (expected https://HOST[:PORT],…)");
            Vec::new()
        })
    }

    /// What each tenant may have that has no quotas of its own.
    pub(super) fn quotas(&mut self) -> quota::Limits {
        let mut of = |name: &str| {
            let Some(text) = self.optional(name) else { return quota::Limits::DEFAULT };
            Limit::parse(&text).unwrap_or_else(|expected| {
                self.problem(format!("{name} is not a quota ({expected})"));
                quota::Limits::DEFAULT
            })
        };
        quota::Limits {
            subscriptions: of("QUOTA_SUBSCRIPTIONS"),
            parked: of("QUOTA_PARKED"),
            dead_letters: of("QUOTA_DEAD_LETTERS"),
        }
    }

    /// A rate, or `off`.
    pub(super) fn rate(&mut self, name: &str, default: &str) -> Option<Rate> {
        let text = self.optional(name);
        let text = text.as_deref().unwrap_or(default);
        if text == "off" {
            return None;
        }
        Rate::parse(text)
            .map_err(|expected| self.problem(format!("{name} must be a rate or `off` ({expected})")))
            .ok()
    }
}
