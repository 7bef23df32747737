//! `redial vapid generate | public | rotate | status | retire`.
//!
//! | file | concept |
//! |---|---|
//! | `generate` | a new key, which goes nowhere by itself |
//! | `public` | the public key of a private one |
//! | `rotate` | a new key beside a stack's others |
//! | `status` | a stack's keys, and what stands on each |
//! | `retire` | takes a key away that nothing stands on |
//! | `report` | keys and counts as they are shown |

mod generate;
mod public;
mod report;
mod retire;
mod rotate;
mod status;

use clap::Subcommand;

use crate::failure::Failure;

/// Makes, reads and rotates VAPID keys: what push services know your pushes by
///
/// A browser's subscription belongs to the key that it was made with, for as long as it lives. So a key that is rotated stays
/// beside the new one until the last of its subscriptions is gone. infra/docs/keys.md says how that goes.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial vapid generate
  redial vapid public < private-key.pem
  redial vapid rotate --stack redial
  redial vapid status")]
pub(crate) enum Vapid {
    Generate(generate::Generate),
    Public(public::Public),
    Rotate(rotate::Rotate),
    Status(status::Status),
    Retire(retire::Retire),
}

impl Vapid {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Generate(command) => command.run(),
            Self::Public(command) => command.run(),
            Self::Rotate(command) => command.run().await,
            Self::Status(command) => command.run().await,
            Self::Retire(command) => command.run().await,
        }
    }
}
