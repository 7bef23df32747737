//! A browser's push subscription, as far as sending needs it: endpoint, keys, and which VAPID key it was made with.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::endpoint::Endpoint;
use crate::identity::VapidKeyId;

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

/// Which of the keys is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushKeysError {
    /// `p256dh` is not an uncompressed P-256 point.
    #[error("p256dh is not base64url of 65 bytes that start with 4 (an uncompressed P-256 point)")]
    P256dh,
    /// `auth` is not 16 bytes.
    #[error("auth is not base64url of 16 bytes")]
    Auth,
}

impl PushKeys {
    /// Reads both keys from base64url, padded or not. Whether the point lies on the curve shows when it is used.
    pub fn parse(p256dh: &str, auth: &str) -> Result<Self, PushKeysError> {
        let p256dh: [u8; 65] = LENIENT_URL_SAFE
            .decode(p256dh)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .filter(|bytes: &[u8; 65]| bytes[0] == 4)
            .ok_or(PushKeysError::P256dh)?;
        let auth: [u8; 16] = LENIENT_URL_SAFE
            .decode(auth)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(PushKeysError::Auth)?;
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

impl fmt::Debug for PushKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushKeys(redacted)")
    }
}

/// Everything a push needs to know of its receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushTarget {
    /// Where to post to.
    pub endpoint: Endpoint,
    /// What to encrypt to.
    pub keys: PushKeys,
    /// The VAPID key that the browser subscribed with; `None` is the default key.
    pub vapid_key_id: Option<VapidKeyId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8291, Appendix A.
    const P256DH: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    #[test]
    fn keys_are_read_with_and_without_padding_and_written_back() {
        let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
        assert_eq!(PushKeys::parse(&format!("{P256DH}="), &format!("{AUTH}==")), Ok(keys.clone()));
        assert_eq!(keys.expose_base64url(), (P256DH.to_owned(), AUTH.to_owned()));
    }

    #[test]
    fn wrong_lengths_are_told_apart_and_nothing_is_printed() {
        assert_eq!(PushKeys::parse(AUTH, AUTH), Err(PushKeysError::P256dh));
        assert_eq!(PushKeys::parse(P256DH, P256DH), Err(PushKeysError::Auth));
        let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
        assert_eq!(format!("{keys:?}"), "PushKeys(redacted)");
    }
}
