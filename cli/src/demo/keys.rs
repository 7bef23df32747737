//! The two VAPID keys of the demo: the one that browsers have subscribed with, and the one that takes its place.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::vapid::VapidKey;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

/// The id of the key that browsers have subscribed with.
pub(super) const OLD: &str = "old";

/// The id of the key that takes its place.
pub(super) const NEW: &str = "new";

/// A private key as text, and its public key.
pub(super) struct Key {
    /// The scalar, base64url.
    pub(super) private: String,
    /// The uncompressed point, 65 bytes.
    pub(super) public: Vec<u8>,
}

/// Both keys.
pub(super) struct Keys {
    pub(super) old: Key,
    pub(super) new: Key,
}

impl Key {
    fn generate() -> Self {
        loop {
            let mut scalar = [0; 32];
            SystemRandom::new().fill(&mut scalar).expect("invariant: the system has randomness");
            let private = URL_SAFE_NO_PAD.encode(scalar);
            // All but one in 2³² of the 32-byte strings are scalars of the curve.
            if let Ok(key) = VapidKey::parse(&private) {
                let public = URL_SAFE_NO_PAD.decode(key.public_base64url());
                return Self { private, public: public.expect("invariant: it was written as base64url") };
            }
        }
    }
}

impl Keys {
    pub(super) fn generate() -> Self {
        Self { old: Key::generate(), new: Key::generate() }
    }

    /// The secret before the change.
    pub(super) fn before(&self) -> String {
        json!({"default": OLD, "keys": {OLD: self.old.private}}).to_string()
    }

    /// The secret after it. The old key stays: its subscriptions belong to it for as long as they live.
    pub(super) fn after(&self) -> String {
        json!({"default": NEW, "keys": {OLD: self.old.private, NEW: self.new.private}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::VapidKeys;

    use super::*;

    #[test]
    fn both_secrets_are_what_a_worker_reads_and_the_default_changes() {
        let keys = Keys::generate();
        let before = VapidKeys::parse(&keys.before()).expect("keys");
        let after = VapidKeys::parse(&keys.after()).expect("keys");
        assert_eq!((before.default_id().as_str(), after.default_id().as_str()), (OLD, NEW));
        assert_eq!(after.ids().count(), 2);
        assert_eq!((keys.old.public.len(), keys.new.public.len()), (65, 65));
        assert_ne!(keys.old.public, keys.new.public);
    }
}
