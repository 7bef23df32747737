//! All VAPID keys of a deployment by id, and how they are written in a secret and rotated there.
//!
//! A default is for subscriptions that name no key, and a current one for new subscribers. A secret is either a bare private key, or
//! `{"default": ID, "current": ID, "keys": {ID: KEY, …}}`; without `current`, the default is the current one. The text of each key stays
//! as its owner wrote it.
//!
//! A rotation adds a key and makes it the current one. It never changes the default, because subscriptions without a key's id were made
//! with it, and it never removes a key: [`VapidDocument::without`] does, once no subscription needs it.

use std::collections::BTreeMap;
use std::fmt;

use redial_core::identity::VapidKeyId;
use serde::{Deserialize, Serialize};

use super::{VapidKey, VapidKeyError};
use crate::secrets::Secret;

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

    /// Reads the keys that [`VapidDocument::parse`] reads, each once: deriving its public half is most of what reading a key costs.
    pub fn parse(text: &str) -> Result<Self, VapidKeysError> {
        if !is_bare(text) {
            return VapidDocument::parse(text)?.keys();
        }
        let key = VapidKey::parse(text).map_err(VapidKeysError::OnlyKey)?;
        let (id, mut keys) = (only_key_id(), BTreeMap::new());
        keys.insert(id.clone(), key);
        Ok(Self { default: id.clone(), current: id, keys })
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

/// Keys as text, with their ids.
#[derive(Clone, PartialEq, Eq)]
pub struct VapidDocument {
    default: VapidKeyId,
    current: VapidKeyId,
    keys: BTreeMap<VapidKeyId, Secret>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is already a key with this id")]
pub struct VapidIdTaken;

/// Why a key cannot be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRetired {
    #[error("there is no key with this id")]
    Unknown,
    #[error("it is the current key, which new subscribers get")]
    Current,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    default: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    keys: BTreeMap<String, String>,
}

/// Whether a text is a private key, and not the JSON of several.
fn is_bare(text: &str) -> bool {
    !text.trim_start().starts_with('{')
}

fn only_key_id() -> VapidKeyId {
    VapidKeyId::parse(VapidKeys::ONLY_KEY_ID).expect("invariant: the constant is an id")
}

impl VapidDocument {
    /// Reads a bare private key, whose id is [`VapidKeys::ONLY_KEY_ID`], or the JSON of several. [`Self::keys`] checks each key.
    pub fn parse(text: &str) -> Result<Self, VapidKeysError> {
        if is_bare(text) {
            let id = only_key_id();
            VapidKey::parse(text).map_err(VapidKeysError::OnlyKey)?;
            let mut keys = BTreeMap::new();
            keys.insert(id.clone(), Secret::new(text.trim().to_owned()));
            return Ok(Self { default: id.clone(), current: id, keys });
        }
        // serde_json's own message may quote what it found, which may be a key.
        let written: Written = serde_json::from_str(text)
            .map_err(|e| VapidKeysError::Json { line: e.line(), column: e.column() })?;
        let id = |text: &str| VapidKeyId::parse(text).ok_or(VapidKeysError::KeyId);
        let default = id(&written.default)?;
        let current = written.current.as_deref().map_or_else(|| Ok(default.clone()), id)?;
        let mut keys = BTreeMap::new();
        for (of, key) in written.keys {
            keys.insert(id(&of)?, Secret::new(key));
        }
        Ok(Self { default, current, keys })
    }

    pub fn keys(&self) -> Result<VapidKeys, VapidKeysError> {
        let mut keys = BTreeMap::new();
        for (id, key) in &self.keys {
            let read = VapidKey::parse(key.expose());
            keys.insert(id.clone(), read.map_err(|error| VapidKeysError::Key { id: id.clone(), error })?);
        }
        if !keys.contains_key(&self.default) {
            return Err(VapidKeysError::Default);
        }
        if !keys.contains_key(&self.current) {
            return Err(VapidKeysError::Current);
        }
        Ok(VapidKeys { default: self.default.clone(), current: self.current.clone(), keys })
    }

    /// Adds a key for new subscribers. All others stay, and so does the default.
    pub fn with_current(mut self, id: VapidKeyId, key: Secret) -> Result<Self, VapidIdTaken> {
        if self.keys.contains_key(&id) {
            return Err(VapidIdTaken);
        }
        self.keys.insert(id.clone(), key);
        self.current = id;
        Ok(self)
    }

    /// Removes a key. If it was the default, the current one becomes the default.
    pub fn without(mut self, id: &VapidKeyId) -> Result<Self, NotRetired> {
        if *id == self.current {
            return Err(NotRetired::Current);
        }
        self.keys.remove(id).ok_or(NotRetired::Unknown)?;
        if *id == self.default {
            self.default = self.current.clone();
        }
        Ok(self)
    }

    /// With the keys of the other whose ids it does not have. The default and the current key stay.
    pub fn with_others(mut self, other: Self) -> Self {
        for (id, key) in other.keys {
            self.keys.entry(id).or_insert(key);
        }
        self
    }

    /// The JSON of several, which [`Self::parse`] reads.
    pub fn written(&self) -> Secret {
        let current = (self.current != self.default).then(|| self.current.as_str().to_owned());
        let text = |(id, key): (&VapidKeyId, &Secret)| (id.as_str().to_owned(), key.expose().to_owned());
        let keys = self.keys.iter().map(text).collect();
        let written = Written { default: self.default.as_str().to_owned(), current, keys };
        Secret::new(serde_json::to_string(&written).expect("invariant: texts by text have a JSON form"))
    }
}

impl fmt::Debug for VapidDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidDocument")
            .field("default", &self.default)
            .field("current", &self.current)
            .field("keys", &self.keys.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::tests::scalar;
    use super::*;

    fn id(text: &str) -> VapidKeyId {
        VapidKeyId::parse(text).expect("an id")
    }

    fn two_keys(current: &str) -> String {
        format!(r#"{{{current}"default": "b", "keys": {{"a": "{}", "b": "{}"}}}}"#, scalar(1), scalar(2))
    }

    fn rotated() -> VapidDocument {
        let bare = VapidDocument::parse(&scalar(1)).expect("a key");
        bare.with_current(id("k2"), Secret::new(scalar(2))).expect("a new id")
    }

    /// The default key, the current one, and all.
    fn ids(document: &VapidDocument) -> (String, String, Vec<String>) {
        let keys = document.keys().expect("keys");
        let all = keys.ids().map(ToString::to_string).collect();
        (keys.default_id().to_string(), keys.current_id().to_string(), all)
    }

    fn expected(default: &str, current: &str, all: &[&str]) -> (String, String, Vec<String>) {
        (default.to_owned(), current.to_owned(), all.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn a_bare_key_is_the_default_and_has_an_id() {
        let keys = VapidKeys::parse(&scalar(1)).expect("a key");
        for (of, found) in [(None, true), (Some(id("default")), true), (Some(id("other")), false)] {
            assert_eq!(keys.get(of.as_ref()).is_some(), found, "{of:?}");
        }
    }

    #[test]
    fn the_named_key_is_current_and_the_default_stays_the_same() {
        let of = |byte| VapidKey::parse(&scalar(byte)).expect("a key").public_base64url().to_owned();
        for (named, current) in [("", "b"), (r#""current": "a", "#, "a")] {
            let keys = VapidKeys::parse(&two_keys(named)).expect("keys");
            assert_eq!((keys.default_id(), keys.current_id()), (&id("b"), &id(current)));
            let (default, key) = keys.get(None).expect("a default");
            assert_eq!((default, key.public_base64url()), (&id("b"), of(2).as_str()));
            let published: Vec<_> = keys.published().collect();
            let expected = [("a", of(1)), ("b", of(2))];
            assert_eq!(published.len(), expected.len());
            for (key, (name, public)) in published.into_iter().zip(&expected) {
                let (is_current, is_default) = (*name == current, *name == "b");
                let expected =
                    PublishedKey { id: &id(name), public_base64url: public, is_current, is_default };
                assert_eq!(key, expected);
                assert_eq!(keys.get(Some(key.id)).expect("a key").1.public_base64url(), public);
            }
        }
    }

    #[test]
    fn errors_name_the_place_and_never_the_key() {
        let secret = scalar(3);
        let json = |line, column| VapidKeysError::Json { line, column };
        for (text, expected) in [
            ("no key".to_owned(), VapidKeysError::OnlyKey(VapidKeyError::NotAKey)),
            (r#"{"default": "a", "keys": {}}"#.to_owned(), VapidKeysError::Default),
            (two_keys(r#""current": "c", "#), VapidKeysError::Current),
            (format!(r#"{{"default": "z", "keys": {{"a": "{secret}"}}}}"#), VapidKeysError::Default),
            (format!(r#"{{"default": "a", "keys": {{"a b": "{secret}"}}}}"#), VapidKeysError::KeyId),
            (
                format!(r#"{{"default": "a", "keys": {{"a": "{secret}x"}}}}"#),
                VapidKeysError::Key { id: id("a"), error: VapidKeyError::NotAKey },
            ),
            (format!(r#"{{"default": "a", "keys": "{secret}"}}"#), json(1, 70)),
            (format!(r#"{{"default": "a", "keys": {{"a": "{secret}"}}, "more": "{secret}"}}"#), json(1, 85)),
        ] {
            let error = VapidKeys::parse(&text).expect_err("no keys");
            assert_eq!(error, expected);
            assert!(!format!("{error} {error:?}").contains(&secret), "{error:?}");
        }
    }

    #[test]
    fn a_rotation_keeps_every_key_and_changes_only_the_current_one() {
        let document = rotated();
        assert_eq!(ids(&document), expected("default", "k2", &["default", "k2"]));
        let again = document.clone().with_current(id("default"), Secret::new(scalar(3)));
        assert_eq!(again, Err(VapidIdTaken));
        let third = document.with_current(id("k3"), Secret::new(scalar(3))).expect("a new id");
        assert_eq!(ids(&third), expected("default", "k3", &["default", "k2", "k3"]));
    }

    #[test]
    fn keys_of_another_set_are_added_and_none_is_replaced() {
        let other = VapidDocument::parse(&two_keys("")).expect("keys");
        let own = VapidDocument::parse(&scalar(3)).expect("a key");
        let own = own.with_current(id("b"), Secret::new(scalar(4))).expect("a new id");
        let both = own.clone().with_others(other);
        assert_eq!(ids(&both), expected("default", "b", &["a", "b", "default"]));
        let [one, before] = [both, own].map(|it| {
            it.keys().expect("keys").get(Some(&id("b"))).expect("a key").1.public_base64url().to_owned()
        });
        assert_eq!(one, before);
    }

    #[test]
    fn a_key_is_removed_unless_it_is_the_current_one() {
        let without = |of| rotated().without(&id(of));
        assert_eq!(without("k2"), Err(NotRetired::Current));
        assert_eq!(without("k9"), Err(NotRetired::Unknown));
        assert_eq!(ids(&without("default").expect("it is neither")), expected("k2", "k2", &["k2"]));
    }

    #[test]
    fn a_document_reads_back_with_the_text_of_each_key_unchanged() {
        let (one, two) = (scalar(1), scalar(2));
        let text = rotated().written();
        let expected =
            format!(r#"{{"default":"default","current":"k2","keys":{{"default":"{one}","k2":"{two}"}}}}"#);
        assert_eq!(text.expose(), expected);
        assert_eq!(VapidDocument::parse(text.expose()), Ok(rotated()));
        // Padded, as some write it.
        let set = format!(r#"{{"default":"a","keys":{{"a":"{one}="}}}}"#);
        assert_eq!(VapidDocument::parse(&set).expect("a set").written().expose(), set);
    }

    #[test]
    fn the_key_sets_in_the_documentation_keep_the_older_key_as_the_default() {
        for page in [
            include_str!("../../../../infra/docs/deploy.md"),
            include_str!("../../../../infra/docs/keys.md"),
            include_str!("../../../../infra/docs/runbook.md"),
        ] {
            let sets: Vec<&str> =
                page.split(['`', '\n']).filter(|text| text.starts_with(r#"{"default": "#)).collect();
            assert_eq!(sets.len(), 1, "{sets:?}");
            let VapidDocument { default, current, keys } = VapidDocument::parse(sets[0]).expect("a set");
            // New subscribers get the other one.
            assert!(keys.contains_key(&default) && keys.contains_key(&current), "{sets:?}");
            assert_ne!(default, current, "{sets:?}");
        }
    }

    #[test]
    fn debug_shows_ids_only() {
        for shown in [format!("{:?}", rotated()), format!("{:?}", rotated().keys().expect("keys"))] {
            assert!(
                shown.contains("k2") && !shown.contains(&scalar(1)) && !shown.contains(&scalar(2)),
                "{shown}"
            );
        }
    }
}
