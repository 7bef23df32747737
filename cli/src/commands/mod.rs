//! The command line: the list of its subcommands.
//!
//! Results go to standard output, progress and errors to standard error.

mod refusal;

use std::{env, ffi::OsString, process::ExitCode};

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, builder::Resettable};
use clap_complete::Shell;
use redial_core::message::SCHEMA;
use redial_engine::http_api;

#[cfg(feature = "local")]
use crate::local;
use crate::{
    api_keys, audience, aws_error, breakers, callbacks, cancel, console, cost, dead_letters, doctor,
    failover, failure::Failure, hash_key, limits, policy, replica, send, status, subscriptions, tail,
    tenants, terminal::print_as_it_is, tone, vapid, verify, webhooks,
};

/// Redial delivers web push and webhooks from your own AWS account; this is its command line.
///
/// Commands that need a stack use the local one that is up, unless --stack names one that is deployed to AWS.
#[derive(Debug, Parser)]
#[command(
    name = "redial",
    version,
    after_help = "\
Examples:
  redial demo
  redial local up
  redial subscriptions put --tenant acme --id s1 subscription.json
  redial send message.json
  redial status order-17 --tenant acme --wait 60

Exit status: 0 done, 1 failed or not found, 2 invalid input, nothing was done."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "local")]
    Demo(local::commands::Demo),
    /// Runs the whole stack on this machine, without an AWS account
    #[cfg(feature = "local")]
    #[command(subcommand)]
    Local(local::commands::Local),
    Send(send::Send),
    Status(status::Status),
    Cancel(cancel::Cancel),
    #[command(subcommand, name = "audience")]
    Audiences(audience::Audiences),
    Tail(tail::Tail),
    Console(console::Console),
    Doctor(doctor::Doctor),
    Verify(verify::Verify),
    #[command(subcommand)]
    Subscriptions(subscriptions::Subscriptions),
    #[command(subcommand)]
    ApiKeys(api_keys::ApiKeys),
    #[command(subcommand)]
    Policy(policy::Policies),
    #[cfg(feature = "simulate")]
    Simulate(redial_simulator::Simulate),
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    #[command(subcommand)]
    Breakers(breakers::Breakers),
    #[command(subcommand)]
    Limits(limits::Limits),
    #[command(subcommand)]
    Callbacks(callbacks::Callbacks),
    #[command(subcommand)]
    Tenants(tenants::Tenants),
    #[command(subcommand)]
    Webhooks(webhooks::Webhooks),
    #[command(subcommand)]
    Vapid(vapid::Vapid),
    #[command(subcommand)]
    HashKey(hash_key::HashKey),
    #[command(subcommand)]
    Replica(replica::Replica),
    Failover(failover::Failover),
    Cost(cost::Cost),
    /// Prints the JSON Schema of a message
    ///
    /// It is JSON Schema 2020-12, for editors, which complete and check messages by it, and for producers, which can validate before they
    /// send. It accepts what `redial send` accepts, except for what no schema can express, such as a date that does not exist.
    #[command(after_help = "\
Examples:
  redial schema > message.v1.json
  redial schema | jq '.properties | keys'")]
    Schema,
    /// Prints the description of the HTTP API
    ///
    /// It is OpenAPI 3.1 with the schema of messages inside, to generate clients from and to read. The URL of a stack's own API is its
    /// output ApiUrl.
    #[command(after_help = "\
Examples:
  redial openapi > redial.openapi.json
  redial openapi | jq '.paths | keys'")]
    Openapi,
    /// Prints a script that completes redial's commands in a shell
    #[command(after_help = "\
Examples:
  redial completions bash > ~/.local/share/bash-completion/completions/redial
  redial completions zsh > \"${fpath[1]}/_redial\"
  redial completions fish > ~/.config/fish/completions/redial.fish")]
    Completions {
        /// The shell to print the script for
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Cli {
    /// Reads a command line; where there is nothing to run, prints why, or the help that was asked for.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        if arguments.iter().any(|argument| argument == "--json") {
            tone::never();
        }
        let mut command = prepared(Self::command());
        let read = command.try_get_matches_from_mut(&arguments);
        read.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|error| {
            if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                return refusal::failure(&error, &command, &arguments).report();
            }
            // A reader that leaves is no error.
            let _closed = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        })
    }

    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            #[cfg(feature = "local")]
            Command::Demo(command) => command.run().await,
            #[cfg(feature = "local")]
            Command::Local(command) => command.run().await,
            Command::Send(command) => command.run().await,
            Command::Status(command) => command.run().await,
            Command::Cancel(command) => command.run().await,
            Command::Audiences(command) => command.run().await,
            Command::Tail(command) => command.run().await,
            Command::Console(command) => command.run().await,
            Command::Doctor(command) => command.run().await,
            Command::Verify(command) => command.run().await,
            Command::Subscriptions(command) => command.run().await,
            Command::ApiKeys(command) => command.run().await,
            Command::Policy(command) => command.run().await,
            #[cfg(feature = "simulate")]
            Command::Simulate(command) => command.run(),
            Command::DeadLetters(command) => command.run().await,
            Command::Breakers(command) => command.run().await,
            Command::Limits(command) => command.run().await,
            Command::Callbacks(command) => command.run().await,
            Command::Tenants(command) => command.run().await,
            Command::Webhooks(command) => command.run().await,
            Command::Vapid(command) => command.run().await,
            Command::HashKey(command) => command.run().await,
            Command::Replica(command) => command.run().await,
            Command::Failover(command) => command.run().await,
            Command::Cost(command) => command.run(),
            Command::Schema => print_as_it_is(SCHEMA.as_bytes()).map_err(Failure::from),
            Command::Openapi => print_as_it_is(http_api::openapi().as_bytes()).map_err(Failure::from),
            Command::Completions { shell } => print_as_it_is(&completions(shell)).map_err(Failure::from),
        };
        done.map_or_else(|failure| aws_error::in_words(failure).report(), |()| ExitCode::SUCCESS)
    }
}

/// With what clap has no setting for: an empty variable counts as unset, and a negative number after an option is its value, so that an
/// error about it names the option.
fn prepared(command: clap::Command) -> clap::Command {
    let prepare = |argument: Arg| {
        let is_empty = argument.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
        let argument = if is_empty { argument.env(Resettable::Reset) } else { argument };
        let takes_value = argument.get_action().takes_values() && !argument.is_positional();
        if takes_value { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(prepare).mut_subcommands(prepared)
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "redial", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_script_of_every_shell_completes_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completions(*shell)).expect("text");
            assert!(script.contains("subscriptions") && script.contains("vapid"), "{shell}");
        }
    }
}
