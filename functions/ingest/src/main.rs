//! ingest: HTTP in, the queues out. This file only wires.

mod lambda;
mod ports;

use std::sync::Arc;

use ingest::app::App;
use ingest::router::router;
use lambda_http::lambda_runtime;
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Error, LambdaEvent, Request, Service, service_fn};
use ports::AwsPorts;
use redial_adapters::config;
use redial_adapters::retries::within_invocation;
use redial_adapters::telemetry::start_logging;
use redial_core::time::Timestamp;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let config = config::ingest(|name| std::env::var(name).ok())?;
    let (env, settings) = AwsPorts::connect(config).await?;
    let app = Arc::new(App::new(env, settings));
    let router = &router(app.clone());
    let app = &app;
    let answer = Adapter::from(service_fn(async move |request: Request| {
        let response = lambda::answer(router, request).await;
        app.env.flush();
        Ok::<_, Error>(response)
    }));
    lambda_runtime::run(service_fn(|event: LambdaEvent<Value>| {
        let mut answer = answer.clone();
        async move {
            let LambdaEvent { payload, context, .. } = event;
            let request: LambdaRequest = serde_json::from_value(lambda::sanitized(&payload))?;
            let deadline = Timestamp::from_ms(i64::try_from(context.deadline).unwrap_or(i64::MAX));
            within_invocation(deadline, answer.call(LambdaEvent::new(request, context))).await
        }
    }))
    .await
}
