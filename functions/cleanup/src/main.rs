//! cleanup: drains dead letters and quarantine, relays events, and sweeps. This file wires, and nothing else.

mod handler;
mod worker;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use redial_adapters::config;
use redial_adapters::retries::within_invocation;
use redial_adapters::telemetry::start_logging;
use redial_core::time::Timestamp;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let config = config::cleanup(|name| std::env::var(name).ok())?;
    let queues = handler::Queues {
        dead_letters_url: config.stack.queues.dead_letters.clone(),
        events: config.stack.events.clone(),
        relay: config.events_relay.clone(),
    };
    let (aws, worker) = worker::connect(config).await?;
    let (aws, worker, queues) = (&aws, &worker, &queues);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<_>| {
        let deadline = Timestamp::from_ms(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
        let handling = handler::handle(worker, queues, event);
        let response = within_invocation(deadline, handling).await;
        aws.flush(&worker.telemetry);
        response
    }))
    .await
}
