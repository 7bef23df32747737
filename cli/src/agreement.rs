//! What cannot be taken back is asked about first: a yes at the terminal, or `--yes`.

use std::io::{self, IsTerminal as _};

use crate::{failure::Failure, terminal::say};

/// Refuses a command that would have to ask where nobody can be asked; `what` is what `--yes` would do all the same.
pub(crate) fn can_be_had(yes: bool, what: &str) -> Result<(), Failure> {
    if yes || io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::input(format!("nobody can be asked here: give --yes to {what} all the same")))
}

/// Asks, unless `--yes` was given, and answers whether it may be done.
pub(crate) fn is_given(yes: bool, question: &str) -> io::Result<bool> {
    if yes {
        return Ok(true);
    }
    say(&format!("{question} Type yes to do so:"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "yes" | "y"))
}
