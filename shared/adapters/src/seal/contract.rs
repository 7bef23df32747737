//! What every sealer keeps true, checked by a browser that is written on RustCrypto.

use std::collections::HashSet;

use aes_gcm::aead::Aead;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::{PublicKey, SecretKey};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;
use sha2::Sha256;

use super::sealer::{SealError, Sealed, Sealer};

/// A browser's end of a subscription.
pub(crate) struct Browser {
    secret: SecretKey,
    auth: [u8; 16],
    keys: PushKeys,
}

impl Browser {
    #[expect(clippy::disallowed_methods, reason = "every browser is another; nothing depends on which")]
    pub(crate) fn new() -> Self {
        let secret =
            SecretKey::from_slice(&rand::random::<[u8; 32]>()).expect("a scalar, but for a chance of 2^-32");
        let auth: [u8; 16] = rand::random();
        let point = secret.public_key().to_encoded_point(false);
        let keys = PushKeys::parse(&URL_SAFE_NO_PAD.encode(point.as_bytes()), &URL_SAFE_NO_PAD.encode(auth))
            .expect("valid");
        Self { secret, auth, keys }
    }

    pub(crate) fn keys(&self) -> &PushKeys {
        &self.keys
    }

    /// The plaintext, as a browser that takes exactly one record reads it.
    pub(crate) fn open(&self, body: &[u8]) -> Option<Vec<u8>> {
        let salt = body.get(..16)?;
        let record_size = u32::from_be_bytes(body.get(16..20)?.try_into().ok()?);
        let sender = body.get(21..86).filter(|_| body[20] == 65)?;
        let record = body.get(86..).filter(|record| record.len() <= record_size as usize)?;

        let theirs = PublicKey::from_sec1_bytes(sender).ok()?;
        let shared = p256::ecdh::diffie_hellman(self.secret.to_nonzero_scalar(), theirs.as_affine());
        let info = [b"WebPush: info\0".as_slice(), self.keys.expose_p256dh(), sender].concat();
        let ikm: [u8; 32] = expand(&self.auth, shared.raw_secret_bytes(), &info)?;
        let key: [u8; 16] = expand(salt, &ikm, b"Content-Encoding: aes128gcm\0")?;
        let nonce: [u8; 12] = expand(salt, &ikm, b"Content-Encoding: nonce\0")?;
        let cipher = Aes128Gcm::new_from_slice(&key).ok()?;
        let mut text = cipher.decrypt(&Nonce::from(nonce), record).ok()?;
        while text.last() == Some(&0) {
            text.pop();
        }
        (text.pop() == Some(2)).then_some(text)
    }
}

fn expand<const N: usize>(salt: &[u8], ikm: &[u8], info: &[u8]) -> Option<[u8; N]> {
    let mut okm = [0; N];
    Hkdf::<Sha256>::new(Some(salt), ikm).expand(info, &mut okm).ok()?;
    Some(okm)
}

/// Checks all of it.
pub(crate) fn holds(sealer: &impl Sealer) {
    every_length_comes_back(sealer);
    a_key_and_a_salt_are_used_once(sealer);
    a_point_off_the_curve_is_refused(sealer);
    let body = sealed(sealer, &Browser::new(), b"for one browser");
    assert_eq!(Browser::new().open(&body), None, "only its own browser reads it");
    assert_eq!(body[16..21], [0, 0, 0x10, 0, 65], "one record of 4,096");
    assert_eq!(sealer.seal(Browser::new().keys(), &Payload::default()), Ok(Sealed::NoBody));
    let limit = sealer.max_plaintext();
    let too_long = Payload::new(vec![1; limit + 1]);
    assert_eq!(sealer.seal(Browser::new().keys(), &too_long), Err(SealError::TooLarge { limit }));
}

fn sealed(sealer: &impl Sealer, browser: &Browser, plaintext: &[u8]) -> Vec<u8> {
    match sealer.seal(browser.keys(), &Payload::new(plaintext.to_vec())) {
        Ok(Sealed::Body(body)) => body,
        other => panic!("expected a body, got {other:?}"),
    }
}

fn every_length_comes_back(sealer: &impl Sealer) {
    let browser = Browser::new();
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() });
    let plaintexts = prop::collection::vec(any::<u8>(), 1..=sealer.max_plaintext());
    runner
        .run(&plaintexts, |plaintext| {
            let body = sealed(sealer, &browser, &plaintext);
            prop_assert!(body.len() <= 4096);
            prop_assert_eq!(browser.open(&body), Some(plaintext));
            Ok(())
        })
        .expect("every length comes back");
    for len in [1, sealer.max_plaintext()] {
        let plaintext = vec![0x5a; len];
        assert_eq!(browser.open(&sealed(sealer, &browser, &plaintext)), Some(plaintext));
    }
}

fn a_key_and_a_salt_are_used_once(sealer: &impl Sealer) {
    let browser = Browser::new();
    let bodies: Vec<_> = (0..50).map(|_| sealed(sealer, &browser, b"the same text")).collect();
    let salts: HashSet<_> = bodies.iter().map(|body| &body[..16]).collect();
    let keys: HashSet<_> = bodies.iter().map(|body| &body[21..86]).collect();
    assert_eq!((salts.len(), keys.len()), (50, 50));
}

fn a_point_off_the_curve_is_refused(sealer: &impl Sealer) {
    let mut point = *Browser::new().keys().expose_p256dh();
    point[64] ^= 1;
    let keys =
        PushKeys::parse(&URL_SAFE_NO_PAD.encode(point), &URL_SAFE_NO_PAD.encode([0; 16])).expect("the form");
    assert_eq!(sealer.seal(&keys, &Payload::new(vec![1])), Err(SealError::BadPublicKey));
}
