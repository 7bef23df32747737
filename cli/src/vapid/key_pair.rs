//! A new VAPID key pair, in the usual forms.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use p256::{
    SecretKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding},
};
use redial_adapters::{secrets::Secret, vapid::VapidKey};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};

/// Of P-256.
pub(crate) struct VapidKeyPair(SecretKey);

impl VapidKeyPair {
    pub(crate) fn generate() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("invariant: the system has randomness");
        let key = SecretKey::from_pkcs8_der(pkcs8.as_ref());
        Self(key.expect("invariant: ring writes valid PKCS#8"))
    }

    /// The scalar in base64url, as a stack takes it.
    pub(crate) fn private(&self) -> Secret {
        Secret::new(URL_SAFE_NO_PAD.encode(self.0.to_bytes()))
    }

    /// The same as PKCS#8 PEM.
    pub(crate) fn private_pem(&self) -> Secret {
        let pem = self.0.to_pkcs8_pem(LineEnding::LF).expect("invariant: a key of P-256 has a PKCS#8 form");
        Secret::new(pem.to_string())
    }

    /// The uncompressed point in base64url, as a browser takes it.
    pub(crate) fn public(&self) -> String {
        let read = VapidKey::parse(self.private().expose());
        read.expect("invariant: a scalar of the curve is a key").public_base64url().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_random_and_all_forms_are_the_same_key() {
        let key = VapidKeyPair::generate();
        for form in [key.private(), key.private_pem()] {
            let read = VapidKey::parse(form.expose()).expect("a key");
            assert_eq!(read.public_base64url(), key.public());
        }
        assert_eq!(URL_SAFE_NO_PAD.decode(key.public()).expect("base64url").len(), 65);
        assert_ne!(VapidKeyPair::generate().public(), key.public());
    }
}
