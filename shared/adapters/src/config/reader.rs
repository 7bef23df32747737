//! Reads variables, and collects what is missing or invalid.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::protection::Cooldowns;
use redial_core::rate::Rate;
use redial_core::webhook;
use redial_engine::protection;
use serde::{Deserialize, Serialize};

use crate::egress::{EgressAllow, ExtraRoots};
use crate::outbox_sqs::{QueueArn, QueueUrls};
use crate::secrets::Secret;
use crate::vapid::{VapidKeys, VapidSubject};
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

#[derive(Clone, Debug)]
pub enum SecretLocation {
    Value(Secret),
    /// A name or ARN.
    SecretsManager(String),
}

/// What all functions read.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The stack's name: the dimension of its metrics.
    pub stack: String,
    pub queues: QueueUrls,
    /// The producers' queue of events.
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
    pub(super) fn through(lookup: F) -> Self {
        Self { lookup, problems: Vec::new() }
    }

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
                self.problems.push(format!("{name} is not a number from {from} to {to}"));
                default
            }
        }
    }

    fn switch(&mut self, name: &str, default: bool) -> bool {
        match self.optional(name).as_deref() {
            None => default,
            Some("on") => true,
            Some("off") => false,
            Some(_) => {
                self.problems.push(format!("{name} must be `on` or `off`"));
                default
            }
        }
    }

    pub(super) fn protection(&mut self) -> protection::Settings {
        let default = protection::Settings::default();
        let cooldowns = default.cooldowns;
        let longest = cooldowns.longest.as_secs();
        let first = self.seconds("BREAKER_COOLDOWN_SECONDS", cooldowns.first, 1, longest);
        protection::Settings {
            judges: self.switch("BREAKER", default.judges),
            cooldowns: Cooldowns { first, ..cooldowns },
            ..default
        }
    }

    pub(super) fn switched_off_after(&mut self) -> Duration {
        const YEAR: u64 = 365 * 86_400;
        self.seconds("WEBHOOK_SWITCHED_OFF_AFTER_SECONDS", webhook::SWITCHED_OFF_AFTER, 1, YEAR)
    }

    /// A secret in one of two variables.
    fn secret(
        &mut self,
        value: &str,
        id: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> SecretLocation {
        match (self.optional(value), self.optional(id)) {
            (Some(text), _) => {
                if let Err(problem) = check(&text) {
                    self.problems.push(format!("{value} is invalid: {problem}"));
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
            policy_max_age: self.seconds("POLICY_CACHE_SECONDS", Duration::from_secs(30), 0, 60),
        }
    }

    pub(super) fn state_machine(&mut self, name: &str) -> String {
        let arn = self.required(name, "the ARN of a state machine");
        if !arn.is_empty() && !arn.contains(":stateMachine:") {
            self.problems.push(format!("{name} is not the ARN of a state machine"));
        }
        arn
    }

    pub(super) fn vapid_subject(&mut self) -> Option<VapidSubject> {
        let subject = self.required("VAPID_SUBJECT", "a mailto: or https: address of your own");
        VapidSubject::parse(&subject)
            .map_err(|error| {
                if !subject.is_empty() {
                    self.problems.push(format!("VAPID_SUBJECT is invalid: {error}"));
                }
            })
            .ok()
    }

    pub(super) fn egress_roots(&mut self) -> Option<ExtraRoots> {
        let Some(file) = self.optional("EGRESS_CA_FILE") else { return Some(ExtraRoots::default()) };
        ExtraRoots::from_file(Path::new(&file))
            .map_err(|error| self.problems.push(format!("EGRESS_CA_FILE is invalid: {error}")))
            .ok()
    }

    pub(super) fn seconds(&mut self, name: &str, default: Duration, from: u64, to: u64) -> Duration {
        Duration::from_secs(self.number(name, default.as_secs(), from, to))
    }

    pub(super) fn vapid_keys(&mut self) -> SecretLocation {
        self.secret("VAPID_PRIVATE_KEY", "VAPID_SECRET_ID", |text| {
            VapidKeys::parse(text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    pub(super) fn webhook_key(&mut self) -> SecretLocation {
        self.secret("WEBHOOK_KEY", "WEBHOOK_KEY_SECRET_ID", |text| {
            WebhookKeys::parse(text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    pub(super) fn token_key(&mut self) -> SecretLocation {
        self.secret("TOKEN_KEY", "TOKEN_KEY_SECRET_ID", |text| {
            token_keys(text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    pub(super) fn push_hosts(&mut self) -> Option<PushHosts> {
        let hosts = self.optional("PUSH_HOSTS").unwrap_or_else(|| PushHosts::DEFAULT.to_owned());
        PushHosts::parse(&hosts)
            .map_err(|pattern| {
                self.problems.push(format!(
                    "PUSH_HOSTS contains `{pattern}`, which is neither a host nor a `*.` pattern"
                ));
            })
            .ok()
    }

    pub(super) fn egress_allow(&mut self) -> Option<EgressAllow> {
        EgressAllow::parse(&self.optional("EGRESS_ALLOW").unwrap_or_default())
            .map_err(|_| {
                self.problems
                    .push("EGRESS_ALLOW contains an invalid origin (expected https://HOST[:PORT],…)".into());
            })
            .ok()
    }

    /// Sites: origins as a browser writes them.
    pub(super) fn cors_origins(&mut self) -> Vec<Origin> {
        let listed = self.optional("API_CORS_ORIGINS").unwrap_or_default();
        let texts = listed.split(',').map(str::trim).filter(|text| !text.is_empty());
        let origins: Vec<Option<Origin>> = texts.map(Origin::parse).collect();
        if origins.contains(&None) {
            self.problems.push(
                "API_CORS_ORIGINS contains an invalid origin (expected https://HOST[:PORT],…)".to_owned(),
            );
        }
        origins.into_iter().flatten().collect()
    }

    /// A rate, or `off`.
    pub(super) fn rate(&mut self, name: &str, default: &str) -> Option<Rate> {
        let text = self.optional(name).unwrap_or_else(|| default.to_owned());
        if text == "off" {
            return None;
        }
        let rate = Rate::parse(&text);
        if let Err(expected) = &rate {
            self.problems.push(format!("{name} must be a rate or `off` ({expected})"));
        }
        rate.ok()
    }

    pub(super) fn finish<T>(self, config: Option<T>) -> Result<T, ConfigError> {
        match config {
            Some(config) if self.problems.is_empty() => Ok(config),
            _ => Err(ConfigError(self.problems)),
        }
    }
}
