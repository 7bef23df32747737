//! Which stack a command works on: one deployed to AWS, or one on this machine.
//!
//! `--stack NAME` asks CloudFormation for the outputs of a stack, in the account and region that the AWS SDK's usual
//! environment names. `--local NAME` takes a local stack. Without either it is the one local stack that is up: if there
//! is none, or more than one, nothing is guessed.

mod aws;
mod outputs;

use std::{path::PathBuf, time::Duration};

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use clap::Args;
use redial_adapters::{
    audiences_dynamo::DynamoAudiences,
    aws_http::CaBundleError,
    config::Tables,
    control_dynamo::DynamoControl,
    outbox_sqs::QueueUrls,
    secrets::{SecretError, SecretSource as _, SecretsManager},
    subscriptions_dynamo::DynamoSubscriptions,
    webhook_keys::{WebhookKeys, WebhookKeysError},
};

use crate::{
    failure::Failure,
    local::{self, Known, LocalError},
};

/// To connect: from a desk, not from within the region.
const CONNECT: Duration = Duration::from_secs(5);

/// One attempt of a call to AWS: long enough for a mebibyte over a slow line.
const AWS_ATTEMPT: Duration = Duration::from_secs(30);

/// One attempt of a call to this machine: long enough for an emulator that is busy.
const LOCAL_ATTEMPT: Duration = Duration::from_secs(10);

/// The SDK has none of its own, and a command that hangs tells nothing.
fn timeouts(attempt: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(attempt)
        .operation_timeout(attempt * 3)
        .build()
}

/// Which stack.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which stack")]
pub(crate) struct TargetArgs {
    /// A stack deployed to AWS, by its name in CloudFormation
    #[arg(long, value_name = "NAME", conflicts_with_all = ["local", "state"])]
    stack: Option<String>,
    /// A stack on this machine, by its name [default: the one that is up]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    local: Option<String>,
    /// Region of --stack [default: what AWS_REGION or the profile says]
    #[arg(long, value_name = "REGION", requires = "stack")]
    region: Option<String>,
    /// Profile of the AWS configuration for --stack [default: what AWS_PROFILE says]
    #[arg(long, value_name = "NAME", requires = "stack")]
    profile: Option<String>,
    /// Folder that local stacks keep their state in [default: target/redial/stacks]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// A stack that can be worked on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: String,
    /// For clients of its services.
    pub(crate) sdk: SdkConfig,
    /// Its queues.
    pub(crate) queues: QueueUrls,
    /// The queue of messages that were received too often: its URL.
    pub(crate) quarantine: String,
    /// Its tables.
    pub(crate) tables: Tables,
    /// The secret with the key that webhooks' secrets are sealed with: its name or ARN.
    pub(crate) webhook_key_secret: String,
    /// The name of the function that sends.
    pub(crate) dispatch: String,
    /// The name of the function that stores dead letters.
    pub(crate) cleanup: String,
    /// The name of the function behind the HTTP API.
    pub(crate) ingest: String,
}

/// Why there is no stack to work on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    /// Nothing was named, and nothing is there to be taken.
    #[error(
        "no local stack is up: bring one up with `redial local up`, or name a deployed one with --stack NAME"
    )]
    NoneUp,
    /// Nothing was named, and there is a choice.
    #[error("several local stacks are up: choose one with --local NAME, of {0}")]
    Several(String),
    /// No local stack of that name is up.
    #[error("no local stack named {name} is up; {up}")]
    NotUp {
        /// What was asked for.
        name: String,
        /// Which there are.
        up: String,
    },
    /// The local stacks cannot be looked up.
    #[error("the local stacks cannot be looked up")]
    Local(#[source] LocalError),
    /// The SDK found no region.
    #[error("no AWS region: give --region, set AWS_REGION, or use a profile that has one")]
    NoRegion,
    /// `AWS_CA_BUNDLE` cannot be used.
    #[error(transparent)]
    CaBundle(#[from] CaBundleError),
    /// No such stack in that account and region.
    #[error("no stack named {name} in {region} of this AWS account")]
    NoStack {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        region: String,
    },
    /// CloudFormation did not answer.
    #[error("the stack {name} cannot be looked up: DescribeStacks: {message}")]
    Lookup {
        /// What was asked for.
        name: String,
        /// The service's words.
        message: String,
    },
    /// Its webhook keys cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// What stands in their secret is none.
    #[error("the secret with the key of webhooks cannot be used")]
    WebhookKeys(#[from] WebhookKeysError),
    /// A stack of something else.
    #[error("the stack {name} is not Redial's, or not complete: it has no output {missing}")]
    NotOurs {
        /// What was asked for.
        name: String,
        /// Which outputs it has not.
        missing: String,
    },
}

impl TargetError {
    /// A choice that was left open is a matter of what was given; all else failed.
    fn into_failure(self) -> Failure {
        match self {
            Self::Several(_) => Failure::input(self.to_string()),
            Self::NoneUp
            | Self::NotUp { .. }
            | Self::Local(_)
            | Self::NoRegion
            | Self::CaBundle(_)
            | Self::NoStack { .. }
            | Self::Lookup { .. }
            | Self::Secret(_)
            | Self::WebhookKeys(_)
            | Self::NotOurs { .. } => Failure::from(self),
        }
    }
}

impl Target {
    /// Whether it runs on an emulator on this machine.
    pub(crate) fn is_emulated(&self) -> bool {
        let host = |url: &str| {
            let after = url.split_once("://").map_or(url, |(_, after)| after);
            after.split(['/', ':']).next().unwrap_or_default().to_owned()
        };
        let here = |host: String| host == "localhost" || host.starts_with("127.");
        self.sdk.endpoint_url().is_some_and(|url| here(host(url)))
    }

    /// The stack's webhook keys, read from its secret.
    pub(crate) async fn webhook_keys(&self) -> Result<WebhookKeys, TargetError> {
        let secrets = SecretsManager::new(aws_sdk_secretsmanager::Client::new(&self.sdk));
        let secret = secrets.fetch(&self.webhook_key_secret).await?;
        Ok(WebhookKeys::parse(secret.expose())?)
    }

    /// The stack's audiences.
    pub(crate) fn audiences(&self) -> DynamoAudiences {
        DynamoAudiences::new(aws_sdk_dynamodb::Client::new(&self.sdk), self.tables.audiences.clone())
    }

    /// The stack's stored subscriptions.
    pub(crate) async fn subscriptions(&self) -> Result<DynamoSubscriptions, TargetError> {
        let client = aws_sdk_dynamodb::Client::new(&self.sdk);
        let control = DynamoControl::new(client.clone(), self.tables.control.clone());
        let (table, audiences) = (self.tables.subscriptions.clone(), self.tables.audiences.clone());
        let keys = self.webhook_keys().await?;
        Ok(DynamoSubscriptions::new(client, table, audiences, control, keys))
    }
}

impl TargetArgs {
    /// Finds the stack.
    pub(crate) async fn resolve(&self) -> Result<Target, Failure> {
        self.find().await.map_err(TargetError::into_failure)
    }

    async fn find(&self) -> Result<Target, TargetError> {
        if let Some(name) = &self.stack {
            return aws::deployed(name, self.region.as_deref(), self.profile.as_deref()).await;
        }
        let known = match local::known(self.state.as_deref()) {
            Err(LocalError::NoWorkspace) => Vec::new(),
            known => known.map_err(TargetError::Local)?,
        };
        let name = self.local.as_deref().filter(|name| !name.is_empty());
        choose(known, name).map(on_this_machine)
    }
}

/// The stack of that name, or the only one.
fn choose(mut known: Vec<Known>, name: Option<&str>) -> Result<Known, TargetError> {
    let names = known.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => known.into_iter().find(|known| known.name == name).ok_or_else(|| TargetError::NotUp {
            name: name.to_owned(),
            up: if names.is_empty() { "none is".to_owned() } else { format!("up: {names}") },
        }),
        None => match (known.pop(), known.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(TargetError::Several(names)),
            (None, _) => Err(TargetError::NoneUp),
        },
    }
}

fn on_this_machine(known: Known) -> Target {
    let Known { name, stack } = known;
    Target {
        name,
        sdk: local::sdk_config(&stack.endpoint)
            .into_builder()
            .timeout_config(timeouts(LOCAL_ATTEMPT))
            .build(),
        queues: QueueUrls {
            ingest: stack.queues.ingest,
            bulk: stack.queues.bulk,
            retry: stack.queues.retry,
            retry_bulk: stack.queues.retry_bulk,
            dead_letters: stack.queues.dead_letter,
        },
        quarantine: stack.queues.quarantine,
        tables: stack.tables,
        webhook_key_secret: stack.webhook_key_secret,
        dispatch: stack.functions.dispatch,
        cleanup: stack.functions.cleanup,
        ingest: stack.functions.ingest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{Description, Functions, Queues};

    fn known(name: &str) -> Known {
        let url = |queue: &str| format!("http://127.0.0.1:1/0/{name}-{queue}");
        let table = |table: &str| format!("{name}-{table}");
        let stack = Description {
            endpoint: "http://127.0.0.1:1".to_owned(),
            region: local::REGION.to_owned(),
            queues: Queues {
                ingest: url("ingest"),
                bulk: url("bulk"),
                retry: url("retry"),
                retry_bulk: url("retry-bulk"),
                dead_letter: url("dlq"),
                quarantine: url("quarantine"),
                events: None,
            },
            tables: Tables {
                deliveries: table("deliveries"),
                subscriptions: table("subscriptions"),
                audiences: table("audiences"),
                parked: table("parked"),
                dead_letters: table("dead_letters"),
                control: table("control"),
            },
            state_machine: String::new(),
            functions: Functions {
                dispatch: table("dispatch"),
                cleanup: table("cleanup"),
                ingest: table("ingest"),
            },
            api_url: None,
            webhook_key_secret: "arn:aws:secretsmanager:us-east-1:000000000000:secret:webhook-key".to_owned(),
            pid: Some(1),
            vapid_public_key: String::new(),
        };
        Known { name: name.to_owned(), stack }
    }

    #[test]
    fn the_only_one_is_taken_and_nothing_is_guessed() {
        assert_eq!(choose(vec![known("a")], None).expect("one").name, "a");
        assert!(matches!(choose(Vec::new(), None), Err(TargetError::NoneUp)));
        let several = choose(vec![known("a"), known("b")], None).expect_err("a choice");
        assert_eq!(several.to_string(), "several local stacks are up: choose one with --local NAME, of a, b");
        assert!(matches!(several.into_failure(), Failure::Input(_)));
    }

    #[test]
    fn a_named_one_is_taken_among_several_and_a_missing_one_is_told_with_the_others() {
        assert_eq!(choose(vec![known("a"), known("b")], Some("b")).expect("up").name, "b");
        let missing = choose(vec![known("a"), known("b")], Some("c")).expect_err("not up");
        assert_eq!(missing.to_string(), "no local stack named c is up; up: a, b");
        assert!(choose(Vec::new(), Some("c")).expect_err("not up").to_string().ends_with("none is"));
    }

    #[test]
    fn a_local_stack_s_queues_and_tables_keep_their_parts() {
        let target = on_this_machine(known("a"));
        assert_eq!(target.queues.retry_bulk, "http://127.0.0.1:1/0/a-retry-bulk");
        assert_eq!(target.quarantine, "http://127.0.0.1:1/0/a-quarantine");
        assert!(target.is_emulated());
        assert_eq!(target.tables.dead_letters, "a-dead_letters");
        assert!(target.webhook_key_secret.ends_with(":webhook-key"));
        let functions = [&target.dispatch, &target.cleanup, &target.ingest];
        assert_eq!(functions, ["a-dispatch", "a-cleanup", "a-ingest"]);
    }
}
