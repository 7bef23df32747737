//! VAPID keys as they are written in a secret, and how they are rotated there.
//!
//! Either a bare private key, or `{"default": ID, "current": ID, "keys": {ID: KEY, …}}`; without `current`, the default is the current
//! one. The text of each key stays as its owner wrote it.
//!
//! A rotation adds a key and makes it the current one. It never changes the default, which subscriptions without an id belong to, and it
//! never removes a key: [`VapidDocument::without`] does, once no subscription needs it.

use std::collections::BTreeMap;
use std::fmt;

use redial_core::identity::VapidKeyId;
use serde::{Deserialize, Serialize};

use super::{VapidKey, VapidKeys, VapidKeysError};
use crate::secrets::Secret;

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

impl VapidDocument {
    /// Reads a bare private key, whose id is [`VapidKeys::ONLY_KEY_ID`], or the JSON of several. [`Self::keys`] checks each key.
    pub fn parse(text: &str) -> Result<Self, VapidKeysError> {
        if !text.trim_start().starts_with('{') {
            let id = VapidKeyId::parse(VapidKeys::ONLY_KEY_ID).expect("invariant: the constant is an id");
            VapidKey::parse(text).map_err(VapidKeysError::OnlyKey)?;
            let keys = BTreeMap::from([(id.clone(), Secret::new(text.trim().to_owned()))]);
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
        let read = |(id, key): (&VapidKeyId, &Secret)| match VapidKey::parse(key.expose()) {
            Ok(key) => Ok((id.clone(), key)),
            Err(error) => Err(VapidKeysError::Key { id: id.clone(), error }),
        };
        let keys = self.keys.iter().map(read).collect::<Result<_, _>>()?;
        VapidKeys::new(self.default.clone(), self.current.clone(), keys)
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

    /// The JSON of several, which [`Self::parse`] reads.
    pub fn written(&self) -> Secret {
        let current = (self.current != self.default).then(|| self.current.as_str().to_owned());
        let keys = self.keys.iter();
        let written = Written {
            default: self.default.as_str().to_owned(),
            current,
            keys: keys.map(|(id, key)| (id.as_str().to_owned(), key.expose().to_owned())).collect(),
        };
        Secret::new(serde_json::to_string(&written).expect("invariant: texts by text have a JSON form"))
    }
}

impl VapidKeys {
    /// Reads the keys that [`VapidDocument::parse`] reads.
    pub fn parse(text: &str) -> Result<Self, VapidKeysError> {
        VapidDocument::parse(text)?.keys()
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

    fn rotated() -> VapidDocument {
        let bare = VapidDocument::parse(&scalar(1)).expect("a key");
        bare.with_current(id("k2"), Secret::new(scalar(2))).expect("a new id")
    }

    #[test]
    fn a_rotation_keeps_every_key_and_changes_only_the_current_one() {
        let document = rotated();
        let keys = document.keys().expect("keys");
        assert_eq!((keys.default_id(), keys.current_id()), (&id("default"), &id("k2")));
        assert_eq!(keys.get(None).expect("a default").0, &id("default"));
        let again = document.clone().with_current(id("default"), Secret::new(scalar(3)));
        assert_eq!(again, Err(VapidIdTaken));
        let third = document.with_current(id("k3"), Secret::new(scalar(3))).expect("a new id");
        let keys = third.keys().expect("keys");
        assert_eq!(
            (keys.default_id(), keys.current_id(), keys.ids().count()),
            (&id("default"), &id("k3"), 3)
        );
    }

    #[test]
    fn a_document_reads_back_with_the_text_of_each_key_unchanged() {
        let document = rotated();
        assert_eq!(VapidDocument::parse(document.written().expose()), Ok(document.clone()));
        assert_eq!(
            document.written().expose(),
            format!(
                r#"{{"default":"default","current":"k2","keys":{{"default":"{}","k2":"{}"}}}}"#,
                scalar(1),
                scalar(2)
            )
        );
        // Padded, as some write it.
        let set = format!(r#"{{"default":"a","keys":{{"a":"{}="}}}}"#, scalar(1));
        assert_eq!(VapidDocument::parse(&set).expect("a set").written().expose(), set);
    }

    #[test]
    fn a_key_is_removed_unless_it_is_the_current_one() {
        let document = rotated();
        assert_eq!(document.clone().without(&id("k2")), Err(NotRetired::Current));
        assert_eq!(document.clone().without(&id("k9")), Err(NotRetired::Unknown));
        let keys = document.without(&id("default")).expect("it is neither").keys().expect("keys");
        assert_eq!((keys.default_id(), keys.current_id(), keys.ids().count()), (&id("k2"), &id("k2"), 1));
    }

    #[test]
    fn debug_shows_ids_only() {
        let shown = format!("{:?}", rotated());
        assert!(
            shown.contains("k2") && !shown.contains(&scalar(1)) && !shown.contains(&scalar(2)),
            "{shown}"
        );
    }
}
