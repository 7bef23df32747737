//! All VAPID keys of a deployment by id, with a default for subscriptions that name none, and a current one for new subscribers.
//!
//! Those two are the same until the keys are rotated. A rotation leaves the default, because subscriptions without a key's id were made
//! with it.

use std::collections::BTreeMap;
use std::fmt;

use redial_core::identity::VapidKeyId;

use super::{VapidKey, VapidKeyError};

/// At least one key; the default and the current one are among them.
pub struct VapidKeys {
    default: VapidKeyId,
    current: VapidKeyId,
    keys: BTreeMap<VapidKeyId, VapidKey>,
}

/// The public half of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishedKey<'a> {
    /// The `vapid_key_id` of subscriptions made with it.
    pub id: &'a VapidKeyId,
    /// base64url of the uncompressed point: a browser's `applicationServerKey`.
    pub public_base64url: &'a str,
    /// Whether new subscribers get it.
    pub is_current: bool,
    /// Whether subscriptions without an id were made with it.
    pub is_default: bool,
}

/// Why a text is no set of VAPID keys. Names the place and what is expected, never a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VapidKeysError {
    #[error(
        "expected a private key, or JSON of the form {{\"default\": ID, \"keys\": {{ID: KEY, …}}}}, optionally with \
         \"current\": ID, with the ids of all subscriptions' keys (error in line {line}, column {column})"
    )]
    Json { line: usize, column: usize },
    #[error("a key's id is not 1 to 64 letters, digits, `_` and `-`")]
    KeyId,
    #[error("`default` is not the id of one of the keys")]
    Default,
    #[error("`current` is not the id of one of the keys")]
    Current,
    #[error("the key cannot be read: {0}")]
    OnlyKey(VapidKeyError),
    #[error("the key `{id}` cannot be read: {error}")]
    Key { id: VapidKeyId, error: VapidKeyError },
}

impl VapidKeys {
    /// The id of a key that comes without one.
    pub const ONLY_KEY_ID: &str = "default";

    pub(super) fn new(
        default: VapidKeyId,
        current: VapidKeyId,
        keys: BTreeMap<VapidKeyId, VapidKey>,
    ) -> Result<Self, VapidKeysError> {
        if !keys.contains_key(&default) {
            return Err(VapidKeysError::Default);
        }
        if !keys.contains_key(&current) {
            return Err(VapidKeysError::Current);
        }
        Ok(Self { default, current, keys })
    }

    /// The key of that id, or the default one; `None` if there is no such id.
    pub fn get(&self, id: Option<&VapidKeyId>) -> Option<(&VapidKeyId, &VapidKey)> {
        self.keys.get_key_value(id.unwrap_or(&self.default))
    }

    /// The key of subscriptions that name none.
    pub fn default_id(&self) -> &VapidKeyId {
        &self.default
    }

    /// The key of new subscribers.
    pub fn current_id(&self) -> &VapidKeyId {
        &self.current
    }

    /// In the order of the ids.
    pub fn published(&self) -> impl Iterator<Item = PublishedKey<'_>> {
        self.keys.iter().map(|(id, key)| PublishedKey {
            id,
            public_base64url: key.public_base64url(),
            is_current: *id == self.current,
            is_default: *id == self.default,
        })
    }

    pub fn ids(&self) -> impl Iterator<Item = &VapidKeyId> {
        self.keys.keys()
    }
}

impl fmt::Debug for VapidKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidKeys")
            .field("default", &self.default)
            .field("current", &self.current)
            .field("ids", &self.keys.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::tests::scalar;
    use super::*;

    fn two_keys() -> String {
        format!(r#"{{"default": "b", "keys": {{"a": "{}", "b": "{}"}}}}"#, scalar(1), scalar(2))
    }

    #[test]
    fn a_bare_key_is_the_default_and_has_an_id() {
        let keys = VapidKeys::parse(&scalar(1)).expect("a key");
        let id = VapidKeyId::parse("default").expect("an id");
        assert!(keys.get(None).is_some());
        assert!(keys.get(Some(&id)).is_some());
        assert!(keys.get(VapidKeyId::parse("other").as_ref()).is_none());
    }

    #[test]
    fn each_key_has_its_id() {
        let keys = VapidKeys::parse(&two_keys()).expect("keys");
        let public = |id: Option<&str>| {
            let id = id.and_then(VapidKeyId::parse);
            keys.get(id.as_ref()).map(|(_, key)| key.public_base64url().to_owned())
        };
        assert_eq!(public(None), public(Some("b")));
        assert_ne!(public(Some("a")), public(Some("b")));
        assert_eq!(keys.ids().count(), 2);
    }

    #[test]
    fn the_default_is_the_current_one_unless_another_is_named() {
        let id = |text| VapidKeyId::parse(text).expect("an id");
        let keys = VapidKeys::parse(&two_keys()).expect("keys");
        assert_eq!((keys.default_id(), keys.current_id()), (&id("b"), &id("b")));
        let named = two_keys().replacen('{', r#"{"current": "a", "#, 1);
        let keys = VapidKeys::parse(&named).expect("keys");
        assert_eq!((keys.default_id(), keys.current_id()), (&id("b"), &id("a")));
        let published: Vec<_> = keys.published().collect();
        let expected = [("a", true, false), ("b", false, true)];
        assert_eq!(published.len(), expected.len());
        for (key, (of, is_current, is_default)) in published.into_iter().zip(expected) {
            assert_eq!((key.id, key.is_current, key.is_default), (&id(of), is_current, is_default));
            let (_, found) = keys.get(Some(&id(of))).expect("a key");
            assert_eq!(key.public_base64url, found.public_base64url());
        }
        let elsewhere = two_keys().replacen('{', r#"{"current": "c", "#, 1);
        assert_eq!(VapidKeys::parse(&elsewhere).expect_err("no such key"), VapidKeysError::Current);
    }

    #[test]
    fn errors_name_the_place_and_never_the_key() {
        let error = |text: &str| VapidKeys::parse(text).expect_err("no keys");
        let secret = scalar(3);
        assert_eq!(error("no key"), VapidKeysError::OnlyKey(VapidKeyError::NotAKey));
        let cases = [
            format!(r#"{{"default": "a", "keys": "{secret}"}}"#),
            format!(r#"{{"default": "a", "keys": {{"a": "{secret}x"}}}}"#),
            format!(r#"{{"default": "z", "keys": {{"a": "{secret}"}}}}"#),
            format!(r#"{{"default": "a", "keys": {{"a b": "{secret}"}}}}"#),
            format!(r#"{{"default": "a", "keys": {{"a": "{secret}"}}, "more": "{secret}"}}"#),
        ];
        for text in cases {
            let error = error(&text);
            assert!(!error.to_string().contains(&secret), "{error}");
            assert!(!format!("{error:?}").contains(&secret), "{error:?}");
        }
        assert_eq!(error(r#"{"default": "a", "keys": {}}"#), VapidKeysError::Default);
    }

    #[test]
    fn debug_shows_ids_only() {
        let keys = VapidKeys::parse(&two_keys()).expect("keys");
        let shown = format!("{keys:?}");
        assert!(shown.contains("\"a\"") && !shown.contains(&scalar(1)), "{shown}");
    }
}
