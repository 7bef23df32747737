//! The AWS SDK's HTTP client over reqwest, which also posts pushes: a second client would be a third of a megabyte more of the executable.
//!
//! It does what the SDK asks of a client: it keeps the time-outs for connecting and for the first byte of a response, passes bodies on as
//! they are, because the SDK measures how fast they are sent and read, tells errors apart as retries need it, and gives up a connection on which
//! a call failed. reqwest closes no single connection, so all that are idle are given up then.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use reqwest::Body;
use rustls::ClientConfig;

use crate::egress::client_builder;
use crate::error_chain::any;

/// All of the SDK's clients that have it share its connections.
#[derive(Clone)]
pub(crate) struct AwsClient(Arc<Clients>);

struct Clients {
    tls: ClientConfig,
    /// By their time-outs for connecting, which reqwest has for a client.
    made: Mutex<HashMap<Option<Duration>, reqwest::Client>>,
}

impl AwsClient {
    pub(crate) fn new(tls: ClientConfig) -> Self {
        Self(Arc::new(Clients { tls, made: Mutex::default() }))
    }

    fn within(&self, connect_timeout: Option<Duration>) -> reqwest::Client {
        self.made().entry(connect_timeout).or_insert_with(|| self.make(connect_timeout)).clone()
    }

    fn make(&self, connect_timeout: Option<Duration>) -> reqwest::Client {
        let client = client_builder(self.0.tls.clone());
        let client = match connect_timeout {
            Some(within) => client.connect_timeout(within),
            None => client,
        };
        client.build().expect("invariant: constants and a finished TLS configuration make a client")
    }

    /// Idle connections are closed; calls under way end on theirs.
    fn give_up_connections(&self) {
        self.made().clear();
    }

    /// No change under this lock can be left half done.
    fn made(&self) -> MutexGuard<'_, HashMap<Option<Duration>, reqwest::Client>> {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AwsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsClient")
    }
}

impl HttpClient for AwsClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector { client: self.clone(), settings: settings.clone() })
    }
}

#[derive(Debug)]
struct Connector {
    client: AwsClient,
    settings: HttpConnectorSettings,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            if let Some(captured) = request.extensions().get::<CaptureSmithyConnection>() {
                let client = client.clone();
                captured.set_connection_retriever(move || {
                    let client = client.clone();
                    let connection = ConnectionMetadata::builder().proxied(false);
                    Some(connection.poison_fn(move || client.give_up_connections()).build())
                });
            }
            let request = reqwest::Request::try_from(request.map(Body::wrap)).map_err(failed)?;
            let sending = client.within(settings.connect_timeout()).execute(request);
            let response = match settings.read_timeout() {
                Some(within) => tokio::time::timeout(within, sending)
                    .await
                    .map_err(|elapsed| ConnectorError::timeout(elapsed.into()))?,
                None => sending.await,
            };
            let response: http::Response<Body> = response.map_err(failed)?.into();
            let response = HttpResponse::try_from(response.map(SdkBody::from_body_1_x));
            response.map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

/// A call is made again that took too long, or whose connection was not made or broke off.
fn failed(error: reqwest::Error) -> ConnectorError {
    let error = error.without_url();
    if error.is_timeout() {
        ConnectorError::timeout(error.into())
    } else if error.is_builder() {
        ConnectorError::user(error.into())
    } else if error.is_connect() || any(&error, &broke_off) {
        ConnectorError::io(error.into())
    } else {
        ConnectorError::other(error.into(), None)
    }
}

/// Whether this link of an error is of a connection that broke off.
fn broke_off(link: &(dyn Error + 'static)) -> bool {
    match link.downcast_ref::<hyper::Error>() {
        Some(error) => error.is_closed() || error.is_canceled() || error.is_incomplete_message(),
        None => link.is::<io::Error>(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use aws_config::SdkConfig;
    use aws_config::retry::RetryConfig;
    use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
    use aws_config::timeout::TimeoutConfig;
    use http_body_util::Full;
    use hyper::body::Bytes;

    use crate::receiver::{Receiver, sdk_at};
    use crate::secrets::{Secret, SecretError, SecretsManager};

    fn secret() -> http::Response<Full<Bytes>> {
        http::Response::new(Full::from(r#"{"Name": "vapid", "SecretString": "s3cret"}"#))
    }

    fn secrets_by(config: &SdkConfig) -> SecretsManager {
        SecretsManager::new(aws_sdk_secretsmanager::Client::new(config))
    }

    fn is_read(read: &Result<Secret, SecretError>) -> bool {
        read.as_ref().is_ok_and(|secret| secret.expose() == "s3cret")
    }

    /// A Secrets Manager that answers after `wait`.
    async fn answering_after(wait: Duration) -> Receiver {
        Receiver::plain_http(move |_| async move {
            tokio::time::sleep(wait).await;
            Ok(secret())
        })
        .await
    }

    #[tokio::test]
    async fn a_call_that_failed_is_made_again_on_another_connection() {
        let calls = Arc::new(AtomicUsize::new(0));
        let emulator = Receiver::plain_http(move |_| {
            let nth = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                let mut answer = secret();
                match nth {
                    0 => return Err(std::io::ErrorKind::ConnectionReset.into()),
                    1 => *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE,
                    _ => {}
                }
                Ok(answer)
            }
        })
        .await;
        let config = sdk_at(emulator.port).into_builder().retry_config(RetryConfig::standard()).build();
        let secrets = secrets_by(&config);
        for _ in 0..2 {
            assert!(is_read(&secrets.fetch("vapid").await));
            assert_eq!(emulator.connections(), 3);
        }
    }

    /// As a long poll is, for which the SDK's protection against stalled streams has less patience than for the answer.
    #[tokio::test]
    async fn a_call_that_is_answered_late_is_no_stalled_stream() {
        let emulator = answering_after(Duration::from_secs(5)).await;
        let protection = StalledStreamProtectionConfig::enabled();
        let protection = protection.grace_period(Duration::from_secs(2)).build();
        let config = sdk_at(emulator.port).into_builder().stalled_stream_protection(protection).build();
        let secrets = secrets_by(&config);
        assert!(is_read(&secrets.fetch("vapid").await));
    }

    #[tokio::test]
    async fn the_first_byte_of_a_response_has_the_sdk_s_time_out() {
        let emulator = answering_after(Duration::from_secs(60)).await;
        let timeouts = TimeoutConfig::builder().read_timeout(Duration::from_millis(100)).build();
        let config = sdk_at(emulator.port).into_builder().timeout_config(timeouts).build();
        let secrets = secrets_by(&config);
        let read = secrets.fetch("vapid").await;
        assert!(
            matches!(&read, Err(error @ SecretError::Unavailable { .. }) if error.is_passing()),
            "{read:?}"
        );
    }
}
