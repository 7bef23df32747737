//! The start of dispatch, which needs its keys, while Secrets Manager may be out.
//!
//! A function that ended there would use up a receive of every message of each batch, with the queue's whole visibility time-out
//! between them: within an hour healthy messages would be taken for poison. So an outage does not end it. Each invocation tries
//! again, and until the keys are there its batch comes back with a growing back-off, for which neither keys nor tables are needed.

use std::error::Error;
use std::time::Duration;

use redial_core::metric::Metric;
use redial_engine::deliver;
use redial_engine::ports::{Clock, Randomness, Telemetry};
use tokio::sync::OnceCell;

use super::{Aws, DispatchEnvironment, InitError};
use crate::config::DispatchConfig;
use crate::outbox_sqs::SqsOutbox;
use crate::secrets::SecretError;
use crate::system::System;
use crate::telemetry::JsonTelemetry;
use crate::vapid::VapidLoadError;

/// How long initialisation waits for the keys. Lambda ends it after ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A worker that has its configuration, and its keys as soon as they can be read.
#[derive(Debug)]
pub struct DispatchStart {
    config: DispatchConfig,
    aws: Aws,
    ready: OnceCell<(DispatchEnvironment, deliver::Settings)>,
}

impl DispatchStart {
    /// Builds the clients and loads the keys. `Err` where another try would not help; an outage is reported and waited out.
    pub async fn begin(config: DispatchConfig) -> Result<Self, InitError> {
        let start = Self { config, aws: Aws::find().await?, ready: OnceCell::new() };
        match tokio::time::timeout(PATIENCE, start.ready()).await {
            Ok(Err(error)) if !is_passing(&error) => return Err(error),
            Ok(Err(error)) => tracing::error!(error = %error, "keys are out of reach: messages come back"),
            Err(_) => tracing::error!("keys were not read in time: messages come back"),
            Ok(Ok(_)) => {}
        }
        Ok(start)
    }

    /// The environment and its settings; loads the keys if they were not loaded yet.
    pub async fn ready(&self) -> Result<&(DispatchEnvironment, deliver::Settings), InitError> {
        self.ready
            .get_or_try_init(|| DispatchEnvironment::connect(self.aws.clone(), self.config.clone()))
            .await
    }

    /// Sends a whole batch back, and returns the SQS MessageIds of the messages that come back. What it needs is built here, for
    /// hardly any start ever needs it.
    pub async fn set_back(&self, batch: &[deliver::Incoming], error: &InitError) -> Vec<String> {
        tracing::error!(error = %error, "keys are out of reach: messages come back");
        let stack = &self.config.stack;
        let outbox = SqsOutbox::new(self.aws.sqs(), stack.queues.clone());
        let telemetry = JsonTelemetry::new(stack.stack.clone());
        let back = deliver::all_come_back(&outbox, &telemetry, batch, System.now(), System.rng()).await;
        telemetry.count(Metric::ApiCalls, self.aws.calls.take());
        telemetry.flush(System.now());
        back
    }
}

/// Whether the keys can be expected later, without a change by the operator.
fn is_passing(error: &InitError) -> bool {
    let error: &(dyn Error + 'static) = error.as_ref();
    let secret = error.downcast_ref::<SecretError>().or_else(|| {
        error.downcast_ref::<VapidLoadError>().and_then(|error| match error {
            VapidLoadError::Secret(error) => Some(error),
            VapidLoadError::Keys(_) => None,
        })
    });
    secret.is_some_and(SecretError::is_passing)
}
