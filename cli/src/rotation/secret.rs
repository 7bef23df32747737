//! A secret that is replaced only if nothing else replaced it in the meantime.
//!
//! Secrets Manager has no conditional put, but it moves its label `AWSCURRENT` only from the version that the call names. So a
//! new text is first put under a label of its own, where nothing reads it, and then the label is moved from the version that was
//! read: of two concurrent rotations one is refused, and starts again from what the other wrote. The text before stays as
//! `AWSPREVIOUS`.

use std::error::Error;

use aws_sdk_secretsmanager::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
};
use rand::RngExt as _;
use redial_adapters::{secrets::Secret, system::System};
use redial_core::time::Timestamp;
use redial_engine::ports::Randomness as _;

use crate::{
    aws_error,
    failure::Failure,
    stack::{Target, variable},
};

/// The size of a secret in bytes: a quota of Secrets Manager.
pub(crate) const MOST_BYTES: usize = 65_536;

/// The label of the version that workers read.
const CURRENT: &str = "AWSCURRENT";

#[derive(Debug)]
pub(crate) struct KeysSecret {
    client: Client,
    /// Name or ARN.
    pub(crate) id: String,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) text: Secret,
    pub(crate) created: Option<Timestamp>,
    id: String,
}

/// Never holds the secret's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFailure {
    #[error("{call} of the secret {id} failed: {words}")]
    Call { call: &'static str, id: String, words: String },
    #[error("the secret {0} holds no text")]
    NotText(String),
    #[error("the secret {id} is invalid: {error}")]
    Invalid { id: String, error: String },
    #[error(
        "the secret was changed by another rotation; no key was lost: run this again to continue from its new state"
    )]
    Overtaken,
    #[error("the stack's functions have no such key: neither {value} nor {id} is set (see redial doctor)")]
    Nowhere { value: &'static str, id: &'static str },
    #[error(
        "the secret {id} would be {bytes} bytes long, and a secret holds {MOST_BYTES}: retire a key first"
    )]
    TooLong { id: String, bytes: usize },
}

/// The variables of the functions' environment that a key comes from.
pub(crate) struct Variables {
    /// Has the key itself, and wins.
    pub(crate) value: &'static str,
    /// Names its secret.
    pub(crate) id: &'static str,
    /// What to do about a key in the environment, which the template sets.
    pub(crate) remedy: &'static str,
}

impl Variables {
    /// Name or ARN of the secret.
    fn secret<'a>(&self, variable: impl Fn(&str) -> Option<&'a str>) -> Result<&'a str, Failure> {
        let Self { value, id, remedy } = *self;
        match (variable(value), variable(id)) {
            (None, Some(secret)) => Ok(secret),
            (Some(_), _) => Err(Failure::Failed(remedy.into())),
            (None, None) => Err(SecretFailure::Nowhere { value, id }.into()),
        }
    }
}

impl KeysSecret {
    pub(crate) async fn of(target: &Target, variables: &Variables) -> Result<Self, Failure> {
        let dispatch = target.whole_configuration(&target.dispatch).await;
        let dispatch =
            dispatch.map_err(|error| error.failure("the configuration of dispatch cannot be read"))?;
        let id = variables.secret(|name| variable(&dispatch, name))?.to_owned();
        Ok(Self { client: Client::new(&target.sdk), id })
    }

    pub(crate) fn invalid(&self, error: impl ToString) -> SecretFailure {
        SecretFailure::Invalid { id: self.id.clone(), error: error.to_string() }
    }

    /// The version that workers read.
    pub(crate) async fn read(&self) -> Result<Version, SecretFailure> {
        let read = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = read.map_err(self.failed("GetSecretValue"))?;
        let binary =
            |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
        let text = answer.secret_string.or_else(|| answer.secret_binary.and_then(binary));
        let text = text.ok_or_else(|| SecretFailure::NotText(self.id.clone()))?;
        let created = answer.created_date.and_then(|at| at.to_millis().ok()).map(Timestamp::from_ms);
        Ok(Version { text: Secret::new(text), created, id: answer.version_id.unwrap_or_default() })
    }

    /// In milliseconds since the epoch.
    pub(crate) async fn changed_at_ms(&self) -> Result<Option<i64>, SecretFailure> {
        let described = self.client.describe_secret().secret_id(&self.id).send().await;
        let described = described.map_err(self.failed("DescribeSecret"))?;
        Ok(described.last_changed_date.and_then(|at| at.to_millis().ok()))
    }

    /// Replaces what was read by `text`; `false` if it was replaced already.
    pub(crate) async fn exchange(&self, before: &Version, text: &Secret) -> Result<bool, SecretFailure> {
        let bytes = text.expose().len();
        if bytes > MOST_BYTES {
            return Err(SecretFailure::TooLong { id: self.id.clone(), bytes });
        }
        let label = format!("redial-{:016x}", System.rng().random::<u64>());
        let put = self.client.put_secret_value().secret_id(&self.id).secret_string(text.expose());
        let put = put.version_stages(&label).send().await.map_err(self.failed("PutSecretValue"))?;
        let version = put.version_id.unwrap_or_default();
        let moved = self
            .client
            .update_secret_version_stage()
            .secret_id(&self.id)
            .version_stage(CURRENT)
            .remove_from_version_id(&before.id)
            .move_to_version_id(&version)
            .send()
            .await;
        // Secrets Manager deletes unused versions without a label after a while, and keeps those with one.
        let unlabelled = self
            .client
            .update_secret_version_stage()
            .secret_id(&self.id)
            .version_stage(&label)
            .remove_from_version_id(&version)
            .send()
            .await;
        let Err(error) = moved else {
            // The label was moved: one label too many does no harm.
            drop(unlabelled);
            return Ok(true);
        };
        // The answer may be lost although the label was moved: read what is there now.
        let now = self.read().await?;
        if now.id == before.id {
            Err(self.failed("UpdateSecretVersionStage")(error))
        } else {
            Ok(now.id == version)
        }
    }

    /// A service's message may quote what was sent, so only its code is kept.
    fn failed<E, R>(&self, call: &'static str) -> impl FnOnce(SdkError<E, R>) -> SecretFailure
    where
        E: Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug + 'static,
    {
        let id = self.id.clone();
        move |error| {
            let words = error.code().map_or_else(|| aws_error::message(&error), str::to_owned);
            SecretFailure::Call { call, id, words }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_environment_wins_over_one_in_a_secret() {
        const KEY: Variables = Variables { value: "KEY", id: "KEY_ID", remedy: "deploy" };
        let place = |key: Option<&'static str>, id: Option<&'static str>| {
            let secret = KEY.secret(|name| if name == "KEY" { key } else { id });
            secret.map_err(|failure| format!("{failure:?}"))
        };
        assert!(place(Some("k"), Some("shop")).is_err_and(|failure| failure.contains("deploy")));
        assert_eq!(place(None, Some("shop")), Ok("shop"));
        assert!(place(None, None).is_err_and(|failure| failure.contains("Nowhere")));
    }
}
