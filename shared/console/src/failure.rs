//! Why a command fails, and its exit status.
//!
//! | status | meaning |
//! |---|---|
//! | 1 | something failed, or was not found |
//! | 2 | invalid input; nothing was done |

use std::{error::Error, iter, process::ExitCode};

use crate::terminal::say;

#[derive(Debug)]
pub enum Failure {
    /// The input is invalid: one line for each mistake.
    Input(Vec<String>),
    Failed(Box<dyn Error>),
    /// The command has already printed why.
    Reported,
}

impl Failure {
    /// A single mistake in the input.
    pub fn input(line: impl Into<String>) -> Self {
        Self::Input(vec![line.into()])
    }

    /// Prints a line on standard error: an answer that is no error, but ends the command with exit status 1.
    pub fn reported(line: &str) -> Self {
        say(line);
        Self::Reported
    }

    /// Prints the error and its causes on standard error.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Input(lines) => {
                lines.iter().for_each(|line| say(&format!("error: {line}")));
                ExitCode::from(2)
            }
            Self::Failed(error) => {
                say(&format!("error: {error}"));
                causes(error.as_ref()).for_each(|cause| say(&format!("  because: {cause}")));
                ExitCode::FAILURE
            }
            Self::Reported => ExitCode::FAILURE,
        }
    }
}

/// The causes of an error, the nearest first, without the error itself.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(error.source(), |&cause| cause.source())
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}
