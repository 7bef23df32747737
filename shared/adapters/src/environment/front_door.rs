//! The front door's world.

use redial_core::intake;
use redial_core::ports::FrontDoor;

use super::{Aws, InitError, Shared, stack_keys};
use crate::access_dynamo::DynamoAccess;
use crate::acks_dynamo::DynamoAcks;
use crate::config::{IngestConfig, SecretLocation};
use crate::intake_dynamo::DynamoIntake;
use crate::outbox_sqs::SqsOutbox;
use crate::protection_dynamo::DynamoProtection;
use crate::seal;
use crate::secrets::{CachedSecrets, SecretsManager};
use crate::subscriptions_dynamo::DynamoSubscriptions;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::{VapidKeySource, VapidListing};

/// The front door's world.
#[derive(Debug)]
pub struct FrontDoorEnvironment {
    shared: Shared,
    access: DynamoAccess,
    intake: DynamoIntake,
    acks: DynamoAcks,
    listing: VapidListing<VapidKeySource<SecretsManager>>,
}

impl FrontDoorEnvironment {
    /// Builds the clients and loads the stack's own keys. The VAPID keys are loaded when they are first listed: the front door
    /// works without them, and most of its workers are never asked.
    pub async fn connect(config: IngestConfig) -> Result<(Self, intake::Settings), InitError> {
        let IngestConfig { stack, vapid_keys, push_hosts, egress_allow, cors_origins, rate } = config;
        let aws = Aws::find().await?;
        let secrets = aws.secrets();
        let (hash_keys, webhook_keys) = stack_keys(&stack, &secrets).await?;
        let settings = intake::Settings {
            token_keys: webhook_keys.token_keys(),
            hash_keys,
            push_hosts,
            egress_allow: egress_allow.origins().cloned().collect(),
            is_on_curve: seal::is_on_curve,
            cors_origins,
            rate,
        };
        let source = match vapid_keys {
            SecretLocation::Value(secret) => VapidKeySource::Environment(secret),
            SecretLocation::SecretsManager(id) => {
                VapidKeySource::SecretsManager { secrets: CachedSecrets::new(secrets), id }
            }
        };
        let dynamo = aws_sdk_dynamodb::config::Builder::from(&aws.sdk).interceptor(aws.calls.clone()).build();
        let dynamo = aws_sdk_dynamodb::Client::from_conf(dynamo);
        let shared = Shared::connect(aws, &stack, webhook_keys);
        let (deliveries, units) = (stack.tables.deliveries, &shared.units);
        let it = Self {
            access: DynamoAccess::new(dynamo.clone(), stack.tables.control),
            intake: DynamoIntake::new(dynamo.clone(), deliveries.clone()).metered(units.clone()),
            acks: DynamoAcks::new(dynamo, deliveries).metered(units.clone()),
            listing: VapidListing::new(source),
            shared,
        };
        Ok((it, settings))
    }

    /// Writes the request's metrics.
    pub fn flush(&self) {
        self.shared.flush();
    }
}

impl FrontDoor for FrontDoorEnvironment {
    type Clock = System;
    type Randomness = System;
    type AccessKeys = DynamoAccess;
    type Protection = DynamoProtection;
    type Ledger = DynamoIntake;
    type Outbox = SqsOutbox;
    type Subscriptions = DynamoSubscriptions;
    type PublicKeys = VapidListing<VapidKeySource<SecretsManager>>;
    type Acks = DynamoAcks;
    type Telemetry = JsonTelemetry;

    fn clock(&self) -> &System {
        &System
    }
    fn randomness(&self) -> &System {
        &System
    }
    fn access_keys(&self) -> &DynamoAccess {
        &self.access
    }
    fn protection(&self) -> &DynamoProtection {
        &self.shared.protection
    }
    fn ledger(&self) -> &DynamoIntake {
        &self.intake
    }
    fn outbox(&self) -> &SqsOutbox {
        &self.shared.outbox
    }
    fn subscriptions(&self) -> &DynamoSubscriptions {
        &self.shared.subscriptions
    }
    fn public_keys(&self) -> &Self::PublicKeys {
        &self.listing
    }
    fn acks(&self) -> &DynamoAcks {
        &self.acks
    }
    fn telemetry(&self) -> &JsonTelemetry {
        &self.shared.telemetry
    }
}
