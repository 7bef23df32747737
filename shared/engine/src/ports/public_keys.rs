//! The port to the public halves of the VAPID keys.

use std::future::Future;

use super::PortError;
use redial_core::identity::VapidKeyId;
use redial_core::time::Timestamp;

/// A key that browsers subscribe with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicKey {
    /// Its id: what a subscription made with it carries as `vapid_key_id`.
    pub id: VapidKeyId,
    /// base64url of the uncompressed point.
    pub public_base64url: String,
    /// Whether new subscribers are given it.
    pub is_current: bool,
}

pub trait PublicKeys: Send + Sync {
    /// All keys, in the order of their ids; half a minute old at most, unless where they are kept cannot be read: then as they
    /// were last known.
    fn all(&self, now: Timestamp) -> impl Future<Output = Result<Vec<PublicKey>, PortError>> + Send;
}
