//! What the functions' composition roots build their adapters with: clients of AWS, meters of what is called, and keys.

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use redial_core::access::TokenKeys;
use redial_core::endpoint::HashKeys;
use redial_core::metric::Metric;
use redial_core::policy::catalogue;
use redial_engine::ports::{Clock, Telemetry};

use crate::aws_http::sdk_config;
use crate::config::StackConfig;
use crate::control_dynamo::DynamoControl;
use crate::event_bus::EventBridgeBus;
use crate::on_first_use::OnFirstUse;
use crate::outbox_sqs::SqsOutbox;
use crate::secrets::{Secret, SecretLocation, SecretsManager};
use crate::subscriptions_dynamo::DynamoSubscriptions;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::VapidKeySource;
use crate::waits_sfn::SfnWaits;
use crate::webhook_keys::{self, WebhookKeys};
use crate::write_units::{MeteredClient, WriteUnits};

/// What initialisation fails with.
pub type InitError = Box<dyn Error + Send + Sync>;

/// Where AWS is found, and meters of what its clients do.
#[derive(Clone, Debug)]
pub struct Aws {
    sdk: SdkConfig,
    calls: ApiCalls,
    units: WriteUnits,
}

/// Counts the calls of SDK clients; clones share the count.
#[derive(Clone, Debug, Default)]
struct ApiCalls(Arc<AtomicU64>);

impl ApiCalls {
    /// The calls since the last time, the SDK's retries included.
    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

#[dyn_dispatch_hint]
impl Intercept for ApiCalls {
    fn name(&self) -> &'static str {
        "ApiCalls"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The configuration of a service's client whose calls are counted.
macro_rules! client {
    ($aws:expr, $service:ident) => {{
        let config = $service::config::Builder::from(&$aws.sdk).interceptor($aws.calls.clone());
        $service::Client::from_conf(config.build())
    }};
}

impl Aws {
    /// Reads where AWS is; ring becomes the one crypto library of the process.
    pub fn find() -> Result<Self, InitError> {
        // A second call changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let invalid: Vec<String> = catalogue::packaged_invalid().iter().map(ToString::to_string).collect();
        if !invalid.is_empty() {
            return Err(format!("built with policies that are not valid: {}", invalid.join("; ")).into());
        }
        Ok(Self {
            sdk: sdk_config(|name| std::env::var(name).ok())?,
            calls: ApiCalls::default(),
            units: WriteUnits::default(),
        })
    }

    /// A client for the tables.
    pub fn dynamo(&self) -> MeteredClient {
        MeteredClient::new(client!(self, aws_sdk_dynamodb), self.units.clone())
    }

    pub fn secrets(&self) -> SecretsManager {
        SecretsManager::new(client!(self, aws_sdk_secretsmanager))
    }

    pub fn outbox(&self, stack: &StackConfig) -> SqsOutbox {
        let aws = self.clone();
        let client = OnFirstUse::new(move || client!(aws, aws_sdk_sqs));
        SqsOutbox::new(client, stack.queues.clone()).with_events(stack.events.clone())
    }

    /// A bus, by its ARN.
    pub fn event_bus(&self, arn: String) -> EventBridgeBus {
        let aws = self.clone();
        EventBridgeBus::new(OnFirstUse::new(move || client!(aws, aws_sdk_eventbridge)), arn)
    }

    pub fn wait_executions(&self, state_machine_arn: String, stack: &StackConfig) -> SfnWaits {
        let aws = self.clone();
        let client = OnFirstUse::new(move || client!(aws, aws_sdk_sfn));
        SfnWaits::new(client, state_machine_arn, stack.queues.clone())
    }

    /// Without `webhook_keys`, receivers' secrets stay sealed.
    pub fn subscriptions(
        &self,
        dynamo: &MeteredClient,
        stack: &StackConfig,
        webhook_keys: Option<WebhookKeys>,
    ) -> DynamoSubscriptions {
        let tables = stack.tables.clone();
        let control = DynamoControl::new(dynamo.clone(), tables.control);
        DynamoSubscriptions::new(
            dynamo.clone(),
            tables.subscriptions,
            tables.audiences,
            control,
            webhook_keys,
        )
    }

    /// Writes an invocation's metrics.
    pub fn flush(&self, telemetry: &JsonTelemetry) {
        telemetry.count(Metric::ApiCalls, self.calls.take());
        telemetry.count(Metric::WriteUnits, self.units.take());
        telemetry.flush(System.now());
    }
}

/// The keys of a secret; `purpose` completes the error "the key that … cannot be used".
fn keys<K, E: Display>(
    secret: &Secret,
    purpose: &str,
    parse: impl Fn(&str) -> Result<K, E>,
) -> Result<K, InitError> {
    parse(secret.expose()).map_err(|error| format!("the key that {purpose} cannot be used: {error}").into())
}

pub fn hash_keys(secret: &Secret) -> Result<HashKeys, InitError> {
    keys(secret, "endpoints are hashed with", HashKeys::parse)
}

pub fn webhook_keys(secret: &Secret) -> Result<WebhookKeys, InitError> {
    keys(secret, "webhooks' secrets are sealed with", WebhookKeys::parse)
}

pub fn token_keys(secret: &Secret) -> Result<TokenKeys, InitError> {
    keys(secret, "browsers' tokens are made with", webhook_keys::token_keys)
}

/// Where the VAPID keys are read, again each time that they are loaded.
pub fn vapid_source(location: &SecretLocation, secrets: &SecretsManager) -> VapidKeySource {
    VapidKeySource { location: location.clone(), secrets: secrets.clone() }
}
