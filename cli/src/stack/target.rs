//! A stack's names and addresses, and the adapters that read and write it.

use std::time::Duration;

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use redial_adapters::{
    access_dynamo::DynamoAccess,
    acks_dynamo::DynamoAcks,
    audiences_dynamo::DynamoAudiences,
    aws_http::CaBundleError,
    callbacks_dynamo::DynamoCallbacks,
    config::Tables,
    control_dynamo::DynamoControl,
    dead_letters_dynamo::DynamoDeadLetters,
    deliveries_dynamo::DynamoDeliveries,
    outbox_sqs::QueueUrls,
    policies_dynamo::DynamoPolicies,
    protection_dynamo::DynamoProtection,
    public_keys_dynamo::DynamoPublicKeys,
    quotas_dynamo::DynamoQuotas,
    replica_dynamo::DynamoReplica,
    secrets::{SecretError, SecretsManager},
    subscriptions_dynamo::DynamoSubscriptions,
    webhook_keys::{WebhookKeys, WebhookKeysError},
};

/// To connect: from a desk, not from within the region.
const CONNECT: Duration = Duration::from_secs(5);

/// The SDK has no timeouts of its own, and a command that hangs reports nothing.
pub(super) fn timeouts(attempt: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(attempt)
        .operation_timeout(attempt * 3)
        .build()
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) sdk: SdkConfig,
    pub(crate) queues: QueueUrls,
    /// URL of the queue of messages that were received too often.
    pub(crate) quarantine: String,
    /// URL of the queue of events on their way to their targets, in a stack that relays them.
    pub(crate) relay: Option<String>,
    pub(crate) tables: Tables,
    /// Name or ARN of the secret with the key that webhooks' secrets are sealed with.
    pub(crate) webhook_key_secret: String,
    /// Names of its functions.
    pub(crate) dispatch: String,
    pub(crate) cleanup: String,
    pub(crate) ingest: String,
    /// Where Lambda's API is answered, if not where everything else is.
    pub(crate) lambda_endpoint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[cfg(feature = "local")]
    #[error(
        "no local stack is up: bring one up with `redial local up`, or name a deployed one with --stack NAME or REDIAL_STACK"
    )]
    NoneUp,
    #[cfg(feature = "local")]
    #[error("several local stacks are up: choose one with --local NAME, of {0}")]
    Several(String),
    #[cfg(feature = "local")]
    #[error("no local stack named {name} is up; {up}")]
    NotUp { name: String, up: String },
    #[cfg(feature = "local")]
    #[error("the stack {name} cannot be used: {found}")]
    Lost { name: String, found: String },
    /// The emulator of the stack that was meant has ended.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Ended(crate::local::LocalError),
    #[cfg(feature = "local")]
    #[error("the local stacks cannot be read")]
    Local(#[source] crate::local::LocalError),
    #[error("{0}: it is about a deployed stack: name one with --stack NAME or REDIAL_STACK")]
    OnlyDeployed(&'static str),
    #[cfg(not(feature = "local"))]
    #[error("no stack is selected: name one that is deployed to AWS with --stack NAME")]
    NotNamed,
    #[error("no AWS region: give --region, set AWS_REGION, or use a profile that has one")]
    NoRegion,
    #[error(transparent)]
    CaBundle(#[from] CaBundleError),
    #[error("no stack named {name} in {region} of this AWS account")]
    NoStack { name: String, region: String },
    #[error("the stack {name} cannot be read: {words}")]
    Lookup { name: String, words: String },
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the secret with the webhook key cannot be used")]
    WebhookKeys(#[from] WebhookKeysError),
    #[error("the stack {name} is not a Redial stack, or incomplete: it has no output {missing}")]
    NotOurs { name: String, missing: String },
}

impl TargetError {
    /// Whether other arguments cure it.
    pub(super) fn is_input(&self) -> bool {
        #[cfg(feature = "local")]
        return matches!(self, Self::Several(_) | Self::OnlyDeployed(_));
        #[cfg(not(feature = "local"))]
        matches!(self, Self::NotNamed | Self::OnlyDeployed(_))
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

    /// Whether its functions are processes of this machine, beside the emulator.
    pub(crate) fn are_functions_here(&self) -> bool {
        self.lambda_endpoint.is_some()
    }

    pub(crate) async fn webhook_keys(&self) -> Result<WebhookKeys, TargetError> {
        let secrets = SecretsManager::new(aws_sdk_secretsmanager::Client::new(&self.sdk));
        let secret = secrets.fetch(&self.webhook_key_secret).await?;
        Ok(WebhookKeys::parse(secret.expose())?)
    }

    pub(crate) fn lambda(&self) -> aws_sdk_lambda::Client {
        let config = aws_sdk_lambda::config::Builder::from(&self.sdk);
        let config = match &self.lambda_endpoint {
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config,
        };
        aws_sdk_lambda::Client::from_conf(config.build())
    }

    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk)
    }

    pub(crate) fn access(&self) -> DynamoAccess {
        DynamoAccess::new(self.dynamodb(), self.tables.control.clone())
    }

    pub(crate) fn audiences(&self) -> DynamoAudiences {
        DynamoAudiences::new(self.dynamodb(), self.tables.audiences.clone())
    }

    pub(crate) fn acks(&self) -> DynamoAcks {
        DynamoAcks::new(self.dynamodb(), self.tables.deliveries.clone())
    }

    pub(crate) fn deliveries(&self) -> DynamoDeliveries {
        DynamoDeliveries::new(self.dynamodb(), self.tables.deliveries.clone())
    }

    pub(crate) fn dead_letters(&self) -> DynamoDeadLetters {
        DynamoDeadLetters::new(self.dynamodb(), self.tables.dead_letters.clone())
    }

    /// The policies of its tenants, without a cache.
    pub(crate) fn policies(&self) -> DynamoPolicies {
        DynamoPolicies::new(self.dynamodb(), self.tables.control.clone(), Duration::ZERO)
    }

    /// The callbacks of its tenants, without a cache.
    pub(crate) fn callbacks(&self) -> DynamoCallbacks {
        DynamoCallbacks::new(self.dynamodb(), self.tables.control.clone(), Duration::ZERO)
    }

    pub(crate) fn protection(&self) -> DynamoProtection {
        DynamoProtection::new(self.dynamodb(), self.tables.control.clone())
    }

    pub(crate) fn quotas(&self) -> DynamoQuotas {
        DynamoQuotas::new(self.dynamodb(), self.tables.control.clone())
    }

    pub(crate) fn public_keys(&self) -> DynamoPublicKeys {
        DynamoPublicKeys::new(self.dynamodb(), self.tables.control.clone())
    }

    pub(crate) async fn subscriptions(&self) -> Result<DynamoSubscriptions, TargetError> {
        Ok(self.subscriptions_with(Some(self.webhook_keys().await?)))
    }

    /// Those that show no webhook's secrets and headers, and store none.
    pub(crate) fn subscriptions_without_secrets(&self) -> DynamoSubscriptions {
        self.subscriptions_with(None)
    }

    /// What another stack takes over from it.
    pub(crate) fn replica(&self) -> DynamoReplica {
        self.replica_with(self.subscriptions_without_secrets())
    }

    /// What it takes over from another stack; with its webhook keys, so that what they do not open is refused.
    pub(crate) async fn replica_to_write(&self) -> Result<DynamoReplica, TargetError> {
        Ok(self.replica_with(self.subscriptions().await?))
    }

    fn replica_with(&self, subscriptions: DynamoSubscriptions) -> DynamoReplica {
        DynamoReplica::new(subscriptions, self.dynamodb(), self.tables.control.clone())
    }

    fn subscriptions_with(&self, keys: Option<WebhookKeys>) -> DynamoSubscriptions {
        let control = DynamoControl::new(self.dynamodb(), self.tables.control.clone());
        let (table, audiences) = (self.tables.subscriptions.clone(), self.tables.audiences.clone());
        DynamoSubscriptions::new(self.dynamodb(), table, audiences, control, keys)
    }
}
