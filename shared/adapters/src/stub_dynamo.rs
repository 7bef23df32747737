//! A scripted DynamoDB for tests, inside the process: no socket, so that paused time does not outrun an answer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::real_table::RealTables;

/// A call's answer, or its error.
pub(crate) type Answer = Result<Value, Value>;

/// An error by its code.
pub(crate) fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}")})
}

/// With how long the answer takes.
type Script = Box<dyn FnMut(&str, &Value) -> (Answer, Duration) + Send>;

/// Answers each call, and records it.
#[derive(Clone)]
pub(crate) struct StubDynamo(Arc<Mutex<Inside>>);

struct Inside {
    script: Script,
    calls: Vec<(String, Value)>,
}

impl fmt::Debug for StubDynamo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StubDynamo")
    }
}

impl StubDynamo {
    /// `script` answers an operation and its request. Beside a DynamoDB Local, what it answers has to be a request that DynamoDB takes.
    pub(crate) fn new(mut script: impl FnMut(&str, &Value) -> Answer + Send + 'static) -> Self {
        let real = RealTables::find();
        Self::delayed(move |operation, call| {
            let answer = script(operation, call);
            if let (Some(real), Ok(expected)) = (&real, &answer) {
                real.accepts(operation, call, expected);
            }
            (answer, Duration::ZERO)
        })
    }

    pub(crate) fn delayed(script: impl FnMut(&str, &Value) -> (Answer, Duration) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Inside { script: Box::new(script), calls: Vec::new() })))
    }

    /// A client that retries nothing.
    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::for_tests())
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .retry_config(RetryConfig::disabled())
            .build();
        Client::from_conf(config)
    }

    /// The requests of an operation so far.
    pub(crate) fn calls(&self, operation: &str) -> Vec<Value> {
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = inside.calls.iter().filter(|(name, _)| name == operation);
        calls.map(|(_, request)| request.clone()).collect()
    }

    fn answer(&self, request: &HttpRequest) -> (HttpResponse, Duration) {
        let target = request.headers().get("x-amz-target").expect("a call names its operation");
        let operation = target.split_once('.').expect("a service and an operation").1.to_owned();
        let body = request.body().bytes().expect("a request is in memory");
        let call: Value = serde_json::from_slice(body).expect("JSON");
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.calls.push((operation.clone(), call.clone()));
        let (answer, delay) = (inside.script)(&operation, &call);
        let status = if answer.is_ok() { 200 } else { 400 }.try_into().expect("a status");
        let (Ok(body) | Err(body)) = answer;
        (HttpResponse::new(status, SdkBody::from(body.to_string())), delay)
    }
}

impl HttpConnector for StubDynamo {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (answer, delay) = self.answer(&request);
        if delay.is_zero() {
            return HttpConnectorFuture::ready(Ok(answer));
        }
        HttpConnectorFuture::new(async move {
            tokio::time::sleep(delay).await;
            Ok(answer)
        })
    }
}

/// The runtime's time, which tests pause.
#[expect(clippy::disallowed_methods, reason = "the time that passes while the code under test waits")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
