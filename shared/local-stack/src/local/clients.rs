//! Clients of what runs on this machine: region and credentials of a stack, and plain HTTP.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
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
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

/// A client for plain HTTP on this machine: no proxy and no root certificates, neither of which it could use.
pub(crate) fn http_client() -> Result<reqwest::Client, LocalError> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
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
