//! Which stack a command works on: one deployed to AWS, or one on this machine.
//!
//! `--stack NAME` asks CloudFormation for the outputs of a stack, in the account and region that the AWS SDK's usual
//! environment names. `--local NAME` takes a local stack. Without either it is the one local stack that is up: if there
//! is none, or more than one, nothing is guessed.

mod aws;
#[cfg(feature = "local")]
mod local;
mod outputs;

use std::time::Duration;

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

use crate::failure::Failure;

/// To connect: from a desk, not from within the region.
const CONNECT: Duration = Duration::from_secs(5);

/// One attempt of a call to AWS: long enough for a mebibyte over a slow line.
const AWS_ATTEMPT: Duration = Duration::from_secs(30);

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
    #[arg(long, value_name = "NAME")]
    #[cfg_attr(feature = "local", arg(conflicts_with_all = ["local", "state"]))]
    stack: Option<String>,
    /// A stack on this machine, by its name [default: the one that is up]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    local: Option<String>,
    /// Region of --stack [default: what AWS_REGION or the profile says]
    #[arg(long, value_name = "REGION", requires = "stack")]
    region: Option<String>,
    /// Profile of the AWS configuration for --stack [default: what AWS_PROFILE says]
    #[arg(long, value_name = "NAME", requires = "stack")]
    profile: Option<String>,
    /// Folder that local stacks keep their state in [default: target/redial/stacks]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "DIR")]
    state: Option<std::path::PathBuf>,
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
    #[cfg(feature = "local")]
    #[error(
        "no local stack is up: bring one up with `redial local up`, or name a deployed one with --stack NAME"
    )]
    NoneUp,
    /// Nothing was named, and there is a choice.
    #[cfg(feature = "local")]
    #[error("several local stacks are up: choose one with --local NAME, of {0}")]
    Several(String),
    /// No local stack of that name is up.
    #[cfg(feature = "local")]
    #[error("no local stack named {name} is up; {up}")]
    NotUp {
        /// What was asked for.
        name: String,
        /// Which there are.
        up: String,
    },
    /// The local stacks cannot be looked up.
    #[cfg(feature = "local")]
    #[error("the local stacks cannot be looked up")]
    Local(#[source] crate::local::LocalError),
    /// Nothing was named, and there is nothing else to take.
    #[cfg(not(feature = "local"))]
    #[error("which stack? name one that is deployed to AWS with --stack NAME")]
    NotNamed,
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
        #[cfg(feature = "local")]
        let is_input = matches!(self, Self::Several(_));
        #[cfg(not(feature = "local"))]
        let is_input = matches!(self, Self::NotNamed);
        if is_input { Failure::input(self.to_string()) } else { Failure::from(self) }
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
        #[cfg(feature = "local")]
        return local::find(self.local.as_deref(), self.state.as_deref());
        #[cfg(not(feature = "local"))]
        Err(TargetError::NotNamed)
    }
}
