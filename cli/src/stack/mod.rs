//! The stack that a command works on: one deployed to AWS, or one on this machine.
//!
//! `--stack NAME` reads the outputs of a CloudFormation stack, in the account and region of the AWS SDK's usual environment.
//! `--local NAME` takes a local stack. Without either it is the one local stack that is up: if there is none, or more than
//! one, nothing is guessed.

mod aws;
mod function;
#[cfg(feature = "local")]
mod on_this_machine;
mod target;

use clap::Args;
use serde_json::Value;

use crate::{
    failure::Failure,
    terminal::{print, print_lines},
};
#[cfg(test)]
pub(crate) use function::tests::configuration;
pub(crate) use function::{Configuration, timeout, variable};
pub(crate) use target::{Target, TargetError};

#[derive(Debug, Args)]
#[command(next_help_heading = "Which stack")]
pub(crate) struct TargetArgs {
    /// A stack deployed to AWS, by its name in CloudFormation
    #[arg(long, value_name = "NAME")]
    #[cfg_attr(feature = "local", arg(conflicts_with_all = ["local", "state_dir"]))]
    stack: Option<String>,
    /// A stack on this machine, by its name [default: the one that is up]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    local: Option<String>,
    /// Region of --stack [default: AWS_REGION, or the profile's]
    #[arg(long, value_name = "REGION", requires = "stack")]
    region: Option<String>,
    /// Profile of the AWS configuration for --stack [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME", requires = "stack")]
    profile: Option<String>,
    /// Folder that local stacks keep their state in [default: target/redial/stacks]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<std::path::PathBuf>,
}

impl TargetArgs {
    pub(crate) async fn resolve(&self) -> Result<Target, Failure> {
        self.find().await.map_err(|error| {
            if error.is_input() { Failure::input(error.to_string()) } else { Failure::from(error) }
        })
    }

    async fn find(&self) -> Result<Target, TargetError> {
    /// The same for a stack that was found before; the error is in words.
    pub(crate) async fn found(&self) -> Result<Target, String> {
        self.find().await.map_err(|error| error.to_string())
    }

        if let Some(name) = &self.stack {
            return aws::deployed(name, self.region.as_deref(), self.profile.as_deref()).await;
        }
        #[cfg(feature = "local")]
        return on_this_machine::find(
            self.state_dir.as_deref(),
            self.local.as_deref().filter(|name| !name.is_empty()),
        )
        .await;
        #[cfg(not(feature = "local"))]
        Err(TargetError::NotNamed)
    }
}

/// A command's stack, and the form of its result.
#[derive(Debug, Args)]
pub(crate) struct OnStack {
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl OnStack {
    pub(crate) async fn target(&self) -> Result<Target, Failure> {
        self.target.resolve().await
    }

    /// Prints a result: with `--json` as one line of JSON, else as lines.
    pub(crate) fn print<L: AsRef<str>>(
        &self,
        json: impl FnOnce() -> Value,
        lines: impl FnOnce() -> Vec<L>,
    ) -> Result<(), Failure> {
        if self.json {
            print(&json().to_string())?
        } else {
            print_lines(lines())?
        }
        Ok(())
    }
}
