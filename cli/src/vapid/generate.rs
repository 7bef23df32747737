use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use clap::{Args, ValueEnum};
use p256::{
    SecretKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding},
};
use redial_adapters::{secrets::Secret, vapid::VapidKey};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};

use super::public::Pair;
use crate::{
    failure::Failure,
    terminal::{print, print_as_it_is, say},
};

/// What a web page does with a public key.
pub(super) const SUBSCRIBE: &str =
    "  registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: PUBLIC_KEY })";

/// Generates a key pair and prints it
///
/// The private key belongs to the stack: a parameter of its template, or a secret of your own. The public key goes into the
/// web page, and is no secret. A browser subscribes with one public key and accepts only pushes signed with it, so keep
/// the pair for as long as its subscriptions. To give a stack another key, use `redial vapid rotate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid generate
  redial vapid generate --format pem > vapid-private-key.pem
  redial vapid generate --format json | jq -r .publicKey")]
pub(crate) struct Generate {
    /// The format of the keys
    #[arg(long, value_enum, default_value_t = Format::Raw)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Both keys in base64url, as web-push for Node.js prints them
    Raw,
    /// Only the private key, as PKCS#8 PEM
    Pem,
    /// Both keys in base64url, as {"publicKey", "privateKey"}
    Json,
}

impl Generate {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let key = VapidKeyPair::generate();
        let public_key = key.public();
        match self.format {
            Format::Raw => {
                print(&format!("public key   {public_key}"))?;
                print(&format!("private key  {}", key.private().expose()))?;
            }
            Format::Pem => {
                print_as_it_is(key.private_pem().expose().as_bytes())?;
                say(&format!("public key   {public_key}"));
            }
            Format::Json => {
                let pair = Pair { public_key, private_key: key.private().expose().to_owned() };
                print(&serde_json::to_string(&pair)?)?;
            }
        }
        say(&format!("\nThe public key goes into your web page:\n{SUBSCRIBE}"));
        say(
            "The private key goes into the stack, as the template's parameter VapidPrivateKey (or a secret of your own,\n\
             named by VapidSecretId); for `redial local up`, into the environment as VAPID_PRIVATE_KEY.",
        );
        Ok(())
    }
}

/// A new key pair of P-256, in the usual forms.
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
