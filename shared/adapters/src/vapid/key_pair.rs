//! A new key pair, as an operator or a local stack begins with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::SecretKey;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

use super::VapidKey;
use crate::secrets::Secret;

/// A new key pair of P-256, in the usual forms.
pub struct VapidKeyPair {
    key: SecretKey,
    private: Secret,
    public: String,
}

impl VapidKeyPair {
    pub fn generate() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("invariant: the system has randomness");
        let key = SecretKey::from_pkcs8_der(pkcs8.as_ref()).expect("invariant: ring writes valid PKCS#8");
        let private = Secret::new(URL_SAFE_NO_PAD.encode(key.to_bytes()));
        let read = VapidKey::parse(private.expose()).expect("invariant: a scalar of the curve is a key");
        Self { key, private, public: read.public_base64url().to_owned() }
    }

    /// The scalar in base64url, as a stack takes it.
    pub fn private(&self) -> &Secret {
        &self.private
    }

    /// The same as PKCS#8 PEM.
    pub fn private_pem(&self) -> Secret {
        let pem = self.key.to_pkcs8_pem(LineEnding::LF).expect("invariant: a key of P-256 has a PKCS#8 form");
        Secret::new(pem.to_string())
    }

    /// The uncompressed point in base64url, as a browser takes it.
    pub fn public(&self) -> &str {
        &self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_random_and_all_forms_are_the_same_key() {
        let pair = VapidKeyPair::generate();
        for form in [pair.private(), &pair.private_pem()] {
            let read = VapidKey::parse(form.expose()).expect("a key");
            assert_eq!(read.public_base64url(), pair.public());
        }
        assert_eq!(URL_SAFE_NO_PAD.decode(pair.public()).expect("base64url").len(), 65);
        assert_ne!(VapidKeyPair::generate().public(), pair.public());
    }
}
