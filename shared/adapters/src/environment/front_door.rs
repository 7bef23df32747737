//! The front door's world.

use redial_engine::intake;
use redial_engine::ports::FrontDoor;

use super::{Aws, InitError, Shared, hash_keys, token_keys};
use crate::access_dynamo::DynamoAccess;
use crate::acks_dynamo::DynamoAcks;
use crate::config::IngestConfig;
use crate::intake_dynamo::DynamoIntake;
use crate::outbox_sqs::SqsOutbox;
use crate::protection_dynamo::DynamoProtection;
use crate::public_keys_dynamo::DynamoPublicKeys;
use crate::seal;
use crate::subscriptions_dynamo::DynamoSubscriptions;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::VapidListing;

/// The front door's world.
#[derive(Debug)]
pub struct FrontDoorEnvironment {
    shared: Shared,
    access: DynamoAccess,
    intake: DynamoIntake,
    acks: DynamoAcks,
    listing: VapidListing<DynamoPublicKeys>,
}

impl FrontDoorEnvironment {
    /// Builds the clients and loads the keys of hashes and tokens. The public VAPID keys are read when they are first listed: the
    /// front door works without them, and most of its workers are never asked.
    pub async fn connect(config: IngestConfig) -> Result<(Self, intake::Settings), InitError> {
        let IngestConfig { stack, token_key, push_hosts, egress_allow, cors_origins, rate } = config;
        let aws = Aws::find().await?;
        let secrets = aws.secrets();
        let (hash_keys, token_keys) =
            futures_util::try_join!(hash_keys(&stack, &secrets), token_keys(&token_key, &secrets))?;
        let settings = intake::Settings {
            token_keys,
            hash_keys,
            push_hosts,
            egress_allow: egress_allow.origins().cloned().collect(),
            is_on_curve: seal::is_on_curve,
            cors_origins,
            rate,
        };
        let dynamo = aws_sdk_dynamodb::config::Builder::from(&aws.sdk).interceptor(aws.calls.clone()).build();
        let dynamo = aws_sdk_dynamodb::Client::from_conf(dynamo);
        let shared = Shared::connect(aws, &stack, None);
        let (deliveries, units) = (stack.tables.deliveries, &shared.units);
        let it = Self {
            access: DynamoAccess::new(dynamo.clone(), stack.tables.control),
            intake: DynamoIntake::new(dynamo.clone(), deliveries.clone()).metered(units.clone()),
            acks: DynamoAcks::new(dynamo, deliveries).metered(units.clone()),
            listing: VapidListing::new(shared.public_keys.clone()),
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
    type PublicKeys = VapidListing<DynamoPublicKeys>;
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
