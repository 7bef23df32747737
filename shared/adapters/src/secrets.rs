//! Secrets by id: VAPID keys, and the keys that endpoints are hashed and webhooks' secrets are sealed with.
//!
//! Values are not cached here: their owners keep what they have parsed.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
