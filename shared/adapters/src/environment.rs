//! The functions' worlds: clients built once, every port with its adapter.

use std::error::Error;

use aws_config::SdkConfig;
use redial_core::endpoint::HashKeys;
use redial_core::metric::Metric;
use redial_core::policy::catalogue;
use redial_core::ports::{CleanupEnvironment, Clock, Environment, Telemetry};
use redial_core::{cleanup, deliver};

use crate::api_calls::ApiCalls;
use crate::aws_http::sdk_config;
use crate::config::{CleanupConfig, DispatchConfig, SecretLocation, StackConfig};
use crate::control_dynamo::DynamoControl;
use crate::dead_letters_dynamo::DynamoDeadLetters;
use crate::egress::{Egress, EgressConfig};
use crate::ledger_dynamo::DynamoLedger;
use crate::outbox_sqs::SqsOutbox;
use crate::parked_dynamo::DynamoParking;
use crate::policies_dynamo::DynamoPolicies;
use crate::seal::DefaultSealer;
use crate::secrets::{CachedSecrets, Secret, SecretSource, SecretsManager};
use crate::subscriptions_dynamo::DynamoSubscriptions;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::{VapidKeySource, VapidSigner};
use crate::waits_sfn::SfnWaits;
use crate::web_push_sender::WebPushSender;
use crate::write_units::WriteUnits;

/// What initialisation fails with: told once, and the function ends.
type InitError = Box<dyn Error + Send + Sync>;

/// What both functions have.
#[derive(Debug)]
struct Shared {
    sdk: SdkConfig,
    calls: ApiCalls,
    units: WriteUnits,
    telemetry: JsonTelemetry,
    outbox: SqsOutbox,
    ledger: DynamoLedger,
    subscriptions: DynamoSubscriptions,
    parking: DynamoParking,
    control: DynamoControl,
    policies: DynamoPolicies,
    dead_letters: DynamoDeadLetters,
}

impl Shared {
    async fn connect(stack: &StackConfig) -> Result<Self, InitError> {
        let invalid: Vec<String> = catalogue::packaged_invalid().iter().map(ToString::to_string).collect();
        if !invalid.is_empty() {
            return Err(format!("built with policies that are not valid: {}", invalid.join("; ")).into());
        }
        let sdk = sdk_config().await?;
        let calls = ApiCalls::default();
        let units = WriteUnits::default();
        let sqs = aws_sdk_sqs::config::Builder::from(&sdk).interceptor(calls.clone()).build();
        let dynamo = aws_sdk_dynamodb::config::Builder::from(&sdk).interceptor(calls.clone()).build();
        let sqs = aws_sdk_sqs::Client::from_conf(sqs);
        let dynamo = aws_sdk_dynamodb::Client::from_conf(dynamo);
        let tables = &stack.tables;
        let control = DynamoControl::new(dynamo.clone(), tables.control.clone());
        Ok(Self {
            telemetry: JsonTelemetry::new(stack.stack.clone()),
            outbox: SqsOutbox::new(sqs, stack.queues.clone()),
            ledger: DynamoLedger::new(dynamo.clone(), tables.deliveries.clone()).metered(units.clone()),
            subscriptions: DynamoSubscriptions::new(
                dynamo.clone(),
                tables.subscriptions.clone(),
                control.clone(),
            )
            .metered(units.clone()),
            parking: DynamoParking::new(dynamo.clone(), tables.parked.clone()).metered(units.clone()),
            dead_letters: DynamoDeadLetters::new(dynamo.clone(), tables.dead_letters.clone())
                .metered(units.clone()),
            policies: DynamoPolicies::new(dynamo.clone(), tables.control.clone(), stack.policy_max_age),
            control,
            calls,
            units,
            sdk,
        })
    }

    fn secrets(&self) -> CachedSecrets<SecretsManager> {
        let secrets =
            aws_sdk_secretsmanager::config::Builder::from(&self.sdk).interceptor(self.calls.clone());
        let client = aws_sdk_secretsmanager::Client::from_conf(secrets.build());
        CachedSecrets::new(SecretsManager::new(client))
    }

    /// Writes the invocation's metrics.
    fn flush(&self) {
        self.telemetry.count(Metric::ApiCalls, self.calls.take());
        self.telemetry.count(Metric::WriteUnits, self.units.take());
        self.telemetry.flush(System.now());
    }
}

async fn hash_keys<S: SecretSource>(
    location: &SecretLocation,
    secrets: &CachedSecrets<S>,
) -> Result<HashKeys, InitError> {
    let secret: Secret = match location {
        SecretLocation::Value(secret) => secret.clone(),
        SecretLocation::SecretsManager(id) => secrets.get(id).await?,
    };
    let keys = HashKeys::parse(secret.expose());
    keys.map_err(|error| format!("the key that endpoints are hashed with cannot be used: {error}").into())
}

type Sender = WebPushSender<DefaultSealer, VapidKeySource<SecretsManager>, System>;

/// Dispatch's world.
#[derive(Debug)]
pub struct DispatchEnvironment {
    shared: Shared,
    sender: Sender,
    waits: SfnWaits,
}

impl DispatchEnvironment {
    /// Builds the clients and loads the keys.
    pub async fn connect(config: DispatchConfig) -> Result<(Self, deliver::Settings), InitError> {
        install_crypto();
        let shared = Shared::connect(&config.stack).await?;
        let secrets = shared.secrets();
        let hash_keys = hash_keys(&config.stack.hash_key, &secrets).await?;
        let source = match config.vapid_keys {
            SecretLocation::Value(secret) => VapidKeySource::Environment(secret),
            SecretLocation::SecretsManager(id) => VapidKeySource::SecretsManager { secrets, id },
        };
        let signer = VapidSigner::start(source, config.vapid_subject).await?;
        let egress = Egress::new(EgressConfig {
            total_timeout: config.send_timeout,
            allow: config.egress_allow.clone(),
            extra_roots: config.egress_roots,
            ..EgressConfig::default()
        });
        let settings = deliver::Settings {
            waits: config.waits,
            push_hosts: config.push_hosts,
            egress_allow: config.egress_allow.origins().cloned().collect(),
            hash_keys,
            lease_margin: config.lease_margin,
        };
        let sfn = aws_sdk_sfn::config::Builder::from(&shared.sdk).interceptor(shared.calls.clone()).build();
        let waits =
            SfnWaits::new(aws_sdk_sfn::Client::from_conf(sfn), config.state_machine_arn, config.stack.queues);
        let sender = WebPushSender::new(DefaultSealer::new(), signer, egress, System);
        Ok((Self { shared, sender, waits }, settings))
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
    type Subscriptions = DynamoSubscriptions;
    type Sender = Sender;
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
    fn subscriptions(&self) -> &DynamoSubscriptions {
        &self.shared.subscriptions
    }
    fn sender(&self) -> &Sender {
        &self.sender
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
    /// Builds the clients and loads the hash key.
    pub async fn connect(config: CleanupConfig) -> Result<(Self, cleanup::Settings), InitError> {
        install_crypto();
        let shared = Shared::connect(&config.stack).await?;
        let hash_keys = hash_keys(&config.stack.hash_key, &shared.secrets()).await?;
        let settings = cleanup::Settings { hash_keys, guard: config.guard, late_after: config.late_after };
        Ok((Self { shared }, settings))
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
