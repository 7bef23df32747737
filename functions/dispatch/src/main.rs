//! dispatch: SQS in, push service out. This file wires, and nothing else.

mod handler;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use redial_adapters::config;
use redial_adapters::environment::DispatchStart;
use redial_adapters::telemetry::start_logging;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let config = config::dispatch(|name| std::env::var(name).ok())?;
    let urls = config.stack.queues.clone();
    let start = DispatchStart::begin(config).await?;
    let (start, urls) = (&start, &urls);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<_>| match start.ready().await {
        Ok((env, settings)) => {
            let publish = async || env.publish_vapid_keys().await;
            let response = handler::handle(env, settings, urls, publish, event).await;
            env.flush();
            response
        }
        Err(error) => handler::set_back(start, urls, event, error).await,
    }))
    .await
}
