//! `redial`: reads the command line and runs the command. Everything else is in the library.

use std::process::ExitCode;

use redial::commands::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::read(std::env::args_os()) {
        Ok(cli) => cli.run().await,
        Err(code) => code,
    }
}
