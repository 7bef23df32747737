//! `redial limits list | set | unset`: how much a second an origin gets, or a tenant may send, by an operator's word.
//!
//! | file | concept |
//! |---|---|
//! | `list` | all of them |
//! | `set` | sets one, and takes one away |

mod list;
mod set;

use clap::Subcommand;
use redial_engine::ports::Limited;

use crate::failure::Failure;

/// Sets how many attempts a second, minute or hour an origin gets, or a tenant may make
///
/// Running workers follow within 30 seconds, all of them together. What is over a limit is held back without using an attempt.
/// A webhook's receiver can have a limit of its own besides: `rate` in its subscription.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial limits list
  redial limits set origin https://partner.example 50/s
  redial limits set tenant acme 6000/min
  redial limits unset tenant acme")]
pub(crate) enum Limits {
    List(list::List),
    Set(set::Set),
    Unset(set::Unset),
}

impl Limits {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Set(command) => command.run().await,
            Self::Unset(command) => command.run().await,
        }
    }
}

/// What a limit is about, and whom, as they are written.
fn parts(limited: &Limited) -> (&'static str, &str) {
    match limited {
        Limited::Origin(origin) => ("origin", origin.as_str()),
        Limited::Tenant(tenant) => ("tenant", tenant.as_str()),
    }
}
