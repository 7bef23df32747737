//! Where VAPID keys come from: the environment, or Secrets Manager.

use std::fmt;
use std::future::Future;

use super::{VapidKeys, VapidKeysError};
use crate::secrets::{Secret, SecretError, SecretSource};

pub trait LoadVapidKeys: Send + Sync {
    /// Reads and parses the current keys.
    fn load(&self) -> impl Future<Output = Result<VapidKeys, VapidLoadError>> + Send;
}

/// Why the keys could not be loaded. Never holds a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VapidLoadError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("invalid VAPID keys: {0}")]
    Keys(#[from] VapidKeysError),
}

pub enum VapidKeySource<S> {
    /// The value of `VAPID_PRIVATE_KEY`.
    Environment(Secret),
    /// The secret that `VAPID_SECRET_ID` names.
    SecretsManager {
        secrets: S,
        /// A name or ARN.
        id: String,
    },
}

impl<S: SecretSource> LoadVapidKeys for VapidKeySource<S> {
    async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
        match self {
            Self::Environment(secret) => Ok(VapidKeys::parse(secret.expose())?),
            Self::SecretsManager { secrets, id } => Ok(VapidKeys::parse(secrets.fetch(id).await?.expose())?),
        }
    }
}

impl<S> fmt::Debug for VapidKeySource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(_) => f.write_str("Environment(redacted)"),
            Self::SecretsManager { id, .. } => write!(f, "SecretsManager({id:?})"),
        }
    }
}
