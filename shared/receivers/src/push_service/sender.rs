//! A Web Push sender for the tests of receivers, so that they need no part of Redial. That it and the receiver
//! do not share a mistake is shown by the known answer of RFC 8291 in `decrypt`.

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::{PublicKey, SecretKey};
use serde_json::{Value, json};

use super::decrypt::derive;
use super::subscriber::new_secret;
use crate::ambient;

/// Seals text that already has its delimiter and padding, as one record.
pub fn seal(p256dh: &[u8], auth: &[u8], padded: &[u8], record_size: u32) -> Vec<u8> {
    let ephemeral: SecretKey = new_secret();
    let receiver = PublicKey::from_sec1_bytes(p256dh).expect("a point");
    let own = ephemeral.public_key().to_sec1_bytes();
    let shared = p256::ecdh::diffie_hellman(ephemeral.to_nonzero_scalar(), receiver.as_affine());
    let info = [b"WebPush: info\0".as_slice(), p256dh, &own].concat();
    let salt: [u8; 16] = ambient::random_bytes();
    let ikm: [u8; 32] = derive(auth, shared.raw_secret_bytes(), &info);
    let key: [u8; 16] = derive(&salt, &ikm, b"Content-Encoding: aes128gcm\0");
    let nonce: [u8; 12] = derive(&salt, &ikm, b"Content-Encoding: nonce\0");
    let cipher = Aes128Gcm::new(&key.into());
    let record = cipher.encrypt(&Nonce::from(nonce), padded).expect("short enough");
    [salt.as_slice(), &record_size.to_be_bytes(), &[65], &own, &record].concat()
}

pub struct Sender {
    key: SigningKey,
}

/// A sender with a key of its own.
impl Default for Sender {
    fn default() -> Self {
        Self { key: SigningKey::from(new_secret()) }
    }
}

impl Sender {
    pub fn public_key(&self) -> Vec<u8> {
        self.key.verifying_key().to_encoded_point(false).as_bytes().to_vec()
    }

    pub fn authorization(&self, claims: &Value) -> String {
        self.authorization_by("ES256", claims)
    }

    pub fn authorization_by(&self, algorithm: &str, claims: &Value) -> String {
        let header = json!({"typ": "JWT", "alg": algorithm});
        let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        let signature: Signature = self.key.sign(signed.as_bytes());
        let signature = B64.encode(signature.to_bytes());
        format!("vapid t={signed}.{signature}, k={}", B64.encode(self.public_key()))
    }
}
