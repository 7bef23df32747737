//! The operator's settings of the HTTP API.

use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::push_target::PushKeys;
use redial_core::rate::Rate;

#[derive(Clone, Debug)]
pub struct Settings {
    /// What browsers' tokens are made with.
    pub token_keys: TokenKeys,
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides: tests' and the local stack's.
    pub egress_allow: Vec<Origin>,
    /// Whether a browser's key is a point of its curve: cryptography, and so an adapter's.
    pub is_on_curve: fn(&PushKeys) -> bool,
    /// The sites whose pages may call.
    pub cors_origins: Vec<Origin>,
    /// How many messages and other requests of an API key are accepted; `None`: any number.
    pub rate: Option<Rate>,
}
