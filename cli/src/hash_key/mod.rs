//! `redial hash-key`: the key that endpoints are hashed with, and its rotation.

mod document;
mod retire;
mod rotate;
mod secret;
mod status;

pub(crate) use document::HashDocument;
pub(crate) use secret::VARIABLES;

subcommands! {
    /// Rotates the key that endpoints are hashed with in logs, the ledger and dead letters
    ///
    /// A hash names its key, as in hmac:k1:…, so that hashes from before a rotation are recognised for as long as their key is
    /// kept. infra/docs/keys.md says what changes for those who compare hashes.
    #[command(after_help = "\
Examples:
  redial hash-key status
  redial hash-key rotate --stack redial
  redial hash-key retire k1")]
    HashKey { Rotate(rotate::Rotate), Status(status::Status), Retire(retire::Retire) }
}
