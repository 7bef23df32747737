//! Secrets by id: VAPID keys, and the keys that endpoints are hashed and webhooks' secrets are sealed with.
//!
//! Values are not cached here: their owners keep what they have parsed.
//!
//! A function reads its secrets at its start, all of them in one call: each call of its own would be a connection of its own, and most
//! of what a start costs. What that call does not answer, each secret is asked for by itself; so it needs no right to the first call
//! where it has those to the secrets, and an error is about one secret.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_secretsmanager::types::SecretValueEntry;
use futures_util::future::try_join_all;
use redial_core::distinct::distinct;

use crate::aws_error;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// For parsing. Never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// Why a secret could not be read. The id is a name or an ARN, no secret itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SecretError {
    #[error("cannot read the secret `{id}`: {code}")]
    Unavailable {
        id: String,
        /// The service's error code, or how the call failed.
        code: String,
    },
    #[error("the secret `{id}` is not text: expected a secret string, or UTF-8 bytes")]
    NotText { id: String },
}

/// Secrets Manager's and the SDK's codes of errors that may pass.
const PASSING: [&str; 6] = [
    "Timeout",
    "DispatchFailure",
    "ResponseError",
    "ServiceError",
    "InternalServiceError",
    "ServiceUnavailable",
];

impl SecretError {
    /// Whether another try can succeed without a change by the operator: not if the secret is missing or access is denied.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { code, .. } => {
                PASSING.contains(&code.as_str()) || aws_error::of_code("GetSecretValue", code).throttled
            }
            Self::NotText { .. } => false,
        }
    }
}

#[derive(Clone, Debug)]
pub enum SecretLocation {
    /// In the environment.
    Value(Secret),
    /// A name or ARN.
    SecretsManager(String),
}

#[derive(Clone, Debug)]
pub struct SecretsManager {
    client: aws_sdk_secretsmanager::Client,
}

impl SecretsManager {
    pub fn new(client: aws_sdk_secretsmanager::Client) -> Self {
        Self { client }
    }

    pub async fn read(&self, location: &SecretLocation) -> Result<Secret, SecretError> {
        match location {
            SecretLocation::Value(secret) => Ok(secret.clone()),
            SecretLocation::SecretsManager(id) => self.fetch(id).await,
        }
    }

    /// The secrets of these places, in their order, with as few calls as possible.
    pub async fn read_all<const N: usize>(
        &self,
        locations: [&SecretLocation; N],
    ) -> Result<[Secret; N], SecretError> {
        let ids = locations.iter().filter_map(|location| match location {
            SecretLocation::SecretsManager(id) => Some(id.as_str()),
            SecretLocation::Value(_) => None,
        });
        let ids = distinct(ids);
        let together = if ids.len() > 1 { self.fetch_together(&ids).await? } else { HashMap::new() };
        let read = locations.map(async |location| match location {
            SecretLocation::SecretsManager(id) => match together.get(id.as_str()) {
                Some(secret) => Ok(secret.clone()),
                None => self.fetch(id).await,
            },
            SecretLocation::Value(secret) => Ok(secret.clone()),
        });
        let read = try_join_all(read).await?;
        Ok(read.try_into().expect("invariant: each place has a secret"))
    }

    /// Those of these secrets that one call answers; none if the role lacks the right to it. At most 20 (API reference).
    async fn fetch_together<'a>(&self, ids: &[&'a str]) -> Result<HashMap<&'a str, Secret>, SecretError> {
        let list = ids.iter().map(|id| (*id).to_owned()).collect();
        let call = self.client.batch_get_secret_value().set_secret_id_list(Some(list));
        let answer = match Box::pin(call.send()).await {
            Ok(answer) => answer,
            Err(error) => {
                let code = aws_error::of_call("BatchGetSecretValue", &error).code;
                let id = ids.join("`, `");
                let error = SecretError::Unavailable { id, code };
                return if error.is_passing() { Err(error) } else { Ok(HashMap::new()) };
            }
        };
        let entry_of = |id: &str| answer.secret_values().iter().find(|entry| is_of(entry, id));
        Ok(ids.iter().filter_map(|id| Some((*id, Secret(text(entry_of(id)?)?)))).collect())
    }

    /// The current value of the secret of that name or ARN.
    pub async fn fetch(&self, id: &str) -> Result<Secret, SecretError> {
        let answer = self.client.get_secret_value().secret_id(id).send().await.map_err(|error| {
            let code = aws_error::of_call("GetSecretValue", &error).code;
            SecretError::Unavailable { id: id.to_owned(), code }
        })?;
        let bytes = || String::from_utf8(answer.secret_binary?.into_inner()).ok();
        let text = answer.secret_string.or_else(bytes);
        text.map(Secret).ok_or_else(|| SecretError::NotText { id: id.to_owned() })
    }
}

/// Whether a secret has this name, or this ARN, with or without the six characters at its end that Secrets Manager appends.
fn is_of(entry: &SecretValueEntry, id: &str) -> bool {
    let has_arn = |arn: &str| arn.strip_prefix(id).is_some_and(|rest| rest.is_empty() || is_suffix(rest));
    entry.name() == Some(id) || entry.arn().is_some_and(has_arn)
}

fn is_suffix(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.len() == 6 && !rest.contains(['-', '/']))
}

fn text(entry: &SecretValueEntry) -> Option<String> {
    let bytes = || String::from_utf8(entry.secret_binary()?.as_ref().to_vec()).ok();
    entry.secret_string().map(str::to_owned).or_else(bytes)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use aws_credential_types::Credentials;
    use aws_sdk_secretsmanager::config::retry::RetryConfig;
    use aws_sdk_secretsmanager::config::{BehaviorVersion, Region};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::aws_http::http_client;
    use crate::receiver::Receiver;

    const ARN: &str = "arn:aws:secretsmanager:eu-central-1:1:secret:webhook-a1B2c3";

    /// Secrets Manager whose answers to a call of several secrets these are; one secret it always answers. With the calls it got.
    async fn answering(
        together: impl Fn(Value) -> http::Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    ) -> (Receiver, SecretsManager, Arc<Mutex<Vec<String>>>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let counted = Arc::clone(&calls);
        let service = Receiver::plain_http(move |request: http::Request<Bytes>| {
            let (together, counted) = (together.clone(), Arc::clone(&counted));
            async move {
                let target = request.headers()["x-amz-target"].to_str().expect("text").to_owned();
                let operation = target.split('.').next_back().unwrap_or_default().to_owned();
                counted.lock().expect("no panic").push(operation.clone());
                let body: Value = serde_json::from_slice(request.body()).expect("JSON");
                io::Result::Ok(match operation.as_str() {
                    "BatchGetSecretValue" => together(body["SecretIdList"].clone()),
                    _ => ok(&json!({"SecretString": format!("{} alone", body["SecretId"].as_str().expect("an id"))})),
                })
            }
        })
        .await;
        let config = aws_sdk_secretsmanager::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http_client(None).expect("a client"))
            .endpoint_url(format!("http://127.0.0.1:{}", service.port))
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::for_tests())
            .retry_config(RetryConfig::disabled())
            .build();
        (service, SecretsManager::new(aws_sdk_secretsmanager::Client::from_conf(config)), calls)
    }

    fn ok(body: &Value) -> http::Response<Full<Bytes>> {
        http::Response::new(Full::from(body.to_string()))
    }

    fn places() -> [SecretLocation; 4] {
        let of = |id: &str| SecretLocation::SecretsManager(id.to_owned());
        [of("vapid"), of(ARN), SecretLocation::Value(Secret::new("own".to_owned())), of("vapid")]
    }

    async fn read(secrets: &SecretsManager) -> Result<Vec<String>, SecretError> {
        let places = places();
        let read = secrets.read_all([&places[0], &places[1], &places[2], &places[3]]).await?;
        Ok(read.iter().map(|secret| secret.expose().to_owned()).collect())
    }

    #[tokio::test]
    async fn secrets_are_read_in_one_call_by_name_and_by_arn() {
        let (_service, secrets, calls) = answering(|ids| {
            assert_eq!(ids, json!(["vapid", ARN]));
            let bytes = json!({"ARN": ARN, "Name": "webhook", "SecretBinary": "d2ViaG9vaydz"});
            let vapid_s = json!({"ARN": "arn:aws:secretsmanager:eu-central-1:1:secret:vapid-x1Y2z3", "Name": "vapid", "SecretString": "vapid's"});
            ok(&json!({"SecretValues": [bytes, vapid_s], "Errors": []}))
        })
        .await;
        let expected = ["vapid's", "webhook's", "own", "vapid's"].map(str::to_owned);
        assert_eq!(read(&secrets).await, Ok(expected.to_vec()));
        assert_eq!(*calls.lock().expect("no panic"), ["BatchGetSecretValue"]);
    }

    #[tokio::test]
    async fn a_role_without_the_right_to_read_secrets_together_reads_each() {
        let (_service, secrets, calls) = answering(|_| {
            let mut denied = ok(&json!({"__type": "AccessDeniedException", "Message": "no"}));
            *denied.status_mut() = http::StatusCode::BAD_REQUEST;
            denied
        })
        .await;
        let webhook_s = format!("{ARN} alone");
        let expected = ["vapid alone", &webhook_s, "own", "vapid alone"].map(str::to_owned);
        assert_eq!(read(&secrets).await, Ok(expected.to_vec()));
        assert_eq!(calls.lock().expect("no panic").len(), 4);
    }

    #[tokio::test]
    async fn a_secret_that_the_call_leaves_out_is_read_by_itself() {
        let (_service, secrets, calls) = answering(|_| {
            let error = json!({"SecretId": ARN, "ErrorCode": "AccessDeniedException", "Message": "no"});
            let vapid_s = json!({"Name": "vapid", "SecretString": "vapid's"});
            ok(&json!({"SecretValues": [vapid_s], "Errors": [error]}))
        })
        .await;
        let webhook_s = format!("{ARN} alone");
        let expected = ["vapid's", &webhook_s, "own", "vapid's"].map(str::to_owned);
        assert_eq!(read(&secrets).await, Ok(expected.to_vec()));
        assert_eq!(*calls.lock().expect("no panic"), ["BatchGetSecretValue", "GetSecretValue"]);
    }

    #[tokio::test]
    async fn an_outage_of_secrets_manager_is_one_error_that_passes() {
        let (_service, secrets, calls) = answering(|_| {
            let mut out = ok(&json!({"__type": "InternalServiceError", "Message": "out"}));
            *out.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            out
        })
        .await;
        let error = read(&secrets).await.expect_err("it is out");
        assert!(error.is_passing() && error.to_string().contains("`vapid`"), "{error}");
        assert_eq!(calls.lock().expect("no panic").len(), 1);
    }

    #[test]
    fn an_arn_matches_with_and_without_its_six_characters() {
        let entry = SecretValueEntry::builder().arn(ARN).name("webhook").build();
        let short = "arn:aws:secretsmanager:eu-central-1:1:secret:webhook";
        for (id, matches) in
            [(ARN, true), (short, true), ("webhook", true), ("web", false), (&short[..46], false)]
        {
            assert_eq!(is_of(&entry, id), matches, "{id}");
        }
    }

    #[test]
    fn an_outage_passes_and_a_missing_secret_does_not() {
        let error = |code: &str| SecretError::Unavailable { id: "a".to_owned(), code: code.to_owned() };
        for code in ["Timeout", "InternalServiceError", "ThrottlingException"] {
            assert!(error(code).is_passing(), "{code}");
        }
        for code in ["ResourceNotFoundException", "AccessDeniedException", "DecryptionFailure"] {
            assert!(!error(code).is_passing(), "{code}");
        }
        assert!(!SecretError::NotText { id: "a".to_owned() }.is_passing());
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("s3cret".to_owned())), "Secret(redacted)");
    }
}
