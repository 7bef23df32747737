//! Documents that the command line prints about itself: the schema of messages, the description of the HTTP API, and scripts
//! for shells.

use clap::Args;
use clap_complete::Shell;
use redial_core::message::SCHEMA;
use redial_engine::http_api;

use crate::{failure::Failure, terminal::print_as_it_is};

/// Prints the JSON Schema of a message
///
/// It is JSON Schema 2020-12, for editors, which complete and check messages by it, and for producers, which can validate before they
/// send. It accepts what `redial send` accepts, except for what no schema can express, such as a date that does not exist.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial schema > message.v1.json
  redial schema | jq '.properties | keys'")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        Ok(print_as_it_is(SCHEMA.as_bytes())?)
    }
}

/// Prints the description of the HTTP API
///
/// It is OpenAPI 3.1 with the schema of messages inside, to generate clients from and to read. The URL of a stack's own API is its
/// output ApiUrl.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial openapi > redial.openapi.json
  redial openapi | jq '.paths | keys'")]
pub(crate) struct Openapi {}

impl Openapi {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        Ok(print_as_it_is(http_api::openapi().as_bytes())?)
    }
}

/// Prints a script that completes redial's commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial completions bash > ~/.local/share/bash-completion/completions/redial
  redial completions zsh > \"${fpath[1]}/_redial\"
  redial completions fish > ~/.config/fish/completions/redial.fish")]
pub(crate) struct Completions {
    /// The shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// `redial` is the definition of the whole command line.
    pub(crate) fn run(&self, mut redial: clap::Command) -> Result<(), Failure> {
        Ok(print_as_it_is(&script(self.shell, &mut redial))?)
    }
}

fn script(shell: Shell, redial: &mut clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, redial, "redial", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::commands::Cli;

    #[test]
    fn the_script_of_every_shell_completes_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell, &mut Cli::command())).expect("text");
            assert!(script.contains("subscriptions") && script.contains("vapid"), "{shell}");
        }
    }
}
