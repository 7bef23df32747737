//! Secrets by id: VAPID keys, and the keys that endpoints are hashed and webhooks' secrets are sealed with.
//!
//! The port is one method, so that tests need no AWS. A value that was read is kept for the life of the worker, because
//! Secrets Manager is billed by the call and a cold start should make one a secret; whoever has reason to believe that a
//! value has changed asks for it with [`CachedSecrets::refresh`].

use std::collections::HashMap;
use std::fmt;
use std::future::Future;

use crate::aws_error;

/// A secret text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one who parses it. Never log what this returns.
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
    /// The service refused, or was not reached.
    #[error("the secret `{id}` could not be read: {code}")]
    Unavailable {
        /// Name or ARN.
        id: String,
        /// The service's error code, or how the call failed.
        code: String,
    },
    /// The secret exists, and is no text.
    #[error("the secret `{id}` is not text: expected a secret string, or UTF-8 bytes")]
    NotText {
        /// Name or ARN.
        id: String,
    },
}

/// Secrets Manager's and the SDK's codes for what passes by itself.
const PASSING: [&str; 6] = [
    "Timeout",
    "DispatchFailure",
    "ResponseError",
    "ServiceError",
    "InternalServiceError",
    "ServiceUnavailable",
];

impl SecretError {
    /// Whether another try can succeed without a change by the operator: not where the secret is missing or may not be read.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { code, .. } => {
                PASSING.contains(&code.as_str()) || aws_error::of_code("GetSecretValue", code).throttled
            }
            Self::NotText { .. } => false,
        }
    }
}

/// Reads secrets.
pub trait SecretSource: Send + Sync {
    /// The current value of the secret of that name or ARN.
    fn fetch(&self, id: &str) -> impl Future<Output = Result<Secret, SecretError>> + Send;
}

/// AWS Secrets Manager.
#[derive(Clone, Debug)]
pub struct SecretsManager {
    client: aws_sdk_secretsmanager::Client,
}

impl SecretsManager {
    /// Uses this client.
    pub fn new(client: aws_sdk_secretsmanager::Client) -> Self {
        Self { client }
    }
}

impl SecretSource for SecretsManager {
    async fn fetch(&self, id: &str) -> Result<Secret, SecretError> {
        let answer = self.client.get_secret_value().secret_id(id).send().await.map_err(|error| {
            let code = aws_error::of_call("GetSecretValue", &error).code;
            SecretError::Unavailable { id: id.to_owned(), code }
        })?;
        let text = match (answer.secret_string, answer.secret_binary) {
            (Some(text), _) => Some(text),
            (None, Some(bytes)) => String::from_utf8(bytes.into_inner()).ok(),
            (None, None) => None,
        };
        text.map(Secret).ok_or_else(|| SecretError::NotText { id: id.to_owned() })
    }
}

/// Secrets that are read once.
#[derive(Debug)]
pub struct CachedSecrets<S> {
    source: S,
    /// Held while a secret is read, so that callers at the same time share one call.
    known: tokio::sync::Mutex<HashMap<String, Secret>>,
}

impl<S: SecretSource> CachedSecrets<S> {
    /// Keeps what `source` gives.
    pub fn new(source: S) -> Self {
        Self { source, known: tokio::sync::Mutex::default() }
    }

    /// The value as it was when it was first read. A failure is not kept.
    pub async fn get(&self, id: &str) -> Result<Secret, SecretError> {
        let mut known = self.known.lock().await;
        if let Some(secret) = known.get(id) {
            return Ok(secret.clone());
        }
        let secret = self.source.fetch(id).await?;
        known.insert(id.to_owned(), secret.clone());
        Ok(secret)
    }

    /// The value as it is now. A failure leaves the value that is known.
    pub async fn refresh(&self, id: &str) -> Result<Secret, SecretError> {
        let mut known = self.known.lock().await;
        let secret = self.source.fetch(id).await?;
        known.insert(id.to_owned(), secret.clone());
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Gives `value 1`, `value 2` and so on; fails on the calls of that number.
    #[derive(Default)]
    struct Numbered {
        calls: AtomicUsize,
        fails_on: Option<usize>,
    }

    impl SecretSource for Numbered {
        async fn fetch(&self, id: &str) -> Result<Secret, SecretError> {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::task::yield_now().await;
            if self.fails_on == Some(call) {
                return Err(SecretError::Unavailable { id: id.to_owned(), code: "timeout".to_owned() });
            }
            Ok(Secret::new(format!("value {call}")))
        }
    }

    #[tokio::test]
    async fn a_secret_is_read_once_however_many_ask() {
        let secrets = CachedSecrets::new(Numbered::default());
        let answers = futures_util::future::join_all((0..10).map(|_| secrets.get("a"))).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|s| s.expose() == "value 1")));
        assert_eq!(secrets.get("b").await.map(|s| s.expose().to_owned()), Ok("value 2".to_owned()));
    }

    #[tokio::test]
    async fn a_refresh_reads_again_and_a_failure_leaves_what_is_known() {
        let secrets = CachedSecrets::new(Numbered { fails_on: Some(3), ..Numbered::default() });
        assert!(secrets.get("a").await.is_ok());
        assert_eq!(secrets.refresh("a").await.map(|s| s.expose().to_owned()), Ok("value 2".to_owned()));
        assert!(secrets.refresh("a").await.is_err());
        assert_eq!(secrets.get("a").await.map(|s| s.expose().to_owned()), Ok("value 2".to_owned()));
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let secrets = CachedSecrets::new(Numbered { fails_on: Some(1), ..Numbered::default() });
        assert!(secrets.get("a").await.is_err());
        assert!(secrets.get("a").await.is_ok());
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
