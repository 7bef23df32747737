//! `redial`: reads the command line and runs the command. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use redial::commands::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
