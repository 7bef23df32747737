//! Clients of what runs on this machine: region and credentials of a stack, and plain HTTP.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use redial_adapters::aws_http;
use redial_adapters::system::System;
use redial_console::signing::signature;
use redial_engine::ports::Clock as _;

use super::{
    StackKey,
    error::{LocalError, chain},
};

pub const REGION: &str = "us-east-1";

/// For a stack at this endpoint that has this key.
pub fn sdk_config(endpoint: &str, key: &StackKey) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(key.credentials()))
        .http_client(aws_http::http_client(None).expect("invariant: no bundle is read"))
        .build()
}

/// A client for plain HTTP on this machine: no proxy and no root certificates, neither of which it could use. Each request has a connection of
/// its own: between two of them files are packed, and an emulator that has closed an idle connection meanwhile answers nothing on it.
pub(crate) fn http_client() -> Result<reqwest::Client, LocalError> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .tls_certs_only([])
        .build()
        .map_err(|error| LocalError::Call { call: "HTTP client", message: chain(&error) })
}

/// A PUT to S3, which is the only call for which an SDK's client would be a dependency of its own.
pub(super) fn signed_put(
    http: &reqwest::Client,
    url: &str,
    key: &StackKey,
) -> Result<reqwest::RequestBuilder, LocalError> {
    let signature = signature("PUT", url, &key.credentials(), REGION, System.now());
    let signature =
        signature.map_err(|error| LocalError::Call { call: "PutObject", message: chain(&error) })?;
    Ok(signature.into_iter().fold(http.put(url), |put, (name, value)| put.header(name, value)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers one request; what follows on the connection finds it closed.
    async fn answer_one(mut connection: TcpStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"an object") {
            assert!(connection.read_buf(&mut request).await.expect("a request") > 0, "it is cut off");
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("it is read");
        let _none_or_another = connection.read_buf(&mut request).await;
    }

    #[tokio::test]
    async fn a_request_goes_out_on_no_connection_that_has_been_idle() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move {
            for _ in 0..3 {
                let (connection, _) = listener.accept().await.expect("a connection");
                tokio::spawn(answer_one(connection));
            }
        });
        let http = http_client().expect("a client");
        for _ in 0..3 {
            let answer = http.put(&url).body("an object").send().await.expect("an answer");
            assert!(answer.bytes().await.expect("a body").is_empty());
        }
        server.await.expect("no panic");
    }
}
