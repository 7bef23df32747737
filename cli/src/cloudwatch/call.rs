//! One call to CloudWatch, in its JSON protocol, signed. What is trusted is what `AWS_CA_BUNDLE` names, or else the system's
//! roots.

use std::{
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sdk_cloudwatchlogs::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use redial_adapters::{aws_http::CA_BUNDLE_VARIABLE, system::System};
use redial_engine::ports::Clock as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::asked::Trouble;

/// What stands before an operation's name.
const SERVICE: &str = "GraniteServiceVersion20100801";
/// What its endpoints begin with, and its name in signatures.
const ENDPOINT_PREFIX: &str = "monitoring";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls CloudWatch in a stack's account and region.
pub(super) struct Caller<'a> {
    sdk: &'a SdkConfig,
    client: reqwest::Client,
}

impl<'a> Caller<'a> {
    pub(super) fn new(sdk: &'a SdkConfig) -> Result<Self, Trouble> {
        Ok(Self { sdk, client: client(sdk)? })
    }

    /// The answer to this operation.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        asked: &Value,
    ) -> Result<T, Trouble> {
        let (url, body, target) =
            (endpoint(self.sdk).await?, asked.to_string(), format!("{SERVICE}.{operation}"));
        let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", &target)];
        let signed = signature(self.sdk, &url, headers, &body).await?;
        let mut request = self.client.post(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let answer = request.body(body).send().await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| failed(&error))?;
        if status.is_success() {
            return serde_json::from_str(&text).map_err(|error| failed(&error));
        }
        let (code, words) = refusal(&text);
        let words = words.unwrap_or_else(|| format!("{operation}: {status}"));
        Err(Trouble::of(&format!("cloudwatch:{operation}"), code.as_deref(), words))
    }
}

/// Code and words of an answer that is none.
fn refusal(text: &str) -> (Option<String>, Option<String>) {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| answer[name].as_str().map(str::to_owned);
    // `com.amazonaws.cloudwatch#AccessDenied`
    let code = field("__type").map(|kind| kind.rsplit('#').next().unwrap_or_default().to_owned());
    let message = field("message").or_else(|| field("Message"));
    let words = code.as_ref().map(|code| format!("{code}: {}", message.unwrap_or_default()));
    (code, words)
}

/// CloudWatch's URL in the region that `sdk` names: that of CloudWatch Logs, whose rules the SDK has for every partition, under
/// the name of this service. The two follow the same pattern everywhere, with FIPS and dual-stack endpoints, too.
async fn endpoint(sdk: &SdkConfig) -> Result<String, Trouble> {
    if let Some(url) = sdk.endpoint_url() {
        return Ok(format!("{}/", url.trim_end_matches('/')));
    }
    let parameters = Params::builder()
        .region(region(sdk)?)
        .use_fips(sdk.use_fips().unwrap_or_default())
        .use_dual_stack(sdk.use_dual_stack().unwrap_or_default())
        .build()
        .map_err(|error| failed(&error))?;
    let resolver = DefaultResolver::new();
    let of_logs = resolver.resolve_endpoint(&parameters).await.map_err(|error| failed(&*error))?;
    let host = of_logs.url().strip_prefix("https://logs").ok_or_else(|| Trouble::Failed {
        words: format!("no endpoint of CloudWatch follows from {}", of_logs.url()),
    })?;
    Ok(format!("https://{ENDPOINT_PREFIX}{host}/"))
}

fn region(sdk: &SdkConfig) -> Result<&str, Trouble> {
    let region = sdk.region().ok_or_else(|| Trouble::Failed { words: "no AWS region".to_owned() })?;
    Ok(region.as_ref())
}

/// The headers that sign a call.
async fn signature(
    sdk: &SdkConfig,
    url: &str,
    headers: [(&str, &str); 2],
    body: &str,
) -> Result<Vec<(String, String)>, Trouble> {
    let provider =
        sdk.credentials_provider().ok_or_else(|| Trouble::Failed { words: "no credentials".to_owned() })?;
    let credentials = provider.provide_credentials().await.map_err(|error| failed(&error))?;
    let identity = credentials.into();
    let now = u64::try_from(System.now().as_ms()).unwrap_or_default();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region(sdk)?)
        .name(ENDPOINT_PREFIX)
        .time(UNIX_EPOCH + Duration::from_millis(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let request =
        SignableRequest::new("POST", url, headers.into_iter(), SignableBody::Bytes(body.as_bytes()))
            .map_err(|error| failed(&error))?;
    let (instructions, _) = sign(request, &parameters).map_err(|error| failed(&error))?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// For calls to a stack's account, or to the emulator that it is on.
pub(crate) fn client(sdk: &SdkConfig) -> Result<reqwest::Client, Trouble> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let mut client = reqwest::Client::builder().timeout(TIMEOUT);
    if sdk.endpoint_url().is_some_and(|url| url.starts_with("http://")) {
        client = client.no_proxy().tls_certs_only([]);
    } else if let Some(path) = std::env::var_os(CA_BUNDLE_VARIABLE).filter(|value| !value.is_empty()) {
        let pem = std::fs::read(PathBuf::from(path)).map_err(|error| failed(&error))?;
        let roots = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))?;
        client = client.tls_certs_only(roots);
    }
    client.build().map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Trouble {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    Trouble::Failed { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_s_code_is_read_with_and_without_its_namespace() {
        let refused = r#"{"__type": "com.amazonaws.cloudwatch#AccessDenied", "message": "not you"}"#;
        assert_eq!(
            refusal(refused),
            (Some("AccessDenied".to_owned()), Some("AccessDenied: not you".to_owned()))
        );
        assert_eq!(refusal(r#"{"__type": "Throttling"}"#).0.as_deref(), Some("Throttling"));
        assert_eq!(refusal("<html>"), (None, None));
    }

    #[tokio::test]
    async fn the_endpoint_is_the_region_s_in_each_partition_unless_another_is_set() {
        let sdk = |region| SdkConfig::builder().region(aws_config::Region::new(region)).build();
        for (region, url) in [
            ("eu-central-1", "https://monitoring.eu-central-1.amazonaws.com/"),
            ("cn-north-1", "https://monitoring.cn-north-1.amazonaws.com.cn/"),
            ("us-gov-west-1", "https://monitoring.us-gov-west-1.amazonaws.com/"),
            ("us-iso-east-1", "https://monitoring.us-iso-east-1.c2s.ic.gov/"),
            ("us-isob-east-1", "https://monitoring.us-isob-east-1.sc2s.sgov.gov/"),
            ("eusc-de-east-1", "https://monitoring.eusc-de-east-1.amazonaws.eu/"),
        ] {
            assert_eq!(endpoint(&sdk(region)).await.expect("a region"), url);
        }
        let here = sdk("us-east-1").into_builder().endpoint_url("http://127.0.0.1:4566").build();
        assert_eq!(endpoint(&here).await.expect("a URL"), "http://127.0.0.1:4566/");
        assert!(endpoint(&SdkConfig::builder().build()).await.is_err(), "without a region");
    }
}
