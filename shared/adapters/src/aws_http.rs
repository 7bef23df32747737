//! The settings of the AWS SDK.
//!
//! Two settings differ from the SDK's defaults. TLS is rustls on ring, because aws-lc adds 80 to 135 ms to a cold start for its first
//! random number. And the trust store is Amazon's five roots, because reading the system's store is most of a cold start; behind another
//! authority (a TLS-inspecting proxy, a private endpoint), set `AWS_CA_BUNDLE`, the variable that AWS's other tools read, to a PEM file
//! that replaces the roots.
//!
//! Time-outs are set because the SDK has none: a call that hangs would hold its message until the function's end.
//! Endpoints that are plain http, such as an emulator's, work as they are.
//!
//! What a function is set to comes from Lambda's environment alone: the SDK's default chain would bring profile files, instance
//! metadata and a client of STS into the executable, and read them at each start, although a function's role is in its environment.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::aws_client::AwsClient;
use crate::egress::client_config;

/// The environment variable that names a PEM file with the roots to trust instead of Amazon's.
pub const CA_BUNDLE_VARIABLE: &str = "AWS_CA_BUNDLE";

/// Amazon Trust Services' roots, under which AWS's endpoints are certified.
const AMAZON_ROOTS: &[u8] = include_bytes!("aws_roots.pem");

/// To connect, TLS included. Within a region it takes a few milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// One attempt of a call. DynamoDB and SQS answer within tens of milliseconds; a batch at its bound within a second.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);

/// A call with all its attempts.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts of a call, the first included.
const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum CaBundleError {
    #[error("{CA_BUNDLE_VARIABLE}: cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{CA_BUNDLE_VARIABLE}: expected PEM with at least one certificate, each a valid root, in `{}`", path.display())]
    NotCertificates { path: PathBuf },
}

/// How a function reaches AWS, as its environment says: region, credentials, and, where they are set, the endpoint and the kind of
/// endpoints. With this module's HTTP client, time-outs and retries.
pub fn sdk_config(lookup: impl Fn(&str) -> Option<String>) -> Result<SdkConfig, CaBundleError> {
    let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let is_on = |name: &str| set(name).map(|value| value.eq_ignore_ascii_case("true"));
    let ca_bundle = set(CA_BUNDLE_VARIABLE).map(PathBuf::from);
    let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")).map(Region::new);
    let credentials = SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new());
    let mut config = patient(http_client(ca_bundle.as_deref())?).into_builder();
    config
        .set_region(region)
        .set_credentials_provider(Some(credentials))
        .set_endpoint_url(set("AWS_ENDPOINT_URL"))
        .set_use_fips(is_on("AWS_USE_FIPS_ENDPOINT"))
        .set_use_dual_stack(is_on("AWS_USE_DUALSTACK_ENDPOINT"));
    Ok(config.build())
}

/// With this client, and with time-outs and retries.
fn patient(http_client: SharedHttpClient) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http_client)
        .timeout_config(timeouts)
        .retry_config(RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS))
        .build()
}

/// A client on ring that trusts the certificates of that PEM file, or Amazon's roots.
pub fn http_client(ca_bundle: Option<&Path>) -> Result<SharedHttpClient, CaBundleError> {
    let roots = match ca_bundle {
        Some(path) => read_bundle(path)?,
        None => roots(AMAZON_ROOTS).expect("invariant: Amazon's roots are roots"),
    };
    Ok(SharedHttpClient::new(AwsClient::new(client_config(roots))))
}

/// Reads the file's certificates.
fn read_bundle(path: &Path) -> Result<RootCertStore, CaBundleError> {
    let pem =
        std::fs::read(path).map_err(|error| CaBundleError::Unreadable { path: path.to_owned(), error })?;
    roots(&pem)
        .filter(|roots| !roots.is_empty())
        .ok_or_else(|| CaBundleError::NotCertificates { path: path.to_owned() })
}

/// The certificates; `None` if one of them cannot be a root.
fn roots(pem: &[u8]) -> Option<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        store.add(certificate.ok()?).ok()?;
    }
    Some(store)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use aws_sdk_secretsmanager::config::Credentials;
    use http_body_util::Full;
    use hyper::body::Bytes;

    use super::*;
    use crate::receiver::{Identity, Receiver};
    use crate::secrets::{SecretError, SecretsManager};

    #[test]
    fn amazon_s_five_roots_parse_and_a_bundle_that_is_none_is_refused_by_name() {
        assert_eq!(roots(AMAZON_ROOTS).map(|roots| roots.len()), Some(5));
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("written");
        let empty = tempfile::NamedTempFile::new().expect("a file");
        for path in [file.path(), empty.path(), Path::new("/nowhere/ca.pem")] {
            let error = http_client(Some(path)).expect_err("no bundle").to_string();
            assert!(
                error.contains(CA_BUNDLE_VARIABLE) && error.contains(&path.display().to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn a_function_is_set_by_lambda_s_environment_alone() {
        let config = |set: &[(&str, &str)]| {
            let lookup =
                |name: &str| set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
            sdk_config(lookup).expect("no bundle is named")
        };
        let lambda_s = config(&[("AWS_REGION", "eu-central-1"), ("AWS_ENDPOINT_URL", " ")]);
        assert_eq!(lambda_s.region().map(Region::as_ref), Some("eu-central-1"));
        assert_eq!(
            (lambda_s.endpoint_url(), lambda_s.use_fips(), lambda_s.use_dual_stack()),
            (None, None, None)
        );
        let changed = config(&[
            ("AWS_DEFAULT_REGION", "us-gov-west-1"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"),
            ("AWS_USE_FIPS_ENDPOINT", "true"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "false"),
        ]);
        assert_eq!(changed.region().map(Region::as_ref), Some("us-gov-west-1"));
        assert_eq!(changed.endpoint_url(), Some("http://127.0.0.1:4566"));
        assert_eq!((changed.use_fips(), changed.use_dual_stack()), (Some(true), Some(false)));
        assert!(lambda_s.credentials_provider().is_some() && lambda_s.http_client().is_some());
    }

    /// Secrets Manager with one secret.
    async fn answer(request: http::Request<Bytes>) -> io::Result<http::Response<Full<Bytes>>> {
        assert_eq!(request.headers()["x-amz-target"], "secretsmanager.GetSecretValue");
        Ok(http::Response::new(Full::from(r#"{"Name": "vapid", "SecretString": "s3cret"}"#)))
    }

    async fn fetch(endpoint: String, client: SharedHttpClient) -> Result<String, SecretError> {
        let config = patient(client)
            .into_builder()
            .endpoint_url(endpoint)
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
            .retry_config(RetryConfig::disabled())
            .build();
        let secrets = SecretsManager::new(aws_sdk_secretsmanager::Client::new(&config));
        secrets.fetch("vapid").await.map(|secret| secret.expose().to_owned())
    }

    #[tokio::test]
    async fn plain_http_answers_and_a_bundle_takes_the_place_of_amazon_s_roots() {
        let amazon_s = || http_client(None).expect("a client");
        let emulator = Receiver::plain_http(answer).await;
        let endpoint = format!("http://127.0.0.1:{}", emulator.port);
        assert_eq!(fetch(endpoint, amazon_s()).await, Ok("s3cret".to_owned()));

        let identity = Identity::new(&["http/1.1"]);
        let receiver = Receiver::http(&identity, answer).await;
        let mut bundle = tempfile::NamedTempFile::new().expect("a file");
        bundle.write_all(identity.ca_pem.as_bytes()).expect("written");
        let ours = http_client(Some(bundle.path())).expect("a client");
        assert_eq!(fetch(receiver.origin(), ours).await, Ok("s3cret".to_owned()));
        let refused = fetch(receiver.origin(), amazon_s()).await;
        assert!(matches!(refused, Err(SecretError::Unavailable { .. })), "{refused:?}");
    }
}
