//! The VAPID key pair that a local stack signs with: the one in the environment, or a new one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use p256::{SecretKey, elliptic_curve::sec1::ToEncodedPoint as _, pkcs8::DecodePrivateKey as _};
use ring::{rand::SystemRandom, signature::ECDSA_P256_SHA256_FIXED_SIGNING, signature::EcdsaKeyPair};

use super::LocalError;

/// A private key as text and the public key that belongs to it.
pub(super) struct VapidKey {
    /// As given (base64url scalar or PEM), or a new base64url scalar.
    pub(super) private: String,
    /// The uncompressed point, base64url: what a browser takes as `applicationServerKey`.
    pub(super) public: String,
}

impl VapidKey {
    /// A new pair.
    pub(super) fn generate() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("the system has randomness");
        let key = SecretKey::from_pkcs8_der(pkcs8.as_ref()).expect("ring writes PKCS#8 that can be read");
        Self { private: URL_SAFE_NO_PAD.encode(key.to_bytes()), public: public_of(&key) }
    }

    /// Reads a base64url scalar as node web-push makes it, or a PKCS#8 or SEC1 PEM.
    pub(super) fn parse(text: &str) -> Result<Self, LocalError> {
        let trimmed = text.trim();
        let key = if trimmed.starts_with("-----BEGIN") {
            SecretKey::from_pkcs8_pem(trimmed).ok().or_else(|| SecretKey::from_sec1_pem(trimmed).ok())
        } else {
            URL_SAFE_NO_PAD
                .decode(trimmed.trim_end_matches('='))
                .ok()
                .and_then(|scalar| SecretKey::from_slice(&scalar).ok())
        };
        let key = key.ok_or(LocalError::VapidKey(
            "neither 32 bytes of base64url nor a PKCS#8 or SEC1 PEM of a P-256 private key",
        ))?;
        Ok(Self { private: trimmed.to_owned(), public: public_of(&key) })
    }
}

fn public_of(key: &SecretKey) -> String {
    URL_SAFE_NO_PAD.encode(key.public_key().to_encoded_point(false).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_is_read_back_with_the_same_public_key() {
        let made = VapidKey::generate();
        let read = VapidKey::parse(&format!("  {}\n", made.private)).expect("it was just written");
        assert_eq!(read.public, made.public);
        assert_eq!(URL_SAFE_NO_PAD.decode(&made.public).expect("base64url").len(), 65);
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in ["", "abc", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(VapidKey::parse(text).is_err(), "{text:?}");
        }
    }
}
