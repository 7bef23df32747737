//! What a delivery is known by: its tenant, its id, its lineage and the number of the attempt.
//!
//! The pair of tenant and id is the key of everything that is stored, so that two tenants may use the same id.
//! An attempt number counts from 0 for the first send; attempt r is also "retry r" for r ≥ 1. A lineage is 0 for a
//! message from a producer, and one more for each replay of its dead letter.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::text::{checked_text, is_lower_case_word, is_word};

checked_text! {
    /// A tenant's name: `^[a-z0-9][a-z0-9_-]{0,62}$`.
    Tenant, |text| is_lower_case_word(text, 63);

    DeliveryId, |text| is_word(text, 64);
    /// Unique within its tenant, like a delivery's.
    SubscriptionId, |text| is_word(text, 64);
    /// Of one opening of a message to an audience.
    RunId, |text| is_word(text, 64);
    VapidKeyId, |text| is_word(text, 64);
}

pub(crate) const ID_FORM: &str = "^[A-Za-z0-9_-]{1,64}$";

/// The characters of what [`hashed`] returns.
pub(crate) const HASH_LENGTH: usize = 43;

/// SHA-256 of a text in base64url, which is an id.
pub(crate) fn hashed(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}

impl DeliveryId {
    /// The id of every message that carries this idempotency key: its SHA-256 in base64url.
    pub fn from_idempotency_key(key: &str) -> Self {
        Self(hashed(key).into())
    }

    /// The id of a message that has none of its own: the SQS MessageId, with every other character replaced by `-`.
    pub fn from_sqs_message_id(message_id: &str) -> Self {
        let id: String = message_id
            .chars()
            .take(64)
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
            .collect();
        if id.is_empty() { Self("-".into()) } else { Self(id.into()) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdSource {
    /// The producer gave it: reusing it for another content is a conflict.
    Producer,
    /// A hash of the producer's idempotency key, or of the event that a callback posts: the same key is the same delivery.
    IdempotencyKey,
    SqsMessageId,
}

/// A tenant's key in a store, written `tenant#id`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key<Id> {
    pub tenant: Tenant,
    pub id: Id,
}

pub type DeliveryKey = Key<DeliveryId>;
pub type SubscriptionKey = Key<SubscriptionId>;

impl<Id: fmt::Display> fmt::Display for Key<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.tenant, self.id)
    }
}

/// How often a delivery was replayed from its dead letter; 0 for a producer's own message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(pub u32);

impl Lineage {
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The number of an attempt within its lineage: 0 is the first send, r the r-th retry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    pub const FIRST: Self = Self(0);

    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Turn {
    pub lineage: Lineage,
    pub attempt: Attempt,
}

impl Turn {
    pub fn next_attempt(self) -> Self {
        Self { lineage: self.lineage, attempt: self.attempt.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Tag;

    #[test]
    fn tenants_and_tags_are_lower_case_and_start_with_a_letter_or_digit() {
        for good in ["a", "9", "acme", "acme-eu_1"] {
            assert!(Tenant::parse(good).is_some() && Tag::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "_a", "Acme", "A", "a#b", "a b", "é"] {
            assert!(Tenant::parse(bad).is_none() && Tag::parse(bad).is_none(), "{bad}");
        }
        let text = |length| "a".repeat(length);
        assert!(Tenant::parse(&text(63)).is_some() && Tenant::parse(&text(64)).is_none());
        assert!(Tag::parse(&text(32)).is_some() && Tag::parse(&text(33)).is_none());
    }

    #[test]
    fn an_idempotency_key_always_gives_the_same_valid_id() {
        let of = DeliveryId::from_idempotency_key;
        assert_eq!(of("order 17 / confirmation"), of("order 17 / confirmation"));
        assert_ne!(of("order 17 / confirmation"), of("order 18 / confirmation"));
        assert_eq!(DeliveryId::parse(of("order 17").as_str()), Some(of("order 17")));
    }

    #[test]
    fn an_sqs_message_id_becomes_a_valid_id() {
        for text in ["0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11", "", "a#b", &"x".repeat(80)] {
            let id = DeliveryId::from_sqs_message_id(text);
            assert!(DeliveryId::parse(id.as_str()).is_some(), "{text}");
        }
    }
}
