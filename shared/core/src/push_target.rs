//! A browser's push subscription, as far as sending needs it: endpoint, keys, and which VAPID key it was made with.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use serde_json::value::RawValue;

use crate::endpoint::Endpoint;
use crate::identity::{ID_FORM, VapidKeyId};
use crate::shape::{self, Object};
use crate::text::redacted;
use crate::time::Timestamp;

/// base64url with or without padding: browsers and libraries write both.
const LENIENT_URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The two keys of a PushSubscription (RFC 8291, 2): what a message is encrypted to.
#[derive(Clone, PartialEq, Eq)]
pub struct PushKeys {
    p256dh: [u8; 65],
    auth: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushKeysError {
    #[error("base64url of 65 bytes (an uncompressed P-256 point)")]
    P256dh,
    #[error("base64url of 16 bytes")]
    Auth,
}

impl PushKeys {
    /// Reads both keys from base64url, padded or not. Whether the point lies on the curve shows when it is used.
    pub fn parse(p256dh: &str, auth: &str) -> Result<Self, PushKeysError> {
        fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
            LENIENT_URL_SAFE.decode(text).ok()?.try_into().ok()
        }
        let p256dh = bytes(p256dh).filter(|point: &[u8; 65]| point[0] == 4).ok_or(PushKeysError::P256dh)?;
        let auth = bytes(auth).ok_or(PushKeysError::Auth)?;
        Ok(Self { p256dh, auth })
    }

    /// The browser's public key, an uncompressed point. Never log what this returns.
    pub fn expose_p256dh(&self) -> &[u8; 65] {
        &self.p256dh
    }

    /// The shared authentication secret. Never log what this returns.
    pub fn expose_auth(&self) -> &[u8; 16] {
        &self.auth
    }

    /// Both keys as base64url without padding, (`p256dh`, `auth`), for storing them. Never log what this returns.
    pub fn expose_base64url(&self) -> (String, String) {
        (LENIENT_URL_SAFE.encode(self.p256dh), LENIENT_URL_SAFE.encode(self.auth))
    }
}

redacted!(PushKeys);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushTarget {
    pub endpoint: Endpoint,
    pub keys: PushKeys,
    /// The VAPID key that the browser subscribed with; `None` is the default key.
    pub vapid_key_id: Option<VapidKeyId>,
}

/// The fields of a browser's subscription; `None` for those that are missing or invalid, which are errors by then.
#[derive(Clone, Debug)]
pub(crate) struct PushFields {
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) keys: Option<PushKeys>,
    vapid_key_id: Option<VapidKeyId>,
    /// `expirationTime`: from when on the browser does not hold the subscription any more.
    pub(crate) ends_at: Option<Timestamp>,
}

/// Reads `expirationTime`: `Some(None)` for null.
pub fn expiration_time(raw: &RawValue) -> Option<Option<Timestamp>> {
    if raw.get() == "null" {
        return Some(None);
    }
    // Within the years that RFC 3339 can write.
    let ms = shape::number(raw).filter(|ms| (0.0..=253_402_300_799_999.0).contains(ms))?;
    Some(Some(Timestamp::from_ms(ms as i64)))
}

pub const AN_EXPIRATION_TIME: &str = "null or epoch milliseconds";

impl PushFields {
    /// Takes what `PushSubscription.toJSON()` gives, and the id of the VAPID key, from an object that may have more fields.
    pub(crate) fn take(object: &mut Object<'_>) -> Self {
        let endpoint = object.required("endpoint", "an https URL without userinfo", |raw| {
            Endpoint::parse(&shape::string(raw)?).ok()
        });
        let ends_at = object.optional("expirationTime", AN_EXPIRATION_TIME, expiration_time).flatten();
        let vapid_key_id = object.optional("vapid_key_id", ID_FORM, shape::text(VapidKeyId::parse));
        let keys = if object.raw("keys").is_some() {
            object.object("keys").and_then(push_keys)
        } else {
            object.refuse("keys", "{\"p256dh\", \"auth\"}", None);
            None
        };
        Self { endpoint, keys, vapid_key_id, ends_at }
    }

    pub(crate) fn target(self) -> Option<PushTarget> {
        Some(PushTarget { endpoint: self.endpoint?, keys: self.keys?, vapid_key_id: self.vapid_key_id })
    }
}

fn push_keys(mut object: Object<'_>) -> Option<PushKeys> {
    let p256dh = object.required("p256dh", "a base64url string", shape::string);
    let auth = object.required("auth", "a base64url string", shape::string);
    let keys = p256dh.zip(auth).and_then(|(p256dh, auth)| {
        let keys = PushKeys::parse(&p256dh, &auth);
        if let Err(error) = keys {
            let name = if error == PushKeysError::Auth { "auth" } else { "p256dh" };
            object.error(name, error.to_string(), "another string");
        }
        keys.ok()
    });
    object.finish();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{AUTH, P256DH};

    #[test]
    fn keys_are_read_with_and_without_padding_and_written_back() {
        let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
        assert_eq!(PushKeys::parse(&format!("{P256DH}="), &format!("{AUTH}==")), Ok(keys.clone()));
        assert_eq!(keys.expose_base64url(), (P256DH.to_owned(), AUTH.to_owned()));
        assert_eq!(format!("{keys:?}"), "PushKeys(redacted)");
        assert_eq!(PushKeys::parse(AUTH, AUTH), Err(PushKeysError::P256dh));
        assert_eq!(PushKeys::parse(P256DH, P256DH), Err(PushKeysError::Auth));
    }
}
