//! The composition root: cleanup's ports on AWS, and its settings.

use std::time::Duration;

use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_adapters::aws::{self, Aws, InitError};
use redial_adapters::callbacks_dynamo::DynamoCallbacks;
use redial_adapters::config::CleanupConfig;
use redial_adapters::control_dynamo::DynamoControl;
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_adapters::erasure_requests_dynamo::DynamoErasureRequests;
use redial_adapters::event_bus::EventBridgeBus;
use redial_adapters::ledger_dynamo::DynamoLedger;
use redial_adapters::outbox_sqs::SqsOutbox;
use redial_adapters::parked_dynamo::DynamoParking;
use redial_adapters::person_dynamo::DynamoPersons;
use redial_adapters::policies_dynamo::DynamoPolicies;
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_adapters::system::System;
use redial_adapters::telemetry::JsonTelemetry;
use redial_core::targets::Targets;
use redial_engine::cleanup::{Ports, Settings, Worker};

/// For how long a tenant's callback is remembered.
const CALLBACKS_MAX_AGE: Duration = Duration::from_secs(30);

/// A worker on AWS.
pub(crate) type AwsWorker = Worker<OnAws>;

#[derive(Debug)]
pub(crate) struct OnAws;

impl Ports for OnAws {
    type Clock = System;
    type Telemetry = JsonTelemetry;
    type Outbox = SqsOutbox;
    type EventBus = EventBridgeBus;
    type Callbacks = DynamoCallbacks;
    type Ledger = DynamoLedger;
    type Policies = DynamoPolicies;
    type Subscriptions = DynamoSubscriptions;
    type Audiences = DynamoAudiences;
    type Parking = DynamoParking;
    type WaitRegistry = DynamoControl;
    type DeadLetters = DynamoDeadLetters;
    type ErasureRequests = DynamoErasureRequests;
    type Persons = DynamoPersons;
}

/// Builds the clients and loads the keys.
pub(crate) async fn connect(config: CleanupConfig) -> Result<(Aws, AwsWorker), InitError> {
    let CleanupConfig { stack, .. } = config;
    let aws = Aws::find()?;
    let [hash_key, webhook_key] = aws.secrets().read_all([&stack.hash_key, &config.webhook_key]).await?;
    let (hash_keys, webhook_keys) = (aws::hash_keys(&hash_key)?, aws::webhook_keys(&webhook_key)?);
    let (dynamo, tables) = (aws.dynamo(), stack.tables.clone());
    let client = || dynamo.clone();
    let persons = DynamoPersons::new(client(), &tables);
    let worker = AwsWorker {
        settings: Settings {
            hash_keys,
            guard: config.guard,
            late_after: config.late_after,
            switched_off_after: config.switched_off_after,
            suspect_apart: config.suspect_apart,
            stale_after: config.stale_after,
            longest_invocation: config.longest_invocation,
            targets: Targets {
                queue: config.producers_events.is_some(),
                bus: config.event_bus.is_some(),
                callbacks: config.callbacks,
            },
        },
        clock: System,
        telemetry: JsonTelemetry::new(stack.stack.clone()),
        outbox: aws.outbox(&stack).relaying_to(config.producers_events.as_ref()),
        event_bus: aws.event_bus(config.event_bus.unwrap_or_default()),
        callbacks: DynamoCallbacks::new(client(), tables.control.clone(), CALLBACKS_MAX_AGE),
        ledger: DynamoLedger::new(client(), tables.deliveries),
        policies: DynamoPolicies::new(client(), tables.control.clone(), stack.policy_max_age),
        subscriptions: aws.subscriptions(&dynamo, &stack, Some(webhook_keys)),
        audiences: DynamoAudiences::new(client(), tables.audiences),
        parking: DynamoParking::new(client(), tables.parked),
        erasure_requests: DynamoErasureRequests::new(client(), tables.control.clone()),
        persons,
        wait_registry: DynamoControl::new(client(), tables.control),
        dead_letters: DynamoDeadLetters::new(client(), tables.dead_letters),
    };
    Ok((aws, worker))
}
