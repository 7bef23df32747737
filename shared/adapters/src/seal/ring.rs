//! Sealing on ring.
//!
//! ring was chosen for cost and for size: a P-256 key pair and one ECDH are about four fifths of the least possible work,
//! ring does them well, and the same library already serves TLS. Everything around them is two HKDFs and one AES-128-GCM.
//!
//! ring never imports an agreement key, on purpose. So the part that is random (key pair, salt, agreement) is separate
//! from the part that is a function of its inputs ([`Record::seal`]); the latter is checked against the example of RFC
//! 8291, Appendix A.

use redial_core::payload::{MAX_WEB_PUSH_PLAINTEXT, Payload};
use redial_core::push_target::PushKeys;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use super::sealer::{SealError, Sealed, Sealer};

/// Record size that is written into the header (RFC 8188, 2.1): the default of RFC 8291, 4, which every browser reads.
const RECORD_SIZE: u32 = 4096;

/// Length of the salt (RFC 8188, 2.1).
const SALT_LEN: usize = 16;

/// Length of an uncompressed P-256 point, which is also the record's key id (RFC 8291, 4).
const POINT_LEN: usize = 65;

/// Marks the end of the last record's text (RFC 8188, 2).
const LAST_RECORD: u8 = 2;

/// Seals with ring: the full 3,993 bytes.
#[derive(Clone, Debug)]
pub struct RingSealer {
    random: SystemRandom,
}

impl RingSealer {
    pub fn new() -> Self {
        Self { random: SystemRandom::new() }
    }
}

impl Default for RingSealer {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealer for RingSealer {
    fn max_plaintext(&self) -> usize {
        MAX_WEB_PUSH_PLAINTEXT
    }

    fn seal(&self, keys: &PushKeys, plaintext: &Payload) -> Result<Sealed, SealError> {
        if plaintext.is_empty() {
            return Ok(Sealed::NoBody);
        }
        if plaintext.len() > MAX_WEB_PUSH_PLAINTEXT {
            return Err(SealError::TooLarge { limit: MAX_WEB_PUSH_PLAINTEXT });
        }
        let mut salt = [0; SALT_LEN];
        self.random.fill(&mut salt).expect("invariant: the operating system gives random bytes");
        let ours = EphemeralPrivateKey::generate(&ECDH_P256, &self.random)
            .expect("invariant: the operating system gives random bytes");
        let our_point = ours.compute_public_key().expect("invariant: a generated key has a public key");
        let our_point: [u8; POINT_LEN] =
            our_point.as_ref().try_into().expect("invariant: ring writes P-256 points uncompressed");

        let theirs = UnparsedPublicKey::new(&ECDH_P256, keys.expose_p256dh());
        agree_ephemeral(ours, &theirs, |shared_secret| {
            let record = Record { shared_secret, salt, our_point, keys };
            Sealed::Body(record.seal(plaintext.expose()))
        })
        .map_err(|_| SealError::BadPublicKey)
    }
}

/// Whether `p256dh` is a point of P-256, checked before it is stored rather than when a message is due. Costs about as much as sealing a
/// message.
///
/// ring has no function for it. But an agreement fails with a point off the curve, whatever the other key is; so one is made with a new
/// key, and its secret dropped.
pub fn is_on_curve(keys: &PushKeys) -> bool {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())
        .expect("invariant: the operating system gives random bytes");
    let theirs = UnparsedPublicKey::new(&ECDH_P256, keys.expose_p256dh());
    agree_ephemeral(ours, &theirs, |_secret| ()).is_ok()
}

/// Everything that a sealed body is a function of, besides the text.
struct Record<'a> {
    shared_secret: &'a [u8],
    salt: [u8; SALT_LEN],
    our_point: [u8; POINT_LEN],
    keys: &'a PushKeys,
}

impl Record<'_> {
    /// Header and the one record. `plaintext` is at most [`MAX_WEB_PUSH_PLAINTEXT`] bytes long.
    fn seal(&self, plaintext: &[u8]) -> Vec<u8> {
        let (key, nonce) = self.key_and_nonce();
        let header_len = SALT_LEN + size_of::<u32>() + 1 + POINT_LEN;
        let mut body = Vec::with_capacity(header_len + plaintext.len() + 1 + AES_128_GCM.tag_len());
        body.extend_from_slice(&self.salt);
        body.extend_from_slice(&RECORD_SIZE.to_be_bytes());
        body.push(POINT_LEN as u8);
        body.extend_from_slice(&self.our_point);
        body.extend_from_slice(plaintext);
        body.push(LAST_RECORD);
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut body[header_len..])
            .expect("invariant: a record of 4 KiB is within what AES-GCM encrypts");
        body.extend_from_slice(tag.as_ref());
        body
    }

    /// The content-encryption key and the nonce of the first record (RFC 8291, 3.4).
    fn key_and_nonce(&self) -> (LessSafeKey, Nonce) {
        const LENGTHS: &str = "invariant: far below the most that HKDF-SHA256 gives";
        let mut ikm = [0; 32];
        Salt::new(HKDF_SHA256, self.keys.expose_auth())
            .extract(self.shared_secret)
            .expand(&[b"WebPush: info\0", self.keys.expose_p256dh(), &self.our_point], Length(ikm.len()))
            .and_then(|okm| okm.fill(&mut ikm))
            .expect(LENGTHS);
        let prk = Salt::new(HKDF_SHA256, &self.salt).extract(&ikm);
        let key = prk.expand(&[b"Content-Encoding: aes128gcm\0"], &AES_128_GCM).expect(LENGTHS);
        let mut nonce = [0; NONCE_LEN];
        prk.expand(&[b"Content-Encoding: nonce\0"], Length(NONCE_LEN))
            .and_then(|okm| okm.fill(&mut nonce))
            .expect(LENGTHS);
        (LessSafeKey::new(UnboundKey::from(key)), Nonce::assume_unique_for_key(nonce))
    }
}

/// How many bytes HKDF is asked for.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::super::contract;
    use super::*;

    fn bytes<const N: usize>(base64url: &str) -> [u8; N] {
        URL_SAFE_NO_PAD.decode(base64url).expect("base64url").try_into().expect("of that length")
    }

    /// The browser of RFC 8291, Appendix A.
    const P256DH: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    #[test]
    fn a_point_of_the_curve_is_distinguished_from_one_beside_it() {
        let on: [u8; 65] = bytes(P256DH);
        let mut beside = on;
        beside[64] ^= 1;
        let (zero, no_field_elements) = ([&[4][..], &[0; 64]].concat(), [&[4][..], &[0xff; 64]].concat());
        for (point, expected) in
            [(&on[..], true), (&beside, false), (&zero, false), (&no_field_elements, false)]
        {
            let keys = PushKeys::parse(&URL_SAFE_NO_PAD.encode(point), AUTH).expect("65 bytes from 4 on");
            assert_eq!(is_on_curve(&keys), expected, "{point:?}");
        }
    }

    #[test]
    fn the_example_of_rfc_8291_appendix_a_comes_out_byte_for_byte() {
        let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
        let record = Record {
            shared_secret: &bytes::<32>("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            salt: bytes("DGv6ra1nlYgDCS1FRnbzlw"),
            our_point: bytes(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
            ),
            keys: &keys,
        };
        let body = record.seal(b"When I grow up, I want to be a watermelon");
        assert_eq!(
            URL_SAFE_NO_PAD.encode(body),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w\
EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn what_is_sealed_can_be_read_by_its_browser_alone() {
        contract::holds(&RingSealer::new());
    }

    #[test]
    fn the_longest_plaintext_fills_a_body_of_4096_bytes() {
        let sealer = RingSealer::new();
        assert_eq!(sealer.max_plaintext(), 3993);
        let browser = contract::Browser::new();
        let Ok(Sealed::Body(body)) = sealer.seal(browser.keys(), &Payload::new(vec![7; 3993])) else {
            panic!("not sealed")
        };
        assert_eq!(body.len(), 4096);
    }
}
