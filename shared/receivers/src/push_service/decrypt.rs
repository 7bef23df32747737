//! Opening a message as a browser does: RFC 8291 keys over RFC 8188 `aes128gcm`.
//!
//! It is as strict as the strictest browser on each point, because a message that only some browsers open
//! is a lost message: one record only (Chromium opens no second one), a record size that holds it (Firefox
//! checks), no padding before the delimiter's value, no empty text (Chromium fires no event).

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce};
use hkdf::Hkdf;
use p256::{PublicKey, SecretKey};
use sha2::Sha256;
use thiserror::Error;

/// salt (16), record size (4), length of the key id (1): RFC 8188 section 2.1.
const FIXED_HEADER: usize = 21;
/// An uncompressed P-256 point: RFC 8291 section 4 wants the sender's as the key id.
const POINT: usize = 65;
const TAG: usize = 16;
/// The least record size of RFC 8188: a tag, a delimiter and one byte.
const LEAST_RECORD: u32 = 18;
/// The greatest record size seen to work in both Firefox and Chromium; at 2³²−1 Firefox refuses.
const GREATEST_RECORD: u32 = 65_536;

/// Why a browser would not show a message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecryptError {
    #[error("the body of {0} bytes is too short for a header and a record")]
    TooShort(usize),
    #[error("the key id is no uncompressed P-256 point")]
    SenderKey,
    #[error("the record size {0} is outside 18 to 65536")]
    RecordSize(u32),
    #[error("the body has more than one record of {0} bytes")]
    SecondRecord(u32),
    /// The tag does not fit: another key, another auth secret, or changed bytes.
    #[error("the tag does not fit the keys")]
    Tag,
    /// The text does not end in the last record's delimiter, 2, and zeros.
    #[error("the delimiter of a last record is missing")]
    Delimiter,
    /// The text is empty: Chromium fires no event; send no body instead.
    #[error("the text is empty")]
    EmptyText,
}

/// A browser's end of a subscription.
pub(super) struct Receiver {
    pub(super) secret: SecretKey,
    pub(super) auth: [u8; 16],
}

impl Receiver {
    /// The uncompressed public key, 65 bytes: `p256dh`.
    pub(super) fn public_key(&self) -> Vec<u8> {
        self.secret.public_key().to_sec1_bytes().into_vec()
    }

    pub(super) fn open(&self, body: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let short = || DecryptError::TooShort(body.len());
        let (header, rest) = body.split_at_checked(FIXED_HEADER).ok_or_else(short)?;
        let (salt, sizes) = header.split_at(16);
        let record_size = match sizes {
            [a, b, c, d, key_id] if usize::from(*key_id) == POINT => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => return Err(DecryptError::SenderKey),
        };
        let (sender, record) = rest.split_at_checked(POINT).ok_or_else(short)?;
        if record.len() <= TAG {
            return Err(short());
        }
        if !(LEAST_RECORD..=GREATEST_RECORD).contains(&record_size) {
            return Err(DecryptError::RecordSize(record_size));
        }
        if record.len() > usize::try_from(record_size).unwrap_or(usize::MAX) {
            return Err(DecryptError::SecondRecord(record_size));
        }
        let padded = self.cipher_text(salt, sender, record)?;
        let end = padded.iter().rposition(|byte| *byte != 0).ok_or(DecryptError::Delimiter)?;
        match padded.split_at(end) {
            (_, [2, ..]) if end == 0 => Err(DecryptError::EmptyText),
            (text, [2, ..]) => Ok(text.to_vec()),
            _ => Err(DecryptError::Delimiter),
        }
    }

    fn cipher_text(&self, salt: &[u8], sender: &[u8], record: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let point = PublicKey::from_sec1_bytes(sender).map_err(|_| DecryptError::SenderKey)?;
        let shared = p256::ecdh::diffie_hellman(self.secret.to_nonzero_scalar(), point.as_affine());
        let info = [b"WebPush: info\0".as_slice(), &self.public_key(), sender].concat();
        let ikm: [u8; 32] = derive(&self.auth, shared.raw_secret_bytes(), &info);
        let key: [u8; 16] = derive(salt, &ikm, b"Content-Encoding: aes128gcm\0");
        let nonce: [u8; 12] = derive(salt, &ikm, b"Content-Encoding: nonce\0");
        let cipher = Aes128Gcm::new(&key.into());
        cipher.decrypt(&Nonce::from(nonce), record).map_err(|_| DecryptError::Tag)
    }
}

/// HKDF-SHA-256, extract and expand.
pub(super) fn derive<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> [u8; N] {
    let mut output = [0; N];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(info, &mut output)
        .expect("HKDF-SHA-256 gives up to 8,160 bytes and is asked for at most 32");
    output
}

#[cfg(test)]
mod tests {
    use super::super::sender;
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;

    fn bytes(text: &str) -> Vec<u8> {
        B64.decode(text).expect("base64url")
    }

    /// RFC 8291, appendix A.
    fn appendix_a() -> (Receiver, Vec<u8>) {
        let secret = SecretKey::from_slice(&bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"));
        let auth = bytes("BTBZMqHH6r4Tts7J_aSIgg").try_into().expect("16 bytes");
        let body = bytes(concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
            "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
            "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        ));
        (Receiver { secret: secret.expect("a scalar"), auth }, body)
    }

    #[test]
    fn the_example_of_rfc_8291_opens() {
        let (receiver, body) = appendix_a();
        let text = receiver.open(&body).expect("the RFC's own message");
        assert_eq!(text, b"When I grow up, I want to be a watermelon");
    }

    #[test]
    fn the_receivers_public_key_is_that_of_rfc_8291() {
        let published =
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        assert_eq!(B64.encode(appendix_a().0.public_key()), published);
    }

    #[test]
    fn any_changed_byte_after_the_record_size_is_noticed() {
        let (receiver, body) = appendix_a();
        for position in (0..16).chain(20..body.len()) {
            let mut changed = body.clone();
            changed[position] ^= 1;
            assert!(receiver.open(&changed).is_err(), "byte {position}");
        }
    }

    #[test]
    fn every_shorter_body_is_an_error_and_not_a_panic() {
        let (receiver, body) = appendix_a();
        for length in 0..body.len() {
            assert!(receiver.open(&body[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_body_is_refused_wherever_one_browser_refuses_it() {
        let (receiver, _) = appendix_a();
        let seal = |padded: &[u8], record_size: u32| {
            receiver.open(&sender::seal(&receiver.public_key(), &receiver.auth, padded, record_size))
        };
        assert_eq!(seal(b"hello\x02", 4096), Ok(b"hello".to_vec()));
        assert_eq!(seal(b"hello\x02\0\0\0", 4096), Ok(b"hello".to_vec()));
        assert_eq!(seal(b"hello\x02", 22), Ok(b"hello".to_vec()));
        assert_eq!(seal(b"hello\x02", 65_536), Ok(b"hello".to_vec()));
        assert_eq!(seal(b"hello\x02", 21), Err(DecryptError::SecondRecord(21)));
        assert_eq!(seal(b"hello\x02", u32::MAX), Err(DecryptError::RecordSize(u32::MAX)));
        assert_eq!(seal(b"hello\x02", 17), Err(DecryptError::RecordSize(17)));
        assert_eq!(seal(b"hello\x01", 4096), Err(DecryptError::Delimiter));
        assert_eq!(seal(b"hello", 4096), Err(DecryptError::Delimiter));
        assert_eq!(seal(b"\0\0", 4096), Err(DecryptError::Delimiter));
        assert_eq!(seal(b"\x02", 4096), Err(DecryptError::EmptyText));
    }

    #[test]
    fn the_longest_message_of_4096_bytes_opens() {
        let (receiver, _) = appendix_a();
        let mut padded = vec![b'x'; 3_993];
        padded.push(2);
        let body = sender::seal(&receiver.public_key(), &receiver.auth, &padded, 4096);
        assert_eq!(body.len(), 4096);
        assert_eq!(receiver.open(&body).map(|text| text.len()), Ok(3_993));
    }
}
