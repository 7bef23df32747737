//! Stored API keys in memory.

use redial_core::access::{ApiKeyId, Credential, IamArn, StoredKey};
use redial_engine::ports::{AccessKeys, PortError};

use super::Memory;

impl AccessKeys for Memory {
    async fn find(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        self.effect("find_key", |state| state.access_keys.get(id).cloned()).await
    }

    async fn find_iam(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        self.effect("find_principal", |state| {
            let is_its = |key: &&StoredKey| match &key.credential {
                Credential::Key(_) => false,
                Credential::Iam(of) => of == arn,
            };
            // As in the table, the newest of several is the one that counts.
            state.access_keys.values().filter(is_its).max_by_key(|key| key.created_at).cloned()
        })
        .await
    }
}
