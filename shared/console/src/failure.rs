//! How a command ends that does not end well, and the exit status that says so.
//!
//! | status | meaning |
//! |---|---|
//! | 1 | something failed, or what was asked for is not there |
//! | 2 | what was given cannot be used, and nothing was done |

use std::{error::Error, process::ExitCode};

use crate::terminal::say;

#[derive(Debug)]
pub enum Failure {
    /// What was given cannot be used: one line for everything that is wrong with it.
    Input(Vec<String>),
    Failed(Box<dyn Error>),
    /// The command has told it all itself.
    Told,
}

impl Failure {
    /// A single thing that is wrong with what was given.
    pub fn input(line: impl Into<String>) -> Self {
        Self::Input(vec![line.into()])
    }

    /// Tells it on standard error, causes and all, and gives the exit status.
    pub fn tell(&self) -> ExitCode {
        match self {
            Self::Input(lines) => {
                for line in lines {
                    say(&format!("error: {line}"));
                }
                ExitCode::from(2)
            }
            Self::Failed(error) => {
                say(&format!("error: {error}"));
                let mut cause = error.source();
                while let Some(error) = cause {
                    say(&format!("  because: {error}"));
                    cause = error.source();
                }
                ExitCode::FAILURE
            }
            Self::Told => ExitCode::FAILURE,
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}
