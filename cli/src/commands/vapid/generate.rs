//! `redial vapid generate`.

use clap::{Args, ValueEnum};

use super::public::Pair;
use crate::{
    failure::Failure,
    rotation::new_key::NewKey,
    terminal::{print, print_as_it_is, say},
};

/// Prints a new private key and its public key
///
/// The private key is the stack's: a parameter of its template, or a secret of your own. The public key is the
/// web page's, and no secret. A browser subscribes with one public key and takes pushes signed with that one only, so keep
/// the pair as long as its subscriptions. A stack that has a key is given another one by `redial vapid rotate`.
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Both keys in base64url, as node's web-push prints them
    Raw,
    /// The private key alone, as PKCS#8 PEM
    Pem,
    /// Both keys in base64url, as {"publicKey", "privateKey"}
    Json,
}

impl Generate {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let key = NewKey::generate();
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
