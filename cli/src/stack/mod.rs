//! The stack that a command works on: one deployed to AWS, or one on this machine.
//!
//! `--stack NAME` reads the outputs of a CloudFormation stack, in the account and region of the AWS SDK's usual environment.
//! `--local NAME` takes a local stack. Without either it is the one that `REDIAL_STACK` names, or else the one local stack that is up: if
//! there is none, or more than one, nothing is guessed. An option wins over a variable, so clap, which takes both for the same, does
//! not read the variables.

mod aws;
mod function;
#[cfg(feature = "local")]
mod on_this_machine;
mod pair;
mod target;

use clap::Args;
use serde_json::Value;

use crate::{
    arguments,
    failure::Failure,
    line::Line,
    terminal::{print, print_lines},
};
#[cfg(test)]
pub(crate) use function::tests::configuration;
pub(crate) use function::{Configuration, egress_allow, lookup, strips_payloads, timeout, variable};
#[cfg(all(test, feature = "local"))]
pub(crate) use on_this_machine::tests::target_at;
pub(crate) use pair::Pair;
pub(crate) use target::{Target, TargetError};

#[derive(Debug, Args)]
#[command(next_help_heading = "Which stack")]
pub(crate) struct TargetArgs {
    /// A stack deployed to AWS, by its name in CloudFormation [env: REDIAL_STACK]
    #[arg(long, value_name = "NAME")]
    #[cfg_attr(feature = "local", arg(conflicts_with_all = ["local", "state_dir"]))]
    stack: Option<String>,
    /// A stack on this machine, by its name [default: the one that is up]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    local: Option<String>,
    /// Region of --stack [default: AWS_REGION, or the profile's]
    #[arg(long, value_name = "REGION", value_parser = arguments::region)]
    region: Option<String>,
    /// Profile of the AWS configuration for --stack [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Folder that local stacks keep their state in [env: REDIAL_STATE_DIR] [default: target/redial/stacks of the checkout; of a release, redial/stacks in the user's cache]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<std::path::PathBuf>,
}

impl TargetArgs {
    /// Without any option.
    fn none() -> Self {
        Self {
            stack: None,
            #[cfg(feature = "local")]
            local: None,
            region: None,
            profile: None,
            #[cfg(feature = "local")]
            state_dir: None,
        }
    }

    pub(crate) async fn resolve(&self) -> Result<Target, Failure> {
        self.find().await.map_err(|error| {
            if error.is_input() { Failure::input(error.to_string()) } else { Failure::from(error) }
        })
    }

    /// The same, and keeps to the stack that was found: while it is down, another local one is not taken for it.
    pub(crate) async fn resolve_and_pin(&mut self) -> Result<Target, Failure> {
        let target = self.resolve().await?;
        #[cfg(feature = "local")]
        self.pin(&target.name, variable_of(STACK));
        Ok(target)
    }

    #[cfg(feature = "local")]
    fn pin(&mut self, name: &str, variable: Option<String>) {
        if self.deployed(variable).is_none() {
            self.local = Some(name.to_owned());
        }
    }

    /// The same for a stack that was found before; the error is in words.
    pub(crate) async fn found(&self) -> Result<Target, String> {
        self.find().await.map_err(|error| error.to_string())
    }

    async fn find(&self) -> Result<Target, TargetError> {
        if let Some(name) = self.deployed(variable_of(STACK)) {
            return aws::deployed(&name, self.region.as_deref(), self.profile.as_deref()).await;
        }
        if let Some(option) = self.only_for_deployed() {
            return Err(TargetError::OnlyDeployed(option));
        }
        #[cfg(feature = "local")]
        {
            let state_dir = self.state_dir.clone().or_else(|| variable_of(STATE_DIR).map(Into::into));
            on_this_machine::find(state_dir.as_deref(), self.local.as_deref().filter(|name| !name.is_empty()))
                .await
        }
        #[cfg(not(feature = "local"))]
        Err(TargetError::NotNamed)
    }
}

/// The variables that stand for options.
const STACK: &str = "REDIAL_STACK";
#[cfg(feature = "local")]
const STATE_DIR: &str = "REDIAL_STATE_DIR";

fn variable_of(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl TargetArgs {
    /// The name of a deployed stack: an option's, or the variable's if no option is about a local one.
    fn deployed(&self, variable: Option<String>) -> Option<String> {
        #[cfg(feature = "local")]
        let is_local = self.local.is_some() || self.state_dir.is_some();
        #[cfg(not(feature = "local"))]
        let is_local = false;
        self.stack.clone().or(variable.filter(|_| !is_local))
    }

    /// An option that was given and means nothing for a local stack.
    fn only_for_deployed(&self) -> Option<&'static str> {
        let given = [("--region", &self.region), ("--profile", &self.profile)];
        given.into_iter().find(|(_, value)| value.is_some()).map(|(option, _)| option)
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

/// What is said after a setting that workers remember has changed.
pub(crate) const WORKERS_FOLLOW: &str = "running workers follow within 30 seconds";

impl OnStack {
    pub(crate) async fn target(&self) -> Result<Target, Failure> {
        self.target.resolve().await
    }

    /// Prints a result: with `--json` as one line of JSON, else as lines.
    pub(crate) fn print<L: Into<Line>>(
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

#[cfg(all(test, feature = "local"))]
mod tests {
    use super::*;

    fn args(stack: Option<&str>, local: Option<&str>, region: Option<&str>) -> TargetArgs {
        let text = |text: Option<&str>| text.map(str::to_owned);
        TargetArgs {
            stack: text(stack),
            local: text(local),
            region: text(region),
            profile: None,
            state_dir: None,
        }
    }

    #[test]
    fn an_option_wins_over_the_variable() {
        let variable = || Some("production".to_owned());
        for (stack, local, deployed) in [
            (None, None, Some("production")),
            (Some("shop"), None, Some("shop")),
            (None, Some("here"), None),
            (None, Some(""), None),
        ] {
            assert_eq!(
                args(stack, local, None).deployed(variable()).as_deref(),
                deployed,
                "{stack:?} {local:?}"
            );
        }
        assert_eq!(args(None, None, None).deployed(None), None);
    }

    #[test]
    fn only_a_local_stack_is_pinned_by_its_name() {
        for (stack, local, variable, pinned) in [
            (None, None, None, Some("here")),
            (None, Some(""), Some("production"), Some("here")),
            (None, None, Some("production"), None),
            (Some("shop"), None, None, None),
        ] {
            let mut args = args(stack, local, None);
            args.pin("here", variable.map(str::to_owned));
            assert_eq!(args.local.as_deref(), pinned, "{stack:?} {local:?} {variable:?}");
        }
    }

    #[test]
    fn a_region_is_only_for_a_deployed_stack() {
        assert_eq!(args(None, None, Some("eu-central-1")).only_for_deployed(), Some("--region"));
        assert_eq!(args(None, None, None).only_for_deployed(), None);
    }
}
