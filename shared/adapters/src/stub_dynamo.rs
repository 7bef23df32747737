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

/// A call's answer, or its error.
pub(crate) type Answer = Result<Value, Value>;

/// An error by its code.
pub(crate) fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}")})
}

type Script = Box<dyn FnMut(&str, &Value) -> Answer + Send>;
type Delay = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Answers each call, and records it.
#[derive(Clone)]
pub(crate) struct StubDynamo {
    inside: Arc<Mutex<Inside>>,
    delay: Option<Delay>,
}

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
    /// `script` answers an operation and its request.
    pub(crate) fn new(script: impl FnMut(&str, &Value) -> Answer + Send + 'static) -> Self {
        let inside = Inside { script: Box::new(script), calls: Vec::new() };
        Self { inside: Arc::new(Mutex::new(inside)), delay: None }
    }

    /// Each answer takes this long.
    pub(crate) fn delayed(self, delay: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { delay: Some(Arc::new(delay)), ..self }
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
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = inside.calls.iter().filter(|(name, _)| name == operation);
        calls.map(|(_, request)| request.clone()).collect()
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let target = request.headers().get("x-amz-target").expect("a call names its operation");
        let operation = target.split_once('.').expect("a service and an operation").1.to_owned();
        let body = request.body().bytes().expect("a request is in memory");
        let call: Value = serde_json::from_slice(body).expect("JSON");
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.calls.push((operation.clone(), call.clone()));
        let (status, body) = match (inside.script)(&operation, &call) {
            Ok(answer) => (200, answer),
            Err(error) => (400, error),
        };
        let status = status.try_into().expect("a status");
        HttpResponse::new(status, SdkBody::from(body.to_string()))
    }
}

impl HttpConnector for StubDynamo {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = self.answer(&request);
        let Some(delay) = &self.delay else { return HttpConnectorFuture::ready(Ok(answer)) };
        let delay = delay();
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
