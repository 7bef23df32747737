//! One call to CloudWatch: `DescribeAlarms`, in its JSON protocol, signed.
//!
//! It is made by hand because the SDK's own crate brings a CBOR codec whose licence is not among those that may come into this
//! repository; the signature is the SDK's. What is trusted is what `AWS_CA_BUNDLE` names, or else the system's roots.

use std::{
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use redial_adapters::{aws_http::CA_BUNDLE_VARIABLE, system::System};
use redial_core::ports::Clock as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::Trouble;

/// What allows it.
const PERMISSION: &str = "cloudwatch:DescribeAlarms";

const TARGET: &str = "GraniteServiceVersion20100801.DescribeAlarms";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The most alarms of an answer.
const AT_ONCE: usize = 100;

const TIMEOUT: Duration = Duration::from_secs(20);

/// An alarm as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Alarm {
    #[serde(rename = "AlarmName")]
    pub(super) name: String,
    #[serde(rename = "StateValue", default)]
    pub(super) state: String,
    #[serde(default)]
    actions_enabled: Option<bool>,
    #[serde(default)]
    alarm_actions: Vec<String>,
}

impl Alarm {
    /// Whether it does anything when it fires.
    pub(super) fn tells_someone(&self) -> bool {
        self.actions_enabled != Some(false) && !self.alarm_actions.is_empty()
    }

    #[cfg(test)]
    pub(super) fn of(name: &str, state: &str, action: Option<&str>) -> Self {
        let alarm_actions = action.map(str::to_owned).into_iter().collect();
        Self { name: name.to_owned(), state: state.to_owned(), actions_enabled: Some(true), alarm_actions }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    #[serde(default)]
    metric_alarms: Vec<Alarm>,
    #[serde(default)]
    composite_alarms: Vec<Alarm>,
}

/// The alarms of these names that there are.
pub(super) async fn alarms(sdk: &SdkConfig, names: &[String]) -> Result<Vec<Alarm>, Trouble> {
    let client = client(sdk)?;
    let mut alarms = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let asked = json!({
            "AlarmNames": names,
            "AlarmTypes": ["MetricAlarm", "CompositeAlarm"],
            "MaxRecords": AT_ONCE,
        });
        let described = call(sdk, &client, asked.to_string()).await?;
        alarms.extend(described.metric_alarms.into_iter().chain(described.composite_alarms));
    }
    Ok(alarms)
}

async fn call(sdk: &SdkConfig, client: &reqwest::Client, body: String) -> Result<Described, Trouble> {
    let url = endpoint(sdk)?;
    let signed = signature(sdk, &url, &body).await?;
    let mut request = client.post(&url).header("content-type", CONTENT_TYPE).header("x-amz-target", TARGET);
    for (name, value) in signed {
        request = request.header(name, value);
    }
    let answer = request.body(body).send().await.map_err(|error| failed(&error))?;
    let is_success = answer.status().is_success();
    let status = answer.status();
    let text = answer.text().await.map_err(|error| failed(&error))?;
    if is_success {
        return serde_json::from_str(&text).map_err(|error| failed(&error));
    }
    let (code, words) = refusal(&text);
    Err(Trouble::of(
        PERMISSION,
        code.as_deref(),
        words.unwrap_or_else(|| format!("DescribeAlarms: {status}")),
    ))
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

fn endpoint(sdk: &SdkConfig) -> Result<String, Trouble> {
    if let Some(url) = sdk.endpoint_url() {
        return Ok(format!("{}/", url.trim_end_matches('/')));
    }
    let region = sdk.region().ok_or_else(|| Trouble::Failed { words: "no AWS region".to_owned() })?.as_ref();
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    Ok(format!("https://monitoring.{region}.{suffix}/"))
}

/// The headers that sign a call.
async fn signature(sdk: &SdkConfig, url: &str, body: &str) -> Result<Vec<(String, String)>, Trouble> {
    let provider =
        sdk.credentials_provider().ok_or_else(|| Trouble::Failed { words: "no credentials".to_owned() })?;
    let credentials = provider.provide_credentials().await.map_err(|error| failed(&error))?;
    let identity = credentials.into();
    let now = u64::try_from(System.now().as_ms()).unwrap_or_default();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(sdk.region().map_or("us-east-1", AsRef::as_ref))
        .name("monitoring")
        .time(UNIX_EPOCH + Duration::from_millis(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", TARGET)];
    let request =
        SignableRequest::new("POST", url, headers.into_iter(), SignableBody::Bytes(body.as_bytes()))
            .map_err(|error| failed(&error))?;
    let (instructions, _) = sign(request, &parameters).map_err(|error| failed(&error))?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn client(sdk: &SdkConfig) -> Result<reqwest::Client, Trouble> {
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
    fn an_alarm_without_actions_or_with_them_switched_off_tells_nobody() {
        let alarm = |text: &str| serde_json::from_str::<Alarm>(text).expect("an alarm");
        let told = r#"{"AlarmName": "a", "StateValue": "OK", "ActionsEnabled": true, "AlarmActions": ["arn:topic"]}"#;
        assert!(alarm(told).tells_someone());
        assert!(!alarm(&told.replace("true", "false")).tells_someone());
        assert!(!alarm(r#"{"AlarmName": "a", "StateValue": "OK"}"#).tells_someone());
    }

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

    #[test]
    fn the_endpoint_is_the_region_s_unless_another_is_set() {
        let sdk = |region| SdkConfig::builder().region(aws_config::Region::new(region)).build();
        let of = |sdk: &SdkConfig| endpoint(sdk).expect("a region");
        assert_eq!(of(&sdk("eu-central-1")), "https://monitoring.eu-central-1.amazonaws.com/");
        assert_eq!(of(&sdk("cn-north-1")), "https://monitoring.cn-north-1.amazonaws.com.cn/");
        let here = sdk("us-east-1").into_builder().endpoint_url("http://127.0.0.1:4566").build();
        assert_eq!(of(&here), "http://127.0.0.1:4566/");
    }
}
