use std::path::Path;

use clap::{Args, ValueEnum};
use redial_adapters::vapid::{VapidKeyPair, VapidKeys};
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    input,
    rotation::secret,
    terminal::{print, print_as_it_is, print_lines, say},
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
                let private_key = key.private().expose().to_owned();
                let pair = Pair { public_key: public_key.to_owned(), private_key };
                print(&serde_json::to_string(&pair)?)?;
            }
        }
        say(&format!("\nThe public key goes into your web page:\n{SUBSCRIBE}"));
        say(
            "The private key goes into the stack, as the template's parameter VapidPrivateKey (or a secret of your own, \
             named by VapidSecretId); for `redial local up`, into the environment as VAPID_PRIVATE_KEY.",
        );
        Ok(())
    }
}

/// Prints the public key of a private key on standard input
///
/// Accepts every form that a stack accepts: base64url of 32 bytes, a PKCS#8 or SEC1 PEM, or several keys as
/// {"default": ID, "current": ID, "keys": {ID: KEY, …}}, whose public keys are printed with their ids. Also accepts the
/// output of `redial vapid generate --format json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial vapid public < vapid-private-key.pem")]
pub(crate) struct Public {}

/// In the JSON of web-push for Node.js.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pair {
    public_key: String,
    private_key: String,
}

impl Public {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let text = input::read_text(Path::new(input::STDIN), secret::MOST_BYTES as u64)?;
        Ok(print_lines(public_keys(&text)?)?)
    }
}

/// Of a single key its public key; of several a line `ID  KEY` each.
fn public_keys(text: &str) -> Result<Vec<String>, Failure> {
    if let Ok(Pair { private_key, .. }) = serde_json::from_str(text) {
        return public_keys(&private_key);
    }
    let keys = VapidKeys::parse(text).map_err(|error| Failure::input(error.to_string()))?;
    let named = text.trim_start().starts_with('{');
    let lines = keys.published().map(|key| {
        let public = key.public_base64url;
        if named { format!("{}  {public}", key.id) } else { public.to_owned() }
    });
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &VapidKeyPair) -> Pair {
        Pair { public_key: key.public().to_owned(), private_key: key.private().expose().to_owned() }
    }

    #[test]
    fn a_generated_key_is_read_from_every_form() {
        let key = VapidKeyPair::generate();
        let pair = pair(&key);
        let json = serde_json::to_string(&pair).expect("JSON");
        assert!(json.contains(r#""publicKey":"#), "{json}");
        for form in [pair.private_key.as_str(), key.private_pem().expose(), &json] {
            assert_eq!(public_keys(form).expect("a key"), std::slice::from_ref(&pair.public_key));
        }
    }

    #[test]
    fn several_public_keys_are_printed_with_their_ids() {
        let (a, b) = (pair(&VapidKeyPair::generate()), pair(&VapidKeyPair::generate()));
        let set =
            format!(r#"{{"default": "b", "keys": {{"a": "{}", "b": "{}"}}}}"#, a.private_key, b.private_key);
        let expected = [format!("a  {}", a.public_key), format!("b  {}", b.public_key)];
        assert_eq!(public_keys(&set).expect("keys"), expected);
    }

    #[test]
    fn an_invalid_key_is_not_repeated() {
        let failure = public_keys("s3cret").expect_err("no key");
        assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
    }
}
