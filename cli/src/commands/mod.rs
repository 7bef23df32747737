//! The subcommands: one file each, none with more in it than arguments and output.
//!
//! Results go to standard output, progress and errors to standard error. The exit status is 0, or 1 with the error's
//! chain on one line; clap answers bad arguments with 2.

pub mod local;

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// Redial delivers web push from your own AWS account; this is its command line.
#[derive(Debug, Parser)]
#[command(name = "redial", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole of it on this machine, without an AWS account
    #[command(subcommand)]
    Local(local::Local),
}

impl Cli {
    /// Runs the command.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Local(command) => command.run().await,
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("error: {error}"));
                let mut cause = error.source();
                while let Some(error) = cause {
                    say(&format!("  because: {error}"));
                    cause = error.source();
                }
                ExitCode::FAILURE
            }
        }
    }
}

/// A line of progress, or of an error. A closed standard error is nobody's loss.
fn say(line: &str) {
    let _closed = writeln!(io::stderr(), "{line}");
}

/// A line of the result. A reader that has seen enough and left, as `head` does, is no error.
fn print(line: &str) -> Result<(), Box<dyn Error>> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
