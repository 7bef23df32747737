//! The composition root: the HTTP API's ports on AWS, and its settings.

use redial_adapters::access_dynamo::DynamoAccess;
use redial_adapters::acks_dynamo::DynamoAcks;
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_adapters::aws::{self, Aws, InitError};
use redial_adapters::config::IngestConfig;
use redial_adapters::deliveries_dynamo::DynamoDeliveries;
use redial_adapters::erasure_requests_dynamo::DynamoErasureRequests;
use redial_adapters::outbox_sqs::SqsOutbox;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_adapters::public_keys_dynamo::DynamoPublicKeys;
use redial_adapters::quotas_dynamo::DynamoQuotas;
use redial_adapters::seal;
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_adapters::system::System;
use redial_adapters::telemetry::JsonTelemetry;
use redial_adapters::vapid::VapidListing;
use redial_engine::http_api::Settings;
use redial_engine::ports::HttpApi;

/// The ports on AWS.
#[derive(Debug)]
pub(crate) struct AwsPorts {
    aws: Aws,
    access_keys: DynamoAccess,
    protection: DynamoProtection,
    ledger: DynamoDeliveries,
    outbox: SqsOutbox,
    subscriptions: DynamoSubscriptions,
    erasure_requests: DynamoErasureRequests,
    public_keys: VapidListing<DynamoPublicKeys>,
    quotas: DynamoQuotas,
    acks: DynamoAcks,
    pages: DynamoAudiences,
    telemetry: JsonTelemetry,
}

impl AwsPorts {
    /// Builds the clients and loads the keys of hashes and tokens. The public VAPID keys are read when they are first listed: the
    /// API works without them, and most of its workers never list them.
    pub(crate) async fn connect(config: IngestConfig) -> Result<(Self, Settings), InitError> {
        let IngestConfig {
            stack,
            token_key,
            push_hosts,
            egress_allow,
            cors_origins,
            rate,
            quotas,
            same_endpoint,
        } = config;
        let aws = Aws::find()?;
        let [hash_key, token_key] = aws.secrets().read_all([&stack.hash_key, &token_key]).await?;
        let (hash_keys, token_keys) = (aws::hash_keys(&hash_key)?, aws::token_keys(&token_key)?);
        let settings = Settings {
            token_keys,
            hash_keys,
            push_hosts,
            egress_allow: egress_allow.origins().cloned().collect(),
            is_on_curve: seal::is_on_curve,
            cors_origins,
            rate,
            quotas,
            same_endpoint,
        };
        let (dynamo, tables) = (aws.dynamo(), stack.tables.clone());
        let client = || dynamo.clone();
        let ports = Self {
            access_keys: DynamoAccess::new(client(), tables.control.clone()),
            protection: DynamoProtection::new(client(), tables.control.clone()),
            ledger: DynamoDeliveries::new(client(), tables.deliveries.clone()),
            outbox: aws.outbox(&stack),
            subscriptions: aws.subscriptions(&dynamo, &stack, None),
            erasure_requests: DynamoErasureRequests::new(client(), tables.control.clone()),
            quotas: DynamoQuotas::new(client(), tables.control.clone()),
            public_keys: VapidListing::new(DynamoPublicKeys::new(client(), tables.control)),
            acks: DynamoAcks::new(client(), tables.deliveries),
            pages: DynamoAudiences::new(client(), tables.audiences),
            telemetry: JsonTelemetry::new(stack.stack.clone()),
            aws,
        };
        Ok((ports, settings))
    }

    /// Writes the request's metrics.
    pub(crate) fn flush(&self) {
        self.aws.flush(&self.telemetry);
    }
}

impl HttpApi for AwsPorts {
    type Clock = System;
    type Randomness = System;
    type AccessKeys = DynamoAccess;
    type Protection = DynamoProtection;
    type Ledger = DynamoDeliveries;
    type Outbox = SqsOutbox;
    type Subscriptions = DynamoSubscriptions;
    type ErasureRequests = DynamoErasureRequests;
    type PublicKeys = VapidListing<DynamoPublicKeys>;
    type Quotas = DynamoQuotas;
    type Acks = DynamoAcks;
    type Pages = DynamoAudiences;
    type Telemetry = JsonTelemetry;

    fn clock(&self) -> &System {
        &System
    }
    fn randomness(&self) -> &System {
        &System
    }
    fn access_keys(&self) -> &DynamoAccess {
        &self.access_keys
    }
    fn protection(&self) -> &DynamoProtection {
        &self.protection
    }
    fn ledger(&self) -> &DynamoDeliveries {
        &self.ledger
    }
    fn outbox(&self) -> &SqsOutbox {
        &self.outbox
    }
    fn subscriptions(&self) -> &DynamoSubscriptions {
        &self.subscriptions
    }
    fn erasure_requests(&self) -> &DynamoErasureRequests {
        &self.erasure_requests
    }
    fn public_keys(&self) -> &Self::PublicKeys {
        &self.public_keys
    }
    fn quotas(&self) -> &DynamoQuotas {
        &self.quotas
    }
    fn acks(&self) -> &DynamoAcks {
        &self.acks
    }
    fn pages(&self) -> &DynamoAudiences {
        &self.pages
    }
    fn telemetry(&self) -> &JsonTelemetry {
        &self.telemetry
    }
}
