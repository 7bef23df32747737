//! The functions' worlds: clients built once, every port with its adapter.

mod front_door;
mod start;

use std::error::Error;
use std::time::Duration;

use aws_config::SdkConfig;
use rand::RngExt;
use redial_core::access::TokenKeys;
use redial_core::endpoint::HashKeys;
use redial_core::metric::Metric;
use redial_core::policy::catalogue;
use redial_engine::ports::{CleanupEnvironment, Clock, Environment, Randomness, Telemetry};
use redial_engine::protection::Guard;
use redial_engine::{cleanup, deliver};

use crate::api_calls::ApiCalls;
use crate::audiences_dynamo::DynamoAudiences;
use crate::aws_http::sdk_config;
use crate::config::{CleanupConfig, DispatchConfig, SecretLocation, StackConfig};
use crate::control_dynamo::DynamoControl;
use crate::dead_letters_dynamo::DynamoDeadLetters;
use crate::egress::{Egress, EgressConfig};
use crate::ledger_dynamo::DynamoLedger;
use crate::outbox_sqs::SqsOutbox;
use crate::parked_dynamo::DynamoParking;
use crate::policies_dynamo::DynamoPolicies;
use crate::protection_dynamo::DynamoProtection;
use crate::public_keys_dynamo::DynamoPublicKeys;
use crate::seal::DefaultSealer;
use crate::secrets::{Secret, SecretSource, SecretsManager};
use crate::subscriptions_dynamo::DynamoSubscriptions;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::{LoadVapidKeys, VapidKeySource, VapidSigner};
use crate::waits_sfn::SfnWaits;
use crate::web_push_sender::WebPushSender;
use crate::webhook_keys::{self, WebhookKeys};
use crate::webhook_sender::StandardWebhookSender;
use crate::write_units::WriteUnits;

pub use front_door::FrontDoorEnvironment;
pub use start::DispatchStart;

/// How long a webhook may take to connect: its receiver is anywhere, where push services are near.
const WEBHOOK_CONNECT: Duration = Duration::from_secs(5);

/// What initialisation fails with.
pub type InitError = Box<dyn Error + Send + Sync>;

/// Where AWS is found, and how many calls were made to it.
#[derive(Clone, Debug)]
struct Aws {
    sdk: SdkConfig,
    calls: ApiCalls,
}

impl Aws {
    async fn find() -> Result<Self, InitError> {
        install_crypto();
        let invalid: Vec<String> = catalogue::packaged_invalid().iter().map(ToString::to_string).collect();
        if !invalid.is_empty() {
            return Err(format!("built with policies that are not valid: {}", invalid.join("; ")).into());
        }
        Ok(Self { sdk: sdk_config().await?, calls: ApiCalls::default() })
    }

    fn sqs(&self) -> aws_sdk_sqs::Client {
        let sqs = aws_sdk_sqs::config::Builder::from(&self.sdk).interceptor(self.calls.clone());
        aws_sdk_sqs::Client::from_conf(sqs.build())
    }

    fn secrets(&self) -> SecretsManager {
        let secrets =
            aws_sdk_secretsmanager::config::Builder::from(&self.sdk).interceptor(self.calls.clone());
        SecretsManager::new(aws_sdk_secretsmanager::Client::from_conf(secrets.build()))
    }
}

/// What all functions have.
#[derive(Debug)]
struct Shared {
    calls: ApiCalls,
    units: WriteUnits,
    telemetry: JsonTelemetry,
    outbox: SqsOutbox,
    ledger: DynamoLedger,
    subscriptions: DynamoSubscriptions,
    audiences: DynamoAudiences,
    parking: DynamoParking,
    control: DynamoControl,
    policies: DynamoPolicies,
    public_keys: DynamoPublicKeys,
    protection: DynamoProtection,
    dead_letters: DynamoDeadLetters,
}

impl Shared {
    /// Without `webhook_keys`, receivers' secrets stay sealed.
    fn connect(aws: Aws, stack: &StackConfig, webhook_keys: Option<WebhookKeys>) -> Self {
        let sqs = aws.sqs();
        let Aws { sdk, calls } = aws;
        let units = WriteUnits::default();
        let dynamo = aws_sdk_dynamodb::config::Builder::from(&sdk).interceptor(calls.clone()).build();
        let dynamo = aws_sdk_dynamodb::Client::from_conf(dynamo);
        let tables = &stack.tables;
        let control = DynamoControl::new(dynamo.clone(), tables.control.clone());
        Self {
            telemetry: JsonTelemetry::new(stack.stack.clone()),
            outbox: SqsOutbox::new(sqs, stack.queues.clone()).telling(stack.events.clone()),
            ledger: DynamoLedger::new(dynamo.clone(), tables.deliveries.clone()).metered(units.clone()),
            subscriptions: DynamoSubscriptions::new(
                dynamo.clone(),
                tables.subscriptions.clone(),
                tables.audiences.clone(),
                control.clone(),
                webhook_keys,
            )
            .metered(units.clone()),
            audiences: DynamoAudiences::new(dynamo.clone(), tables.audiences.clone()).metered(units.clone()),
            parking: DynamoParking::new(dynamo.clone(), tables.parked.clone()).metered(units.clone()),
            dead_letters: DynamoDeadLetters::new(dynamo.clone(), tables.dead_letters.clone())
                .metered(units.clone()),
            protection: DynamoProtection::new(dynamo.clone(), tables.control.clone()).metered(units.clone()),
            public_keys: DynamoPublicKeys::new(dynamo.clone(), tables.control.clone()),
            policies: DynamoPolicies::new(dynamo, tables.control.clone(), stack.policy_max_age),
            control,
            calls,
            units,
        }
    }

    /// Writes the invocation's metrics.
    fn flush(&self) {
        self.telemetry.count(Metric::ApiCalls, self.calls.take());
        self.telemetry.count(Metric::WriteUnits, self.units.take());
        self.telemetry.flush(System.now());
    }
}

/// The keys that stand at `location`; they are `what`.
async fn keys<K, E: std::fmt::Display>(
    location: &SecretLocation,
    secrets: &SecretsManager,
    what: &str,
    parse: impl Fn(&str) -> Result<K, E>,
) -> Result<K, InitError> {
    let secret: Secret = match location {
        SecretLocation::Value(secret) => secret.clone(),
        SecretLocation::SecretsManager(id) => secrets.fetch(id).await?,
    };
    parse(secret.expose()).map_err(|error| format!("the key that {what} cannot be used: {error}").into())
}

async fn hash_keys(stack: &StackConfig, secrets: &SecretsManager) -> Result<HashKeys, InitError> {
    keys(&stack.hash_key, secrets, "endpoints are hashed with", HashKeys::parse).await
}

async fn webhook_keys(location: &SecretLocation, secrets: &SecretsManager) -> Result<WebhookKeys, InitError> {
    keys(location, secrets, "webhooks' secrets are sealed with", WebhookKeys::parse).await
}

async fn token_keys(location: &SecretLocation, secrets: &SecretsManager) -> Result<TokenKeys, InitError> {
    keys(location, secrets, "browsers' tokens are made with", webhook_keys::token_keys).await
}

fn vapid_source(location: &SecretLocation, secrets: &SecretsManager) -> VapidKeySource<SecretsManager> {
    match location {
        SecretLocation::Value(secret) => VapidKeySource::Environment(secret.clone()),
        SecretLocation::SecretsManager(id) => {
            VapidKeySource::SecretsManager { secrets: secrets.clone(), id: id.clone() }
        }
    }
}

type Sender = WebPushSender<DefaultSealer, VapidKeySource<SecretsManager>, System>;

/// Dispatch's world.
#[derive(Debug)]
pub struct DispatchEnvironment {
    shared: Shared,
    sender: Sender,
    webhooks: StandardWebhookSender<System>,
    waits: SfnWaits,
    /// Read anew each time that the public halves are published.
    vapid: VapidKeySource<SecretsManager>,
    /// Lives as long as the process: it remembers.
    guard: Guard,
}

impl DispatchEnvironment {
    /// Builds the clients and loads the keys, all at once.
    async fn connect(aws: Aws, config: DispatchConfig) -> Result<(Self, deliver::Settings), InitError> {
        let secrets = aws.secrets();
        let source = vapid_source(&config.vapid_keys, &secrets);
        let signer = async { Ok(VapidSigner::start(source, config.vapid_subject).await?) };
        let (hash_keys, webhook_keys, token_keys, signer) = futures_util::try_join!(
            hash_keys(&config.stack, &secrets),
            webhook_keys(&config.webhook_key, &secrets),
            token_keys(&config.token_key, &secrets),
            signer,
        )?;
        let egress = |connect_timeout, total_timeout| {
            Egress::new(EgressConfig {
                connect_timeout,
                total_timeout,
                allow: config.egress_allow.clone(),
                extra_roots: config.egress_roots.clone(),
            })
        };
        let pushes = egress(EgressConfig::default().connect_timeout, config.send_timeout);
        let webhooks = egress(WEBHOOK_CONNECT, config.webhook_timeout);
        let settings = deliver::Settings {
            waits: config.waits,
            push_hosts: config.push_hosts,
            egress_allow: config.egress_allow.origins().cloned().collect(),
            hash_keys,
            lease_margin: config.lease_margin,
            token_keys,
            switched_off_after: config.switched_off_after,
        };
        let sfn = aws_sdk_sfn::config::Builder::from(&aws.sdk).interceptor(aws.calls.clone()).build();
        let sfn = aws_sdk_sfn::Client::from_conf(sfn);
        let it = Self {
            vapid: vapid_source(&config.vapid_keys, &secrets),
            shared: Shared::connect(aws, &config.stack, Some(webhook_keys.clone())),
            sender: WebPushSender::new(DefaultSealer::new(), signer, pushes, System),
            webhooks: StandardWebhookSender::new(webhook_keys, webhooks, System),
            waits: SfnWaits::new(sfn, config.state_machine_arn, config.stack.queues),
            // Drawn, so that workers spread evenly over counters and parts of buckets.
            guard: Guard::new(config.protection, System.rng().random()),
        };
        Ok((it, settings))
    }

    /// Reads the VAPID keys as they are now, and publishes their public halves, which the HTTP API lists.
    pub async fn publish_vapid_keys(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let keys = self.vapid.load().await?;
        Ok(self.shared.public_keys.publish(&keys).await?)
    }

    /// Writes the invocation's metrics.
    pub fn flush(&self) {
        self.shared.flush();
    }
}

/// ring is the one crypto library of the process. A second call changes nothing.
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Environment for DispatchEnvironment {
    type Clock = System;
    type Randomness = System;
    type Ledger = DynamoLedger;
    type Policies = DynamoPolicies;
    type Protection = DynamoProtection;
    type Subscriptions = DynamoSubscriptions;
    type Audiences = DynamoAudiences;
    type Sender = Sender;
    type Webhooks = StandardWebhookSender<System>;
    type Outbox = SqsOutbox;
    type Parking = DynamoParking;
    type WaitRegistry = DynamoControl;
    type WaitExecutions = SfnWaits;
    type DeadLetterBodies = DynamoDeadLetters;
    type Telemetry = JsonTelemetry;

    fn clock(&self) -> &System {
        &System
    }
    fn randomness(&self) -> &System {
        &System
    }
    fn ledger(&self) -> &DynamoLedger {
        &self.shared.ledger
    }
    fn policies(&self) -> &DynamoPolicies {
        &self.shared.policies
    }
    fn protection(&self) -> &DynamoProtection {
        &self.shared.protection
    }
    fn guard(&self) -> &Guard {
        &self.guard
    }
    fn subscriptions(&self) -> &DynamoSubscriptions {
        &self.shared.subscriptions
    }
    fn audiences(&self) -> &DynamoAudiences {
        &self.shared.audiences
    }
    fn sender(&self) -> &Sender {
        &self.sender
    }
    fn webhooks(&self) -> &StandardWebhookSender<System> {
        &self.webhooks
    }
    fn outbox(&self) -> &SqsOutbox {
        &self.shared.outbox
    }
    fn parking(&self) -> &DynamoParking {
        &self.shared.parking
    }
    fn wait_registry(&self) -> &DynamoControl {
        &self.shared.control
    }
    fn wait_executions(&self) -> &SfnWaits {
        &self.waits
    }
    fn dead_letter_bodies(&self) -> &DynamoDeadLetters {
        &self.shared.dead_letters
    }
    fn telemetry(&self) -> &JsonTelemetry {
        &self.shared.telemetry
    }
}

/// Cleanup's world.
#[derive(Debug)]
pub struct CleaningEnvironment {
    shared: Shared,
}

impl CleaningEnvironment {
    /// Builds the clients and loads the keys.
    pub async fn connect(config: CleanupConfig) -> Result<(Self, cleanup::Settings), InitError> {
        let aws = Aws::find().await?;
        let secrets = aws.secrets();
        let (hash_keys, webhook_keys) = futures_util::try_join!(
            hash_keys(&config.stack, &secrets),
            webhook_keys(&config.webhook_key, &secrets),
        )?;
        let settings = cleanup::Settings {
            hash_keys,
            guard: config.guard,
            late_after: config.late_after,
            switched_off_after: config.switched_off_after,
        };
        Ok((Self { shared: Shared::connect(aws, &config.stack, Some(webhook_keys)) }, settings))
    }

    /// Writes the invocation's metrics.
    pub fn flush(&self) {
        self.shared.flush();
    }
}

impl CleanupEnvironment for CleaningEnvironment {
    type Clock = System;
    type LedgerReader = DynamoLedger;
    type Policies = DynamoPolicies;
    type SubscriptionHealth = DynamoSubscriptions;
    type Audiences = DynamoAudiences;
    type Outbox = SqsOutbox;
    type Parking = DynamoParking;
    type WaitRegistry = DynamoControl;
    type DeadLetters = DynamoDeadLetters;
    type Telemetry = JsonTelemetry;

    fn clock(&self) -> &System {
        &System
    }
    fn ledger(&self) -> &DynamoLedger {
        &self.shared.ledger
    }
    fn policies(&self) -> &DynamoPolicies {
        &self.shared.policies
    }
    fn audiences(&self) -> &DynamoAudiences {
        &self.shared.audiences
    }
    fn health(&self) -> &DynamoSubscriptions {
        &self.shared.subscriptions
    }
    fn outbox(&self) -> &SqsOutbox {
        &self.shared.outbox
    }
    fn parking(&self) -> &DynamoParking {
        &self.shared.parking
    }
    fn wait_registry(&self) -> &DynamoControl {
        &self.shared.control
    }
    fn dead_letters(&self) -> &DynamoDeadLetters {
        &self.shared.dead_letters
    }
    fn telemetry(&self) -> &JsonTelemetry {
        &self.shared.telemetry
    }
}
