//! Tokens for browsers: texts that carry what they are for, and a MAC that only the stack can make.
//!
//! Tokens are not stored, so a single one cannot be revoked: each ends by its time, and all of them with the key that they name and were
//! made with. The current key makes new tokens; tokens of a former key are read for as long as that key is configured. A token for a
//! subscription also ends with that subscription ([`Permit`](crate::subscription::Permit)) and with the API key of the sender that made it.
//!
//! A MAC covers everything before it and the kind of token, so that one kind is never taken for another, and is checked before that is
//! read.
//!
//! | token | text |
//! |---|---|
//! | for one subscription | `rds_<key id>.<payload>.<MAC>`, the payload in JSON and base64url |
//! | for one acknowledgement | `<key id>.<tenant>.<delivery>.<end>.<MAC>` |
//!
//! The second travels inside a push, whose 3,993 bytes it shares with the producer's payload, so it is as short as it can be: names
//! as they are, because base64 would make them a third longer; the end in milliseconds, in base 62; and 16 bytes of MAC, the minimum
//! that RFC 2104 (section 5) allows for HMAC-SHA256.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::api_key::ApiKeyId;
use super::base62;
use crate::identity::{DeliveryId, DeliveryKey, SubscriptionId, Tenant};
use crate::named_keys::{NamedKey, NamedKeys};
use crate::tag::Tags;
use crate::time::Timestamp;

/// Between the parts of a token, and in none of them.
const SEPARATOR: char = '.';

const PREFIX: &str = "rds_";

/// A kind of token: its MAC covers its name, and is cut to `mac_bytes`.
struct Kind {
    name: &'static str,
    mac_bytes: usize,
    /// No token of this kind is longer.
    max: usize,
}

/// The longest names and all tags take some 900 characters.
const SUBSCRIPTION: Kind = Kind { name: "redial subscription token", mac_bytes: 32, max: 1024 };

/// The longest names take 194 characters.
const ACK: Kind = Kind { name: "redial ack token", mac_bytes: 16, max: 256 };

/// Lets a browser store, renew and delete one subscription. As JSON it has short names, and times in epoch milliseconds.
///
/// Tokens of release 0.1.0 have tenant, subscription, tags and end alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubscriptionToken {
    #[serde(rename = "t")]
    pub tenant: Tenant,
    #[serde(rename = "s")]
    pub subscription: SubscriptionId,
    #[serde(rename = "g", default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The first moment at which it is no longer valid.
    #[serde(rename = "e")]
    pub expires_at: Timestamp,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Timestamp>,
    /// The end of all renewal tokens that follow from this one. Only a token that a sender made has it: a renewal token's own end is
    /// that of those that follow from it.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub renewable_until: Option<Timestamp>,
    /// The API key, or the right of an AWS principal, of the sender that made it, or the first one in its chain of renewals.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<ApiKeyId>,
}

impl SubscriptionToken {
    /// How long a browser renews its subscription with what follows from one token of its sender's, unless that sets less: longer than
    /// most users stay away.
    pub const RENEWAL: Duration = Duration::from_secs(180 * 86_400);

    /// When it was made. Release 0.1.0 gave renewal tokens [`Self::RENEWAL`] and wrote no time. Its other tokens lasted an hour at most, so
    /// this is too early for them: they are refused where a renewal token might have ended.
    pub fn issued_at(&self) -> Timestamp {
        self.issued_at.unwrap_or_else(|| self.expires_at.minus(Self::RENEWAL))
    }
}

/// Lets a service worker acknowledge one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckToken {
    pub tenant: Tenant,
    pub delivery: DeliveryId,
    /// The first moment at which it is no longer valid.
    pub expires_at: Timestamp,
}

impl AckToken {
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: self.tenant.clone(), id: self.delivery.clone() }
    }

    /// How long acknowledgements are accepted after a message's deadline, or after it was sent where it has none: a user may click a
    /// notification days later.
    pub const GRACE: Duration = Duration::from_secs(7 * 86_400);
}

/// The keys that tokens are made with, the current one first. At least one.
#[derive(Clone, Debug)]
pub struct TokenKeys(NamedKeys);

impl TokenKeys {
    /// The length of a key in bytes: as long as what HMAC-SHA256 gives.
    pub const KEY_BYTES: usize = 32;

    /// These keys by their ids, the current one first; `None` without any, or if an id is repeated or is not `[A-Za-z0-9_-]{1,32}`.
    pub fn new(keys: impl IntoIterator<Item = (String, [u8; Self::KEY_BYTES])>) -> Option<Self> {
        NamedKeys::new(keys).map(Self)
    }

    /// The token's text, made with the current key. Never log what this returns.
    pub fn subscription(&self, token: &SubscriptionToken) -> String {
        let payload = serde_json::to_vec(token).expect("invariant: strings and a number are JSON");
        let key = self.0.current();
        let text = format!("{PREFIX}{}{SEPARATOR}{}", key.id, URL_SAFE_NO_PAD.encode(payload));
        signed(key, &SUBSCRIPTION, text)
    }

    /// `None` if it is invalid, was not made here, or has expired at `now`.
    pub fn read_subscription(&self, token: &str, now: Timestamp) -> Option<SubscriptionToken> {
        let parts = |text| str::strip_prefix(text, PREFIX)?.split_once(SEPARATOR);
        let text = self.verified(&SUBSCRIPTION, token, |text| Some(parts(text)?.0))?;
        let payload = URL_SAFE_NO_PAD.decode(parts(text)?.1).ok()?;
        let token: SubscriptionToken = serde_json::from_slice(&payload).ok()?;
        (now < token.expires_at).then_some(token)
    }

    /// The token's text, made with the current key: the same text each time for the same token.
    pub fn ack(&self, token: &AckToken) -> String {
        let AckToken { tenant, delivery, expires_at } = token;
        let end = base62::short(u64::try_from(expires_at.as_ms()).unwrap_or_default());
        let key = self.0.current();
        let parts = [key.id.as_str(), tenant.as_str(), delivery.as_str(), &end];
        signed(key, &ACK, parts.join(&SEPARATOR.to_string()))
    }

    /// `None` if it is invalid, was not made here, or has expired at `now`.
    pub fn read_ack(&self, token: &str, now: Timestamp) -> Option<AckToken> {
        let text = self.verified(&ACK, token, |text| text.split(SEPARATOR).next())?;
        let parts: Vec<&str> = text.split(SEPARATOR).collect();
        let &[_, tenant, delivery, end] = parts.as_slice() else { return None };
        let token = AckToken {
            tenant: Tenant::parse(tenant)?,
            delivery: DeliveryId::parse(delivery)?,
            expires_at: Timestamp::from_ms(i64::try_from(base62::read(end)?).ok()?),
        };
        (now < token.expires_at).then_some(token)
    }

    /// The text before the MAC, if a key of that id has made it as this kind of token. The id is found by `id_of` in that text.
    fn verified<'a>(
        &self,
        kind: &Kind,
        token: &'a str,
        id_of: impl FnOnce(&'a str) -> Option<&'a str>,
    ) -> Option<&'a str> {
        let (text, mac) = token.rsplit_once(SEPARATOR).filter(|_| token.len() <= kind.max)?;
        let expected = self.0.get(id_of(text)?)?.mac(kind.name, text.as_bytes());
        // Strict: a last character whose spare bits are not zero is refused, so that each MAC has one text.
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        bool::from(mac.ct_eq(&expected.as_ref()[..kind.mac_bytes])).then_some(text)
    }
}

fn signed(key: &NamedKey, kind: &Kind, text: String) -> String {
    let mac = key.mac(kind.name, text.as_bytes());
    format!("{text}{SEPARATOR}{}", URL_SAFE_NO_PAD.encode(&mac.as_ref()[..kind.mac_bytes]))
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
