//! The command line: the list of its subcommands.
//!
//! Results go to standard output, progress and errors to standard error.

mod published;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "local")]
use crate::local;
use crate::{
    api_keys, audience, breakers, cost, dead_letters, doctor, hash_key, limits, policy, send, status,
    subscriptions, tail, vapid, webhooks,
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
    Schema(published::Schema),
    Openapi(published::Openapi),
    Completions(published::Completions),
}

impl Cli {
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
            Command::Completions(command) => command.run(Self::command()),
        };
        done.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
    }
}
