//! Where VAPID keys come from: the environment, or Secrets Manager.

use std::future::Future;

use super::{VapidKeys, VapidKeysError};
use crate::secrets::{SecretError, SecretLocation, SecretsManager};

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

/// The keys of `VAPID_PRIVATE_KEY`, or of the secret that `VAPID_SECRET_ID` names.
#[derive(Debug)]
pub struct VapidKeySource {
    pub location: SecretLocation,
    pub secrets: SecretsManager,
}

impl LoadVapidKeys for VapidKeySource {
    async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
        Ok(VapidKeys::parse(self.secrets.read(&self.location).await?.expose())?)
    }
}
