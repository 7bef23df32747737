//! Changes that cannot be undone need a yes at the terminal, or `--yes`.

use std::io::{self, IsTerminal as _};

use clap::Args;

use crate::{failure::Failure, terminal::say};

#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl Confirm {
    /// Fails, before anything is done, where the command could not ask; `what` completes "pass --yes to …".
    pub(crate) fn is_possible(&self, what: &str) -> Result<(), Failure> {
        if self.yes || io::stdin().is_terminal() {
            return Ok(());
        }
        Err(Failure::input(format!("not a terminal: pass --yes to {what} without confirmation")))
    }

    /// Asks, unless `--yes` was given. Any answer but yes ends the command; `nothing` says that nothing was done.
    pub(crate) fn ask(&self, question: &str, nothing: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        say(&format!("{question} Type yes to confirm:"));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim(), "yes" | "y") { Ok(()) } else { Err(Failure::reported(nothing)) }
    }
}
