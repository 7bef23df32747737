//! One browser's subscription at the test service.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use p256::SecretKey;
use serde_json::{Value, json};

use super::decrypt::Receiver;
use crate::ambient;

/// What a page passes to its server after `pushManager.subscribe()`. The secret half stays with the
/// service, which needs it to open what it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub endpoint: String,
    /// The uncompressed P-256 public key, 65 bytes in base64url.
    pub p256dh: String,
    /// The authentication secret, 16 bytes in base64url.
    pub auth: String,
}

impl Subscriber {
    pub(super) fn new(endpoint: String, receiver: &Receiver) -> Self {
        Self { endpoint, p256dh: B64.encode(receiver.public_key()), auth: B64.encode(receiver.auth) }
    }

    /// `JSON.stringify(subscription)` as a browser writes it: `expirationTime` is there, and null.
    pub fn json(&self) -> Value {
        json!({
            "endpoint": self.endpoint,
            "expirationTime": null,
            "keys": {"p256dh": self.p256dh, "auth": self.auth},
        })
    }
}

pub(super) fn new_receiver() -> Receiver {
    Receiver { secret: new_secret(), auth: ambient::random_bytes() }
}

pub(super) fn new_secret() -> SecretKey {
    loop {
        // All but one in 2³² of the 32-byte strings are scalars of the curve.
        if let Ok(secret) = SecretKey::from_slice(&ambient::random_bytes::<32>()) {
            return secret;
        }
    }
}
