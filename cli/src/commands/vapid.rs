//! `redial vapid generate | public`.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use clap::{Args, Subcommand, ValueEnum};
use p256::{
    SecretKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding},
};
use redial_adapters::vapid::{VapidKey, VapidKeys};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    input,
    terminal::{print, print_as_it_is, say},
};

/// No set of keys is longer, in bytes: that is what a secret of Secrets Manager can hold.
const MOST_BYTES: u64 = 65_536;

/// Makes and reads VAPID keys: what push services know your pushes by
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial vapid generate
  redial vapid public < private-key.pem")]
pub(crate) enum Vapid {
    Generate(Generate),
    Public(Public),
}

/// Prints a new private key and its public key
///
/// The private key is the stack's: a parameter of its template, or a secret of your own. The public key is the
/// web page's, and no secret. A browser subscribes with one public key and takes pushes signed with that one only, so keep
/// the pair as long as its subscriptions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid generate
  redial vapid generate --format pem > vapid-private-key.pem
  redial vapid generate --format json | jq -r .publicKey")]
pub(crate) struct Generate {
    /// How the keys are written
    #[arg(long, value_enum, default_value_t = Format::Raw)]
    format: Format,
}

/// Prints the public key of a private key that stands on standard input
///
/// Takes every form that a stack takes: base64url of 32 bytes, a PKCS#8 or SEC1 PEM, or several keys as
/// {"default": ID, "keys": {ID: KEY, …}}, whose public keys are printed with their ids. Takes the JSON of
/// `redial vapid generate --format json`, too.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial vapid public < vapid-private-key.pem")]
pub(crate) struct Public {}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Both keys in base64url, as node's web-push prints them
    Raw,
    /// The private key alone, as PKCS#8 PEM
    Pem,
    /// Both keys in base64url, as {"publicKey", "privateKey"}
    Json,
}

/// A pair in the JSON of node's web-push.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pair {
    public_key: String,
    private_key: String,
}

impl Vapid {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Generate(generate) => generate.run(),
            Self::Public(_) => {
                let text = input::read_text(Path::new(input::STDIN), MOST_BYTES)?;
                public_keys(&text)?.iter().try_for_each(|line| print(line)).map_err(Failure::from)
            }
        }
    }
}

impl Generate {
    fn run(&self) -> Result<(), Failure> {
        let key = new_key();
        let pair = pair(&key);
        match self.format {
            Format::Raw => {
                print(&format!("public key   {}", pair.public_key))?;
                print(&format!("private key  {}", pair.private_key))?;
            }
            Format::Pem => {
                let pem = key.to_pkcs8_pem(LineEnding::LF);
                let pem = pem.expect("invariant: a key of P-256 has a PKCS#8 form");
                print_as_it_is(pem.as_bytes())?;
                say(&format!("public key   {}", pair.public_key));
            }
            Format::Json => print(&serde_json::to_string(&pair)?)?,
        }
        say("");
        say("The public key goes into your web page:");
        say(
            "  registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: PUBLIC_KEY })",
        );
        say(
            "The private key goes into the stack, as the template's parameter VapidPrivateKey (or a secret of yours,",
        );
        say("named by VapidSecretId); for `redial local up`, into the environment as VAPID_PRIVATE_KEY.");
        Ok(())
    }
}

fn new_key() -> SecretKey {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .expect("invariant: the system has randomness");
    SecretKey::from_pkcs8_der(pkcs8.as_ref()).expect("invariant: ring writes PKCS#8 that can be read")
}

fn pair(key: &SecretKey) -> Pair {
    let private_key = URL_SAFE_NO_PAD.encode(key.to_bytes());
    let read = VapidKey::parse(&private_key).expect("invariant: a scalar of the curve is a key");
    Pair { public_key: read.public_base64url().to_owned(), private_key }
}

/// The public key of a bare key; one line `ID  KEY` each for several.
fn public_keys(text: &str) -> Result<Vec<String>, Failure> {
    if let Ok(Pair { private_key, .. }) = serde_json::from_str(text) {
        return public_keys(&private_key);
    }
    let keys = VapidKeys::parse(text).map_err(|error| Failure::input(error.to_string()))?;
    let named = text.trim_start().starts_with('{');
    let line = |id| {
        let (id, key) = keys.get(Some(id))?;
        let public = key.public_base64url();
        Some(if named { format!("{id}  {public}") } else { public.to_owned() })
    };
    Ok(keys.ids().filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_read_back_from_every_form() {
        let key = new_key();
        let pair = pair(&key);
        let pem = key.to_pkcs8_pem(LineEnding::LF).expect("PEM").to_string();
        let json = serde_json::to_string(&pair).expect("JSON");
        assert!(json.contains(r#""publicKey":"#), "{json}");
        for form in [pair.private_key.as_str(), &pem, &json] {
            assert_eq!(public_keys(form).expect("a key"), std::slice::from_ref(&pair.public_key));
        }
        assert_ne!(new_key().to_bytes(), key.to_bytes());
    }

    #[test]
    fn the_public_keys_of_a_set_have_their_ids() {
        let (a, b) = (pair(&new_key()), pair(&new_key()));
        let set =
            format!(r#"{{"default": "b", "keys": {{"a": "{}", "b": "{}"}}}}"#, a.private_key, b.private_key);
        let expected = [format!("a  {}", a.public_key), format!("b  {}", b.public_key)];
        assert_eq!(public_keys(&set).expect("keys"), expected);
    }

    #[test]
    fn what_is_no_key_is_not_repeated() {
        let failure = public_keys("s3cret").expect_err("no key");
        assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
    }
}
