//! The subcommands: one file each, none with more in it than arguments and output.
//!
//! Results go to standard output, progress and errors to standard error. The exit status is 0; 1 where something failed or
//! is not there; 2 where what was given cannot be used, and then nothing was done.

mod api_keys;
mod audience;
mod breakers;
mod completions;
mod dead_letters;
mod hash_key;
pub(crate) mod ids;
mod limits;
mod openapi;
mod origin;
mod policy;
mod schema;
mod send;
mod subscriptions;
mod vapid;
mod webhooks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "local")]
use crate::local;
use crate::span;
use crate::{cost, doctor, status, tail};

/// Redial delivers web push and webhooks from your own AWS account; this is its command line.
///
/// Commands that work on a stack take the local one that is up, unless --stack names one that is deployed to AWS.
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

Exit status: 0 done, 1 failed or not there, 2 what was given cannot be used."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What each command is for stands with its arguments.
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
    #[command(subcommand, name = "audience")]
    Audiences(audience::Audiences),
    Tail(tail::Tail),
    Doctor(doctor::Doctor),
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
    Webhooks(webhooks::Webhooks),
    #[command(subcommand)]
    Vapid(vapid::Vapid),
    #[command(subcommand)]
    HashKey(hash_key::HashKey),
    Cost(cost::Cost),
    Schema(schema::Schema),
    Openapi(openapi::Openapi),
    Completions(completions::Completions),
}

impl Cli {
    /// Runs the command.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            #[cfg(feature = "local")]
            Command::Demo(command) => command.run().await,
            #[cfg(feature = "local")]
            Command::Local(command) => command.run().await,
            Command::Send(command) => command.run().await,
            Command::Status(command) => command.run().await,
            Command::Audiences(command) => command.run().await,
            Command::Tail(command) => command.run().await,
            Command::Doctor(command) => command.run().await,
            Command::Subscriptions(command) => command.run().await,
            Command::ApiKeys(command) => command.run().await,
            Command::Policy(command) => command.run().await,
            #[cfg(feature = "simulate")]
            Command::Simulate(command) => command.run(),
            Command::DeadLetters(command) => command.run().await,
            Command::Breakers(command) => command.run().await,
            Command::Limits(command) => command.run().await,
            Command::Webhooks(command) => command.run().await,
            Command::Vapid(command) => command.run().await,
            Command::HashKey(command) => command.run().await,
            Command::Cost(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Openapi(command) => command.run(),
            Command::Completions(command) => command.run(),
        };
        done.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
    }
}
