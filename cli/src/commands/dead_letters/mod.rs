//! `redial dead-letters list | show | replay | purge`.
//!
//! | file | concept |
//! |---|---|
//! | `which` | the options that say which letters |
//! | `list` | lists them |
//! | `show` | shows those of one id |
//! | `replay` | sends them again |
//! | `purge` | removes them |

mod list;
mod purge;
mod replay;
mod show;
mod which;

use clap::Subcommand;

use crate::failure::Failure;

/// Lists, shows, sends again or removes messages that were given up
///
/// A message that fails for good leaves a dead letter: a description, kept for the days that its retry policy says (14), and
/// its body, kept until its TTL is over. infra/docs/dead-letters.md says what each command reads and what that costs.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial dead-letters list --since 2h
  redial dead-letters show order-17 --tenant acme
  redial dead-letters replay --tenant acme --reason retries_exhausted --dry-run
  redial dead-letters purge --tenant acme --reason malformed")]
pub(crate) enum DeadLetters {
    List(list::List),
    Show(show::Show),
    Replay(replay::Replay),
    Purge(purge::Purge),
}

impl DeadLetters {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
            Self::Replay(command) => command.run().await,
            Self::Purge(command) => command.run().await,
        }
    }
}
