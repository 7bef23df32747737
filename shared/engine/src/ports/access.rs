//! The port to the keys that senders show.

use std::future::Future;

use super::PortError;
use redial_core::access::{ApiKeyId, IamArn, StoredKey};

/// Looks up keys and principals' rights. What it answers may be half a minute old, so a revocation takes effect that much later; it is
/// never older, because a store that cannot be read must not keep a revoked key alive.
pub trait AccessKeys: Send + Sync {
    /// What is stored of the key of that id: good or not, which is [`StoredKey::grant_to`]'s to say.
    fn find(&self, id: &ApiKeyId) -> impl Future<Output = Result<Option<StoredKey>, PortError>> + Send;

    /// What is stored for that principal: good or not, which is [`StoredKey::grant_to_iam`]'s to say.
    fn find_iam(&self, arn: &IamArn) -> impl Future<Output = Result<Option<StoredKey>, PortError>> + Send;
}
