//! dispatch: SQS in, push service out. This file wires, and nothing else.

mod handler;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use redial_adapters::config;
use redial_adapters::environment::DispatchEnvironment;
use redial_adapters::telemetry::start_logging;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let config = config::dispatch(|name| std::env::var(name).ok())?;
    let urls = config.stack.queues.clone();
    let (env, settings) = DispatchEnvironment::connect(config).await?;
    let (env, settings, urls) = (&env, &settings, &urls);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<_>| {
        let publish = async || env.publish_vapid_keys().await;
        let response = handler::handle(env, settings, urls, publish, event).await;
        env.flush();
        response
    }))
    .await
}
