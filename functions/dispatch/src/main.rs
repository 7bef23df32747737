//! dispatch: SQS in, push service out. This file wires, and nothing else.

mod handler;
mod start;
mod worker;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use redial_adapters::config;
use redial_adapters::telemetry::start_logging;
use start::Start;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let config = config::dispatch(|name| std::env::var(name).ok())?;
    let urls = config.stack.queues.clone();
    let start = Start::begin(config).await?;
    let (start, urls) = (&start, &urls);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<_>| match start.ready().await {
        Ok(dispatch) => {
            let deadline = handler::deadline(&event.context);
            let publish = async || dispatch.publish_vapid_keys().await;
            // Boxed, or the runtime copies the state of a whole pass each time that it moves its future.
            let deliver =
                async |invocation, batch| Box::pin(dispatch.worker.deliver(&invocation, batch)).await;
            let response = handler::handle(urls, deliver, publish, event).await;
            dispatch.flush(deadline).await;
            response
        }
        Err(error) => {
            let deliver = async |_, batch: Vec<_>| start.return_all(&batch, &error).await;
            let publish = async || Err(error.to_string().into());
            handler::handle(urls, deliver, publish, event).await
        }
    }))
    .await
}
