//! Clients of what runs on this machine: region and credentials as emulators want them, and plain HTTP.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};

use super::error::{LocalError, chain};

pub const REGION: &str = "us-east-1";

/// What an emulator takes for both halves of its credentials. No secret: it grants nothing anywhere.
pub(super) const ACCESS_KEY: &str = "test";

pub fn sdk_config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new(ACCESS_KEY, ACCESS_KEY, None, None, "local stack");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
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
