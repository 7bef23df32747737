//! The two VAPID keys of the demo: the one that browsers have subscribed with, and the one that takes its place.

use serde_json::json;

use crate::local::VapidKey;

pub(super) const OLD: &str = "old";

/// The id of the key that takes its place.
pub(super) const NEW: &str = "new";

pub(super) struct Keys {
    pub(super) old: VapidKey,
    pub(super) new: VapidKey,
}

impl Keys {
    pub(super) fn generate() -> Self {
        Self { old: VapidKey::generate(), new: VapidKey::generate() }
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
        assert_ne!(keys.old.public, keys.new.public);
    }
}
