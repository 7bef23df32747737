//! Tokens for browsers: texts that carry what they are for, and a MAC that only the stack can make.
//!
//! Tokens are not stored, so a single one cannot be revoked: each ends by its time, and all of them with the key that they were made
//! with. Every token names its key. The current key makes new tokens, and tokens of a former key are read for as long as that key is
//! configured.
//!
//! A MAC covers everything before it and the kind of token, so that one kind is never taken for another. It is checked before anything
//! that it covers is read.

mod ack;
mod subscription;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use subtle::ConstantTimeEq;

pub use ack::AckToken;
pub use subscription::SubscriptionToken;

use crate::text::is_word;

/// The longest id of a key.
const MAX_ID: usize = 32;

/// Between the parts of a token, and in none of them.
const SEPARATOR: char = '.';

/// The keys that tokens are made with, the current one first. At least one.
#[derive(Clone)]
pub struct TokenKeys(Vec<TokenKey>);

#[derive(Clone)]
struct TokenKey {
    id: String,
    key: hmac::Key,
}

/// A kind of token: its MAC covers its name, and is cut to `mac_bytes`.
struct Kind {
    name: &'static str,
    mac_bytes: usize,
}

impl TokenKeys {
    /// The length of a key in bytes: as long as what HMAC-SHA256 gives.
    pub const KEY_BYTES: usize = 32;

    /// These keys by their ids, the current one first; `None` without any, or if an id is repeated or is not
    /// `[A-Za-z0-9_-]{1,32}`.
    pub fn new(keys: impl IntoIterator<Item = (String, [u8; Self::KEY_BYTES])>) -> Option<Self> {
        let mut all: Vec<TokenKey> = Vec::new();
        for (id, key) in keys {
            if !is_word(&id, MAX_ID) || all.iter().any(|known| known.id == id) {
                return None;
            }
            all.push(TokenKey { id, key: hmac::Key::new(hmac::HMAC_SHA256, &key) });
        }
        (!all.is_empty()).then_some(Self(all))
    }

    fn current(&self) -> &TokenKey {
        &self.0[0]
    }

    /// The text before the MAC, if a key of that id has made it as this kind of token. The id is found by `id_of` in that text.
    fn verified<'a>(
        &self,
        kind: &Kind,
        token: &'a str,
        id_of: impl FnOnce(&'a str) -> Option<&'a str>,
    ) -> Option<&'a str> {
        let (text, mac) = token.rsplit_once(SEPARATOR)?;
        let id = id_of(text)?;
        let key = self.0.iter().find(|known| known.id == id)?;
        // Strict: a last character whose spare bits are not zero is refused, so that each MAC has one text.
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        bool::from(mac.ct_eq(&key.mac(kind, text))).then_some(text)
    }
}

impl TokenKey {
    fn mac(&self, kind: &Kind, text: &str) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(kind.name.as_bytes());
        context.update(&[0]);
        context.update(text.as_bytes());
        context.sign().as_ref().iter().take(kind.mac_bytes).copied().collect()
    }

    fn signed(&self, kind: &Kind, text: String) -> String {
        let mac = URL_SAFE_NO_PAD.encode(self.mac(kind, &text));
        format!("{text}{SEPARATOR}{mac}")
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests;
