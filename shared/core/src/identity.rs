//! What a delivery is known by: its tenant, its id, its lineage and the number of the attempt.
//!
//! The pair of tenant and id is the key of everything that is stored, so that two tenants may use the same id.
//! An attempt number counts from 0 for the first send; attempt r is also "retry r" for r ≥ 1. A lineage is 0 for a
//! message from a producer, and one more for each replay of its dead letter.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text if it has the form that this type stands for, else `None`.
            pub fn parse(text: &str) -> Option<Self> {
                let check: fn(&str) -> bool = $check;
                check(text).then(|| Self(text.to_owned()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn id_like(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

checked_text! {
    /// A tenant's name: `^[a-z0-9][a-z0-9_-]{0,62}$`.
    Tenant, |text| {
        id_like(text, 63)
            && !text.starts_with(['_', '-'])
            && !text.bytes().any(|b| b.is_ascii_uppercase())
    }
}

checked_text! {
    /// A delivery's correlation id: `^[A-Za-z0-9_-]{1,64}$`.
    DeliveryId, |text| id_like(text, 64)
}

checked_text! {
    /// A stored subscription's id within its tenant: `^[A-Za-z0-9_-]{1,64}$`.
    SubscriptionId, |text| id_like(text, 64)
}

checked_text! {
    /// The id of a run, one opening of a message to an audience, within its tenant: `^[A-Za-z0-9_-]{1,64}$`.
    RunId, |text| id_like(text, 64)
}

checked_text! {
    /// The name of a VAPID key: `^[A-Za-z0-9_-]{1,64}$`.
    VapidKeyId, |text| id_like(text, 64)
}

impl DeliveryId {
    /// The id of every message that carries this idempotency key: SHA-256 of the key, base64url (43 characters).
    pub fn from_idempotency_key(key: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
        Self(URL_SAFE_NO_PAD.encode(digest.as_ref()))
    }

    /// The id of a message that has none of its own: the SQS MessageId, with anything unfit replaced by `-`.
    pub fn from_sqs_message_id(message_id: &str) -> Self {
        let id: String = message_id
            .chars()
            .take(64)
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
            .collect();
        if id.is_empty() { Self("-".to_owned()) } else { Self(id) }
    }
}

/// The key of a delivery in every store: `tenant#id`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryKey {
    /// Whose delivery it is.
    pub tenant: Tenant,
    /// Its id within the tenant.
    pub id: DeliveryId,
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.tenant, self.id)
    }
}

/// The key of a subscription in its table: `tenant#subscription id`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionKey {
    /// Whose subscription it is.
    pub tenant: Tenant,
    /// Its id within the tenant.
    pub id: SubscriptionId,
}

impl fmt::Display for SubscriptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.tenant, self.id)
    }
}

/// How often a delivery was replayed from its dead letter; 0 for a producer's own message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(pub u32);

impl Lineage {
    /// The lineage of a replay of this one's dead letter.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The number of an attempt within its lineage: 0 is the first send, r the r-th retry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first send.
    pub const FIRST: Self = Self(0);

    /// The attempt after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A message's place in its delivery: which lineage, which attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Turn {
    /// Which replay.
    pub lineage: Lineage,
    /// Which attempt of it.
    pub attempt: Attempt,
}

impl Turn {
    /// The turn of the retry that follows this one.
    pub fn next_attempt(self) -> Self {
        Self { lineage: self.lineage, attempt: self.attempt.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_lower_case_and_start_with_a_letter_or_digit() {
        for good in ["a", "9", "acme", "acme-eu_1", &"a".repeat(63)] {
            assert!(Tenant::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "_a", "Acme", "a#b", "a b", "é", &"a".repeat(64)] {
            assert!(Tenant::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_idempotency_key_always_gives_the_same_valid_id() {
        let id = DeliveryId::from_idempotency_key("order 17 / confirmation");
        assert_eq!(id, DeliveryId::from_idempotency_key("order 17 / confirmation"));
        assert_ne!(id, DeliveryId::from_idempotency_key("order 18 / confirmation"));
        assert_eq!(DeliveryId::parse(id.as_str()), Some(id));
    }

    #[test]
    fn an_sqs_message_id_becomes_a_valid_id() {
        for text in ["0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11", "", "a#b", &"x".repeat(80)] {
            let id = DeliveryId::from_sqs_message_id(text);
            assert!(DeliveryId::parse(id.as_str()).is_some(), "{text}");
        }
    }
}
