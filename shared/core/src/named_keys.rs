//! Keys of HMAC-SHA256 by their ids: what is made with one names it, so that it is recognised after a rotation.

use std::fmt;

use ring::hmac;

use crate::text::is_word;

/// The longest id of a key.
pub(crate) const MAX_ID: usize = 32;

/// The current key first. At least one.
#[derive(Clone)]
pub(crate) struct NamedKeys(Vec<NamedKey>);

#[derive(Clone)]
pub(crate) struct NamedKey {
    pub(crate) id: String,
    key: hmac::Key,
}

impl NamedKeys {
    /// `None` without any key, or if an id is repeated or is not `[A-Za-z0-9_-]{1,32}`.
    pub(crate) fn new<I: Into<String>, K: AsRef<[u8]>>(
        keys: impl IntoIterator<Item = (I, K)>,
    ) -> Option<Self> {
        let mut all: Vec<NamedKey> = Vec::new();
        for (id, key) in keys {
            let id = id.into();
            if !is_word(&id, MAX_ID) || all.iter().any(|known| known.id == id) {
                return None;
            }
            all.push(NamedKey { id, key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()) });
        }
        (!all.is_empty()).then_some(Self(all))
    }

    pub(crate) fn current(&self) -> &NamedKey {
        &self.0[0]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &NamedKey> {
        self.0.iter()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&NamedKey> {
        self.0.iter().find(|key| key.id == id)
    }
}

impl NamedKey {
    /// The MAC of some bytes for one purpose, which no other purpose has.
    pub(crate) fn mac(&self, purpose: &str, bytes: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(purpose.as_bytes());
        context.update(&[0]);
        context.update(bytes);
        context.sign()
    }
}

impl fmt::Debug for NamedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}
