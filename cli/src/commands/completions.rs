//! `redial completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::{failure::Failure, terminal::print_as_it_is};

/// Prints a script that completes redial's commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial completions bash > ~/.local/share/bash-completion/completions/redial
  redial completions zsh > \"${fpath[1]}/_redial\"
  redial completions fish > ~/.config/fish/completions/redial.fish")]
pub(crate) struct Completions {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "redial", &mut script);
        Ok(print_as_it_is(&script)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_s_script_knows_the_commands() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "redial", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("subscriptions") && script.contains("vapid"), "{shell}");
        }
    }
}
