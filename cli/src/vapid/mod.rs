//! `redial vapid`: the keys that push services identify the sender by.

mod generate;
mod retire;
mod rotate;
mod secret;
mod standing;

pub(crate) use secret::{VARIABLES, refuse_owned};

subcommands! {
    /// Generates, reads and rotates VAPID keys, which push services identify your pushes by
    ///
    /// A browser's subscription is bound to the key that it was made with. So after a rotation the old key stays beside
    /// the new one until the last of its subscriptions is gone. See infra/docs/keys.md.
    #[command(after_help = "\
Examples:
  redial vapid generate
  redial vapid public < private-key.pem
  redial vapid rotate --stack redial
  redial vapid status")]
    Vapid {
        Generate(generate::Generate),
        Public(generate::Public),
        Rotate(rotate::Rotate),
        Status(standing::Status),
        Retire(retire::Retire),
    }
}
