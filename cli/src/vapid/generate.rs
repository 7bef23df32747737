use clap::{Args, ValueEnum};

use super::key_pair::VapidKeyPair;
use super::public::Pair;
use crate::{
    failure::Failure,
    terminal::{print, print_as_it_is, say},
};

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
        say("");
        say("The public key goes into your web page:");
        say(
            "  registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: PUBLIC_KEY })",
        );
        say(
            "The private key goes into the stack, as the template's parameter VapidPrivateKey (or a secret of your own,",
        );
        say("named by VapidSecretId); for `redial local up`, into the environment as VAPID_PRIVATE_KEY.");
        Ok(())
    }
}
