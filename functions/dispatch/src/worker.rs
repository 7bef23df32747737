//! The composition root: dispatch's ports on AWS, and its settings.

use std::time::Duration;

use rand::RngExt;
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_adapters::aws::{self, Aws, InitError};
use redial_adapters::config::DispatchConfig;
use redial_adapters::control_dynamo::DynamoControl;
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_adapters::egress::{Egress, EgressConfig, ExtraRoots};
use redial_adapters::ledger_dynamo::DynamoLedger;
use redial_adapters::otlp::{Collector, CollectorHeaders, Spans};
use redial_adapters::outbox_sqs::SqsOutbox;
use redial_adapters::parked_dynamo::DynamoParking;
use redial_adapters::policies_dynamo::DynamoPolicies;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_adapters::public_keys_dynamo::DynamoPublicKeys;
use redial_adapters::quotas_dynamo::DynamoQuotas;
use redial_adapters::seal::DefaultSealer;
use redial_adapters::secrets::{SecretLocation, SecretsManager};
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_adapters::system::System;
use redial_adapters::telemetry::JsonTelemetry;
use redial_adapters::vapid::{LoadVapidKeys, VapidKeySource, VapidKeys, VapidLoadError, VapidSigner};
use redial_adapters::waits_sfn::SfnWaits;
use redial_adapters::web_push_sender::WebPushSender;
use redial_adapters::webhook_sender::StandardWebhookSender;
use redial_core::protection::patience::FIRST_TIMEOUT;
use redial_core::time::Timestamp;
use redial_engine::deliver::{self, KnownBuckets, KnownLines, Settings};
use redial_engine::ports::{Clock, Randomness};
use redial_engine::protection::Guard;
use redial_engine::quota::QuotaGuard;

/// How long a webhook may take to connect: its receiver is anywhere, where push services are near. It ends before the shortest attempt
/// does, so what could not be connected to is known not to have arrived.
const WEBHOOK_CONNECT: Duration = Duration::from_millis(2_500);
const _: () = assert!(WEBHOOK_CONNECT.as_millis() < FIRST_TIMEOUT.as_millis());

/// A worker on AWS.
pub(crate) type AwsWorker = deliver::Worker<OnAws>;

#[derive(Debug)]
pub(crate) struct OnAws;

impl deliver::Ports for OnAws {
    type System = System;
    type Telemetry = JsonTelemetry;
    type Outbox = SqsOutbox;
    type Ledger = DynamoLedger;
    type Subscriptions = DynamoSubscriptions;
    type Policies = DynamoPolicies;
    type Audiences = DynamoAudiences;
    type Protection = DynamoProtection;
    type PushSender = WebPushSender<DefaultSealer, VapidKeySource, System>;
    type WebhookSender = StandardWebhookSender<System>;
    type Parking = DynamoParking;
    type WaitRegistry = DynamoControl;
    type WaitExecutions = SfnWaits;
    type DeadLetterBodies = DynamoDeadLetters;
    type Quotas = DynamoQuotas;
}

/// What an invocation needs.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) worker: AwsWorker,
    aws: Aws,
    public_keys: DynamoPublicKeys,
    /// Read again each time that the public halves are published.
    vapid: VapidKeySource,
}

impl Dispatch {
    /// Builds the clients and loads the keys, in one call.
    pub(crate) async fn connect(aws: Aws, config: DispatchConfig) -> Result<Self, InitError> {
        let DispatchConfig { stack, vapid_keys, .. } = config;
        let secrets = aws.secrets();
        let places = [&stack.hash_key, &config.webhook_key, &config.token_key, &vapid_keys];
        let [hash_key, webhook_key, token_key, vapid_key] = secrets.read_all(places).await?;
        let (hash_keys, webhook_keys) = (aws::hash_keys(&hash_key)?, aws::webhook_keys(&webhook_key)?);
        let token_keys = aws::token_keys(&token_key)?;
        let source = aws::vapid_source(&vapid_keys, &secrets);
        let keys = VapidKeys::parse(vapid_key.expose()).map_err(VapidLoadError::from)?;
        let signer = VapidSigner::with(keys, source, config.vapid_subject);
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
        let spans = spans(
            &stack.stack,
            config.otlp.as_ref(),
            config.otlp_headers.as_ref(),
            &secrets,
            &config.egress_roots,
        );
        let spans = spans.await;
        let (dynamo, tables) = (aws.dynamo(), stack.tables.clone());
        let client = || dynamo.clone();
        let worker = AwsWorker {
            settings: Settings {
                waits: config.waits,
                push_hosts: config.push_hosts,
                egress_allow: config.egress_allow.origins().cloned().collect(),
                hash_keys,
                lease_margin: config.lease_margin,
                token_keys,
                strip: config.strip,
                switched_off_after: config.switched_off_after,
                suspects: config.suspects,
                probed_every: config.probed_every,
                audience_pages: config.audience_pages,
                origin_lines: config.origin_lines,
                time_zone: config.time_zone,
            },
            // Drawn, so that workers spread evenly over counters and parts of buckets.
            guard: Guard::new(config.protection, System.rng().random()),
            quota_guard: QuotaGuard::new(config.quotas),
            known_buckets: KnownBuckets::default(),
            known_lines: KnownLines::default(),
            system: System,
            telemetry: JsonTelemetry::new(stack.stack.clone()).logging(config.success_logs).tracing(spans),
            outbox: aws.outbox(&stack),
            ledger: DynamoLedger::new(client(), tables.deliveries).recording(config.records_together),
            subscriptions: aws.subscriptions(&dynamo, &stack, Some(webhook_keys.clone())),
            policies: DynamoPolicies::new(client(), tables.control.clone(), stack.policy_max_age),
            audiences: DynamoAudiences::new(client(), tables.audiences),
            protection: DynamoProtection::new(client(), tables.control.clone()),
            push_sender: WebPushSender::new(DefaultSealer::new(), signer, pushes, System),
            webhook_sender: StandardWebhookSender::new(webhook_keys, webhooks, System),
            parking: DynamoParking::new(client(), tables.parked),
            wait_registry: DynamoControl::new(client(), tables.control.clone()),
            wait_executions: aws.wait_executions(config.state_machine_arn, &stack),
            dead_letter_bodies: DynamoDeadLetters::new(client(), tables.dead_letters),
            quotas: DynamoQuotas::new(client(), tables.control.clone()),
        };
        let public_keys = DynamoPublicKeys::new(client(), tables.control);
        Ok(Self { worker, public_keys, vapid: aws::vapid_source(&vapid_keys, &secrets), aws })
    }

    /// Reads the VAPID keys as they are now, and publishes their public halves, which the HTTP API lists.
    pub(crate) async fn publish_vapid_keys(&self) -> Result<(), InitError> {
        let keys = self.vapid.load().await?;
        Ok(self.public_keys.publish(&keys).await?)
    }

    /// Sends the invocation's spans, and writes its metrics.
    pub(crate) async fn flush(&self, deadline: Timestamp) {
        self.worker.telemetry.export(System.now(), deadline).await;
        self.aws.flush(&self.worker.telemetry);
    }
}

/// The way to the collector, if there is one. What it is to be shown may be changed and broken at any time: then spans are lost, and
/// deliveries go on.
async fn spans(
    stack: &str,
    collector: Option<&Collector>,
    headers: Option<&SecretLocation>,
    secrets: &SecretsManager,
    roots: &ExtraRoots,
) -> Option<Spans> {
    let collector = collector?;
    let headers = match headers {
        None => Ok(CollectorHeaders::default()),
        Some(location) => match secrets.read_all([location]).await {
            Ok([secret]) => CollectorHeaders::parse(secret.expose()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        },
    };
    headers
        .inspect_err(|error| {
            tracing::error!(
                event = "collector_ignored",
                error,
                "headers of the collector cannot be used: no spans are sent"
            )
        })
        .ok()
        .map(|headers| Spans::new(stack.to_owned(), collector, &headers, roots))
}
