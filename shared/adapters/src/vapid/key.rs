//! One VAPID private key.
//!
//! ring signs, but it neither reads SEC1 nor derives a public key from a bare scalar; p256 does both, once, when the key
//! is loaded.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::DecodePrivateKey;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

const LENIENT_URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const PKCS8_LABEL: &str = "PRIVATE KEY";
const SEC1_LABEL: &str = "EC PRIVATE KEY";

/// A P-256 key pair that signs VAPID tokens.
pub struct VapidKey {
    pair: EcdsaKeyPair,
    public_base64url: String,
}

/// Why a text is no VAPID key: names the expected form, never the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VapidKeyError {
    #[error(
        "expected a P-256 private key: base64url of 32 bytes (as node's web-push prints it), a PKCS#8 PEM (`BEGIN \
         PRIVATE KEY`) or a SEC1 PEM (`BEGIN EC PRIVATE KEY`)"
    )]
    NotAKey,
    #[error(
        "the 32 bytes are not a private key on P-256: expected a number from 1 to the curve's order less 1"
    )]
    BadScalar,
    #[error("the PEM block `PRIVATE KEY` does not hold an unencrypted P-256 key in PKCS#8")]
    BadPkcs8,
    #[error("the PEM block `EC PRIVATE KEY` does not hold an unencrypted P-256 key in SEC1")]
    BadSec1,
}

impl VapidKey {
    /// Reads a private key: base64url of the 32-byte scalar, padded or not, or PEM, PKCS#8 or SEC1. Line ends of a PEM may
    /// be written `\n`, as an environment variable often has them, and other blocks (`EC PARAMETERS`) may precede it.
    pub fn parse(text: &str) -> Result<Self, VapidKeyError> {
        let text = text.trim();
        if text.contains("-----BEGIN ") {
            let pem = text.replace("\\n", "\n");
            if let Some(block) = pem_block(&pem, SEC1_LABEL) {
                return SecretKey::from_sec1_pem(block).map(Self::new).map_err(|_| VapidKeyError::BadSec1);
            }
            if let Some(block) = pem_block(&pem, PKCS8_LABEL) {
                return SecretKey::from_pkcs8_pem(block).map(Self::new).map_err(|_| VapidKeyError::BadPkcs8);
            }
            return Err(VapidKeyError::NotAKey);
        }
        let scalar = LENIENT_URL_SAFE.decode(text).ok().filter(|bytes| bytes.len() == 32);
        SecretKey::from_slice(&scalar.ok_or(VapidKeyError::NotAKey)?)
            .map(Self::new)
            .map_err(|_| VapidKeyError::BadScalar)
    }

    fn new(secret: SecretKey) -> Self {
        let point = secret.public_key().to_encoded_point(false);
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &secret.to_bytes(),
            point.as_bytes(),
            &SystemRandom::new(),
        )
        .expect("invariant: a scalar that p256 accepts and the point that it derives are a key pair");
        Self { pair, public_base64url: URL_SAFE_NO_PAD.encode(point.as_bytes()) }
    }

    /// The public key as base64url of the uncompressed point: a browser's `applicationServerKey`, and `k` of the
    /// Authorization header.
    pub fn public_base64url(&self) -> &str {
        &self.public_base64url
    }

    /// ECDSA over SHA-256 of `message`: r and s, 32 bytes each (JWA's ES256).
    pub(super) fn sign(&self, random: &SystemRandom, message: &[u8]) -> ring::signature::Signature {
        self.pair.sign(random, message).expect("invariant: the operating system gives random bytes")
    }
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VapidKey(redacted)")
    }
}

/// The block of that label, from its first dash to its last.
fn pem_block<'a>(pem: &'a str, label: &str) -> Option<&'a str> {
    let start = pem.find(&format!("-----BEGIN {label}-----"))?;
    let end_line = format!("-----END {label}-----");
    let end = pem[start..].find(&end_line)? + start + end_line.len();
    Some(&pem[start..end])
}

#[cfg(test)]
pub(crate) mod tests {
    use p256::pkcs8::{EncodePrivateKey, LineEnding};
    use proptest::prelude::*;

    use super::*;

    /// A scalar of this byte all over: a valid key for every value but 0 and 255.
    pub(crate) fn scalar(byte: u8) -> String {
        URL_SAFE_NO_PAD.encode([byte; 32])
    }

    #[test]
    fn a_key_of_node_s_web_push_is_read() {
        // The sender's pair of RFC 8291, Appendix A, in the form in which that tool prints a pair.
        let private = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
        let public =
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
        for text in [private.to_owned(), format!("{private}="), format!("  {private}\n")] {
            assert_eq!(VapidKey::parse(&text).expect("a key").public_base64url(), public);
        }
    }

    #[test]
    fn pem_is_read_in_both_forms_with_real_and_escaped_line_ends() {
        let secret = SecretKey::from_slice(&[9; 32]).expect("a scalar");
        let expected = VapidKey::parse(&scalar(9)).expect("a key").public_base64url;
        let pkcs8 = secret.to_pkcs8_pem(LineEnding::LF).expect("PEM").to_string();
        let sec1 = secret.to_sec1_pem(LineEnding::LF).expect("PEM").to_string();
        let with_parameters =
            format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{sec1}");
        for pem in
            [pkcs8.clone(), pkcs8.replace('\n', "\\n"), pkcs8.replace('\n', "\r\n"), sec1, with_parameters]
        {
            assert_eq!(VapidKey::parse(&pem).expect("a key").public_base64url, expected);
        }
    }

    #[test]
    fn an_invalid_key_is_refused_and_no_key_is_shown() {
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----");
        for (text, expected) in [
            ("AAAA".to_owned(), VapidKeyError::NotAKey),
            (scalar(0), VapidKeyError::BadScalar),
            (scalar(255), VapidKeyError::BadScalar),
            (pem("PRIVATE KEY"), VapidKeyError::BadPkcs8),
            (pem("EC PRIVATE KEY"), VapidKeyError::BadSec1),
            (pem("PUBLIC KEY"), VapidKeyError::NotAKey),
        ] {
            let error = VapidKey::parse(&text).expect_err("no key");
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("AAAA"));
        }
        let key = VapidKey::parse(&scalar(7)).expect("a key");
        assert_eq!(format!("{key:?}"), "VapidKey(redacted)");
    }

    proptest! {
        #[test]
        fn a_changed_key_never_panics(
            sec1 in any::<bool>(), place in any::<prop::sample::Index>(), len in 0usize..4, with in "[-A-Za-z0-9+/=\\\\n é]{0,4}",
        ) {
            let secret = SecretKey::from_slice(&[9; 32]).expect("a scalar");
            let pem = if sec1 { secret.to_sec1_pem(LineEnding::LF).ok() } else { secret.to_pkcs8_pem(LineEnding::LF).ok() };
            let mut text = pem.expect("PEM").to_string();
            let from = place.index(text.len());
            text.replace_range(from..(from + len).min(text.len()), &with);
            if let Ok(key) = VapidKey::parse(&text) {
                prop_assert_eq!(key.public_base64url().len(), 87);
            }
        }

        #[test]
        fn every_scalar_on_the_curve_is_a_key(bytes in any::<[u8; 32]>()) {
            let valid = SecretKey::from_slice(&bytes).is_ok();
            prop_assert_eq!(VapidKey::parse(&URL_SAFE_NO_PAD.encode(bytes)).is_ok(), valid);
        }
    }
}
