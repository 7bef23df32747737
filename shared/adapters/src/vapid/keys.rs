//! All VAPID keys of a deployment: by id, with one that is used where a subscription names none.

use std::collections::BTreeMap;
use std::fmt;

use redial_core::identity::VapidKeyId;
use serde::Deserialize;

use super::{VapidKey, VapidKeyError};

/// At least one key, and a default among them.
pub struct VapidKeys {
    default: VapidKeyId,
    keys: BTreeMap<VapidKeyId, VapidKey>,
}

/// Why a text is no set of VAPID keys. Names the place and what would do, never a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VapidKeysError {
    /// Starts like JSON and is not of the form.
    #[error(
        "expected a private key, or JSON of the form {{\"default\": ID, \"keys\": {{ID: KEY, …}}}} with the ids of all \
         subscriptions' keys (error in line {line}, column {column})"
    )]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// An id with other characters, or too long.
    #[error("a key's id is not 1 to 64 letters, digits, `_` and `-`")]
    KeyId,
    /// `default` names no key.
    #[error("`default` is not the id of one of the keys")]
    Default,
    /// One key cannot be read.
    #[error("the key cannot be read: {0}")]
    OnlyKey(VapidKeyError),
    /// One of several keys cannot be read.
    #[error("the key `{id}` cannot be read: {error}")]
    Key {
        /// Whose.
        id: VapidKeyId,
        /// Why.
        error: VapidKeyError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    default: String,
    keys: BTreeMap<String, String>,
}

impl VapidKeys {
    /// The id of a key that comes without one.
    pub const ONLY_KEY_ID: &str = "default";

    /// Reads a bare private key (its id is [`Self::ONLY_KEY_ID`]), or the JSON `{"default": ID, "keys": {ID: KEY, …}}`. A
    /// key is written in any form that [`VapidKey::parse`] reads.
    pub fn parse(text: &str) -> Result<Self, VapidKeysError> {
        if !text.trim_start().starts_with('{') {
            let id = VapidKeyId::parse(Self::ONLY_KEY_ID).expect("invariant: the constant is an id");
            let key = VapidKey::parse(text).map_err(VapidKeysError::OnlyKey)?;
            return Ok(Self { default: id.clone(), keys: BTreeMap::from([(id, key)]) });
        }
        // serde_json's own message may quote what it found, which may be a key.
        let written: Written = serde_json::from_str(text)
            .map_err(|e| VapidKeysError::Json { line: e.line(), column: e.column() })?;
        let default = VapidKeyId::parse(&written.default).ok_or(VapidKeysError::KeyId)?;
        let mut keys = BTreeMap::new();
        for (id, key) in written.keys {
            let id = VapidKeyId::parse(&id).ok_or(VapidKeysError::KeyId)?;
            match VapidKey::parse(&key) {
                Ok(key) => keys.insert(id, key),
                Err(error) => return Err(VapidKeysError::Key { id, error }),
            };
        }
        if !keys.contains_key(&default) {
            return Err(VapidKeysError::Default);
        }
        Ok(Self { default, keys })
    }

    /// The key of that id, or the default one; `None` if there is no such id.
    pub fn get(&self, id: Option<&VapidKeyId>) -> Option<(&VapidKeyId, &VapidKey)> {
        self.keys.get_key_value(id.unwrap_or(&self.default))
    }

    /// The id of the key that is used where a subscription names none.
    pub fn default_id(&self) -> &VapidKeyId {
        &self.default
    }

    /// The ids of all keys.
    pub fn ids(&self) -> impl Iterator<Item = &VapidKeyId> {
        self.keys.keys()
    }
}

impl fmt::Debug for VapidKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidKeys").field("default", &self.default).field("ids", &self.keys.keys()).finish()
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
    fn several_keys_are_told_apart_by_id() {
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
