//! The token that lets a service worker acknowledge one message: `<key id>.<tenant>.<delivery>.<end>.<MAC>`.
//!
//! It travels inside the push, whose 3,993 bytes it shares with the producer's payload, so it is as short as it can be: names
//! as they are, because base64 would make them a third longer; the end in milliseconds, in base 62; and 16 bytes of MAC,
//! the minimum that RFC 2104 (section 5) allows for HMAC-SHA256.

use std::time::Duration;

use super::super::base62;
use super::{Kind, SEPARATOR, TokenKeys};
use crate::identity::{DeliveryId, Tenant};
use crate::time::Timestamp;

const KIND: Kind = Kind { name: "redial ack token", mac_bytes: 16 };

/// No token is longer: the longest names take 194 characters.
const MAX: usize = 256;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckToken {
    pub tenant: Tenant,
    pub delivery: DeliveryId,
    /// The first moment at which it is no longer valid.
    pub expires_at: Timestamp,
}

impl AckToken {
    /// How long acknowledgements are accepted after a message's deadline, or after it was sent where it has none: a user may click a
    /// notification days later.
    pub const GRACE: Duration = Duration::from_secs(7 * 86_400);
}

impl TokenKeys {
    /// The token's text, made with the current key: the same text each time for the same token.
    pub fn ack(&self, token: &AckToken) -> String {
        let AckToken { tenant, delivery, expires_at } = token;
        let end = base62::short(u64::try_from(expires_at.as_ms()).unwrap_or_default());
        let key = self.current();
        let parts = [key.id.as_str(), tenant.as_str(), delivery.as_str(), &end];
        key.signed(&KIND, parts.join(&SEPARATOR.to_string()))
    }

    /// `None` if it is invalid, was not made here, or has expired at `now`.
    pub fn read_ack(&self, token: &str, now: Timestamp) -> Option<AckToken> {
        if token.len() > MAX {
            return None;
        }
        let text = self.verified(&KIND, token, |text| text.split(SEPARATOR).next())?;
        let parts: Vec<&str> = text.split(SEPARATOR).collect();
        let &[_, tenant, delivery, end] = parts.as_slice() else { return None };
        let token = AckToken {
            tenant: Tenant::parse(tenant)?,
            delivery: DeliveryId::parse(delivery)?,
            expires_at: Timestamp::from_ms(i64::try_from(base62::read(end)?).ok()?),
        };
        (now < token.expires_at).then_some(token)
    }
}
