//! Everything that the messages move in: the stack, the push service beside it, and clients of both.

use std::{io::Write as _, time::Duration};

use redial_adapters::{
    control_dynamo::DynamoControl, dead_letters_dynamo::DynamoDeadLetters,
    deliveries_dynamo::DynamoDeliveries, ledger_dynamo::DynamoLedger,
    subscriptions_dynamo::DynamoSubscriptions, webhook_keys::WebhookKeys,
};
use redial_receivers::{push_service::PushService, webhook_receiver::WebhookReceiver};
use serde_json::json;
use tempfile::NamedTempFile;

use super::scenarios::{SEND_TIMEOUT, SQS_MAX_DELAY_SECONDS};
use crate::local::{Description, Options, Progress, Stack, VapidKey, call};
use redial_console::{failure::Failure, terminal::say};

/// How long the first message may take to the push service. It waits for a function's cold start.
const FIRST_POST_LIMIT: Duration = Duration::from_secs(30);

pub(super) const IN_FLIGHT: usize = 8;

/// The id of the key that browsers have subscribed with, and of the one that takes its place.
pub(super) const OLD: &str = "old";
const NEW: &str = "new";

pub(super) struct Keys {
    pub(super) old: VapidKey,
    pub(super) new: VapidKey,
}

impl Keys {
    pub(super) fn generate() -> Self {
        Self { old: VapidKey::generate(), new: VapidKey::generate() }
    }

    /// The secret before the change.
    pub(super) fn before(&self) -> String {
        json!({"default": OLD, "keys": {OLD: self.old.private.expose()}}).to_string()
    }

    /// The secret after it. The old key stays: its subscriptions belong to it for as long as they live.
    pub(super) fn after(&self) -> String {
        json!({"default": NEW, "keys": {OLD: self.old.private.expose(), NEW: self.new.private.expose()}})
            .to_string()
    }
}

pub(super) struct Harness {
    /// First, so that its functions end before the push service does.
    stack: Stack,
    pub(super) push: PushService,
    pub(super) webhooks: WebhookReceiver,
    pub(super) keys: Keys,
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) dynamodb: aws_sdk_dynamodb::Client,
    pub(super) sfn: aws_sdk_sfn::Client,
    secrets: aws_sdk_secretsmanager::Client,
    pub(super) ledger: DynamoLedger,
    /// What the HTTP API and the command line ask.
    pub(super) deliveries: DynamoDeliveries,
    pub(super) letters: DynamoDeadLetters,
    pub(super) subscriptions: DynamoSubscriptions,
    pub(super) webhook_keys: WebhookKeys,
    _certificate: NamedTempFile,
}

#[derive(Debug, thiserror::Error)]
#[error("the stack has no output {0}")]
struct NoOutput(&'static str);

impl Harness {
    pub(super) async fn up(options: Options) -> Result<Self, Failure> {
        let push = PushService::start()?;
        let mut certificate = NamedTempFile::with_prefix("redial-demo-")?;
        let webhooks = WebhookReceiver::start()?;
        write!(certificate, "{}{}", push.ca_pem(), webhooks.ca_pem())?;
        let keys = Keys::generate();
        let environment = [
            ("SQS_MAX_DELAY_SECONDS", SQS_MAX_DELAY_SECONDS.to_string()),
            ("WAIT_BUCKET_SECONDS", "1".to_owned()),
            ("WAIT_SHARDS", "1".to_owned()),
            ("SEND_TIMEOUT_SECONDS", SEND_TIMEOUT.as_secs().to_string()),
            // The demo's failures to one origin, on purpose, would look like an outage.
            ("BREAKER", "off".to_owned()),
        ];
        let stack = Stack::up(Options {
            egress_allow: vec![push.origin().to_owned(), webhooks.origin().to_owned()],
            egress_ca: Some(certificate.path().to_owned()),
            env: environment.map(|(name, value)| (name.to_owned(), value)).into(),
            vapid_private_key: Some(keys.old.private.clone()),
            progress: Progress::to(say),
            ..options
        })
        .await?;
        let sdk = stack.sdk_config();
        let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
        let tables = stack.description().tables.clone();
        let control = DynamoControl::new(dynamodb.clone(), tables.control);
        let secrets = aws_sdk_secretsmanager::Client::new(&sdk);
        let webhook_keys = webhook_keys(&stack, &secrets).await?;
        let harness = Self {
            push,
            webhooks,
            keys,
            sqs: aws_sdk_sqs::Client::new(&sdk),
            sfn: aws_sdk_sfn::Client::new(&sdk),
            secrets,
            deliveries: DynamoDeliveries::new(dynamodb.clone(), tables.deliveries.clone()),
            ledger: DynamoLedger::new(dynamodb.clone(), tables.deliveries),
            letters: DynamoDeadLetters::new(dynamodb.clone(), tables.dead_letters),
            subscriptions: DynamoSubscriptions::new(
                dynamodb.clone(),
                tables.subscriptions,
                tables.audiences,
                control,
                webhook_keys.clone(),
            ),
            webhook_keys,
            dynamodb,
            stack,
            _certificate: certificate,
        };
        harness.set_keys(harness.keys.before()).await?;
        Ok(harness)
    }

    pub(super) fn description(&self) -> &Description {
        self.stack.description()
    }

    pub(super) fn log(&self) -> String {
        self.stack.log()
    }

    pub(super) fn poller_failure(&self) -> Option<String> {
        self.stack.poller_failure()
    }

    /// Waits until the push service has refused a message to this browser, and changes the key before the refusal arrives.
    pub(super) async fn change_key_when_refused(&self, endpoint: &str) -> Result<(), Failure> {
        self.push.wait_for(endpoint, 1, FIRST_POST_LIMIT).await?;
        self.set_keys(self.keys.after()).await
    }

    async fn set_keys(&self, keys: String) -> Result<(), Failure> {
        const OUTPUT: &str = "VapidSecretArn";
        let id = self.stack.output(OUTPUT).ok_or(NoOutput(OUTPUT))?;
        let put = self.secrets.put_secret_value().secret_id(id).secret_string(keys).send().await;
        put.map_err(call("PutSecretValue"))?;
        Ok(())
    }
}

async fn webhook_keys(
    stack: &Stack,
    secrets: &aws_sdk_secretsmanager::Client,
) -> Result<WebhookKeys, Failure> {
    const OUTPUT: &str = "WebhookKeySecretId";
    let id = stack.output(OUTPUT).ok_or(NoOutput(OUTPUT))?;
    let secret = secrets.get_secret_value().secret_id(id).send().await.map_err(call("GetSecretValue"))?;
    Ok(WebhookKeys::parse(secret.secret_string().unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::VapidKeys;

    use super::*;

    #[test]
    fn both_secrets_are_what_a_worker_reads_and_the_default_changes() {
        let keys = Keys::generate();
        let before = VapidKeys::parse(&keys.before()).expect("keys");
        let after = VapidKeys::parse(&keys.after()).expect("keys");
        assert_eq!((before.default_id().as_str(), after.default_id().as_str()), (OLD, NEW));
        assert_eq!(after.ids().count(), 2);
        assert_ne!(keys.old.public, keys.new.public);
    }
}
