//! The start of dispatch, which needs its keys, while Secrets Manager may be out.
//!
//! A function that ended there would use up a receive of every message of each batch, with the queue's whole visibility time-out
//! between them: within an hour healthy messages would be taken for poison. So an outage does not end it. Each invocation tries
//! again, and until the keys are there its batch comes back with a growing back-off, for which neither keys nor tables are needed.

use std::error::Error;
use std::time::Duration;

use redial_adapters::aws::{Aws, InitError};
use redial_adapters::config::DispatchConfig;
use redial_adapters::secrets::SecretError;
use redial_adapters::system::System;
use redial_adapters::telemetry::JsonTelemetry;
use redial_adapters::vapid::VapidLoadError;
use redial_engine::deliver::{self, Incoming};
use redial_engine::ports::{Clock, Randomness};
use tokio::sync::OnceCell;

use crate::worker::Dispatch;

/// How long initialisation waits for the keys. Lambda ends it after ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A worker that has its configuration, and its keys as soon as they can be read.
#[derive(Debug)]
pub(crate) struct Start {
    config: DispatchConfig,
    aws: Aws,
    ready: OnceCell<Dispatch>,
}

impl Start {
    /// Builds the clients and loads the keys. `Err` where another try would not help; an outage is reported and waited out.
    pub(crate) async fn begin(config: DispatchConfig) -> Result<Self, InitError> {
        let start = Self { config, aws: Aws::find()?, ready: OnceCell::new() };
        match tokio::time::timeout(PATIENCE, start.ready()).await {
            Ok(Err(error)) if !is_passing(&error) => return Err(error),
            Ok(Err(error)) => log(&error),
            Err(_) => {
                tracing::error!(event = "keys_unavailable", "keys were not read in time: messages come back")
            }
            Ok(Ok(_)) => {}
        }
        Ok(start)
    }

    /// The worker; loads the keys if they were not loaded yet.
    pub(crate) async fn ready(&self) -> Result<&Dispatch, InitError> {
        self.ready.get_or_try_init(|| Dispatch::connect(self.aws.clone(), self.config.clone())).await
    }

    /// Returns a whole batch to its queue; returns the SQS MessageIds of the messages that come back. What it needs is built here,
    /// because hardly any start ever needs it.
    pub(crate) async fn return_all(&self, batch: &[Incoming], error: &InitError) -> Vec<String> {
        log(error);
        let outbox = self.aws.outbox(&self.config.stack);
        let telemetry = JsonTelemetry::new(self.config.stack.stack.clone());
        let back = deliver::return_all(&outbox, &telemetry, batch, System.now(), System.rng()).await;
        self.aws.flush(&telemetry);
        back
    }
}

fn log(error: &InitError) {
    tracing::error!(event = "keys_unavailable", %error, "keys are out of reach: messages come back");
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
