//! A secret that is exchanged for another one only if nobody else did meanwhile.
//!
//! Secrets Manager has no conditional put, but its label `AWSCURRENT` is moved from a version that is named, and not at all
//! if it is elsewhere by then. So a new text is put under a label of its own first, where nobody reads it, and then the
//! label of the current one is moved from the version that was read: of two who do so at the same time one is refused,
//! and begins anew from what the other one wrote. The text before stays as `AWSPREVIOUS`.

use std::error::Error;

use aws_sdk_secretsmanager::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
};
use rand::RngExt as _;
use redial_adapters::{secrets::Secret, system::System};
use redial_engine::ports::Randomness as _;

use crate::{aws_words::in_words, target::Target};

/// What one secret can hold, in bytes: a quota of Secrets Manager.
pub(crate) const MOST_BYTES: usize = 65_536;

/// The label of the version that everyone reads.
const CURRENT: &str = "AWSCURRENT";

/// The secret with a stack's keys.
#[derive(Debug)]
pub(crate) struct KeysSecret {
    client: Client,
    /// Its name or ARN.
    pub(crate) id: String,
}

/// A text of it, and which version that is.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) text: Secret,
    id: String,
}

/// Why it could not be read or written. Never holds its text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFailure {
    /// The service refused, or was not reached.
    #[error("{call} of the secret {id} failed: {words}")]
    Call { call: &'static str, id: String, words: String },
    /// It exists, and is no text.
    #[error("the secret {0} holds no text")]
    NotText(String),
    /// More than a secret can hold.
    #[error(
        "the secret {id} would be {bytes} bytes long, and a secret holds {MOST_BYTES}: retire a key first"
    )]
    TooLong { id: String, bytes: usize },
}

impl KeysSecret {
    pub(crate) fn new(target: &Target, id: &str) -> Self {
        Self { client: Client::new(&target.sdk), id: id.to_owned() }
    }

    /// What everyone reads now.
    pub(crate) async fn read(&self) -> Result<Version, SecretFailure> {
        let read = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = read.map_err(self.failed("GetSecretValue"))?;
        let binary =
            |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
        let text = answer.secret_string.or_else(|| answer.secret_binary.and_then(binary));
        let text = text.ok_or_else(|| SecretFailure::NotText(self.id.clone()))?;
        Ok(Version { text: Secret::new(text), id: answer.version_id.unwrap_or_default() })
    }

    /// When its text was last changed, as Secrets Manager says; milliseconds since the epoch.
    pub(crate) async fn changed_at_ms(&self) -> Result<Option<i64>, SecretFailure> {
        let described = self.client.describe_secret().secret_id(&self.id).send().await;
        let described = described.map_err(self.failed("DescribeSecret"))?;
        Ok(described.last_changed_date.and_then(|at| at.to_millis().ok()))
    }

    /// Puts `text` in the place of what was read; `false` if that is not what everyone reads any more.
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
        // Without a label of its own a version that is not used is forgotten by and by; with one it would stay.
        let unlabelled = self
            .client
            .update_secret_version_stage()
            .secret_id(&self.id)
            .version_stage(&label)
            .remove_from_version_id(&version)
            .send()
            .await;
        match moved {
            // An answer that was lost on its way is told from one that refused by what stands there now.
            Err(error) => {
                let now = self.read().await?;
                if now.id == before.id {
                    return Err(self.failed("UpdateSecretVersionStage")(error));
                }
                Ok(now.id == version)
            }
            Ok(_) => {
                // It is everyone's already: a label too many does no harm.
                drop(unlabelled);
                Ok(true)
            }
        }
    }

    /// A service's own words may quote what was sent, so its code is all that is kept of them.
    fn failed<E, R>(&self, call: &'static str) -> impl FnOnce(SdkError<E, R>) -> SecretFailure
    where
        E: Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug,
    {
        let id = self.id.clone();
        move |error| {
            let words = error.code().map_or_else(|| in_words(&error), str::to_owned);
            SecretFailure::Call { call, id, words }
        }
    }
}
