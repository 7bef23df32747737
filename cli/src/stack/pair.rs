//! The two stacks of a command that goes from one to the other.

use clap::Args;

use super::{Target, TargetArgs};
use crate::{arguments, failure::Failure};

/// What a name of a stack on this machine begins with.
const LOCAL: &str = "local:";

#[derive(Debug, Args)]
#[command(next_help_heading = "Which stacks")]
pub(crate) struct Pair {
    /// The stack to begin with: its name in CloudFormation, or local:NAME for one on this machine
    #[arg(long, value_name = "STACK")]
    pub(crate) from: String,
    /// Region of --from [default: AWS_REGION, or the profile's]
    #[arg(long, value_name = "REGION", value_parser = arguments::region)]
    from_region: Option<String>,
    /// Profile of the AWS configuration for --from [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME")]
    from_profile: Option<String>,
    /// The stack to end with
    #[arg(long, value_name = "STACK")]
    pub(crate) to: String,
    /// Region of --to
    #[arg(long, value_name = "REGION", value_parser = arguments::region)]
    to_region: Option<String>,
    /// Profile of the AWS configuration for --to
    #[arg(long, value_name = "NAME")]
    to_profile: Option<String>,
    /// Folder that local stacks keep their state in [env: REDIAL_STATE_DIR] [default: target/redial/stacks of the checkout; of a release, redial/stacks in the user's cache]
    #[cfg(feature = "local")]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<std::path::PathBuf>,
}

impl Pair {
    pub(crate) async fn source(&self) -> Result<Target, Failure> {
        self.find(&self.from, self.from_region.as_deref(), self.from_profile.as_deref()).await
    }

    pub(crate) async fn destination(&self) -> Result<Target, Failure> {
        self.find(&self.to, self.to_region.as_deref(), self.to_profile.as_deref()).await
    }

    /// Both, which must not be the same.
    pub(crate) async fn both(&self) -> Result<(Target, Target), Failure> {
        let (from, to) = (self.source().await?, self.destination().await?);
        if from.queues.retry == to.queues.retry {
            return Err(Failure::input("--to: expected another stack than --from, found the same"));
        }
        Ok((from, to))
    }

    /// The options that name the stack to end with, and those for the other, exchanged.
    pub(crate) fn reversed(&self) -> String {
        let region = |option: &str, region: &Option<String>| {
            region.as_ref().map(|region| format!(" --{option}-region {region}")).unwrap_or_default()
        };
        let (from, to) = (region("from", &self.to_region), region("to", &self.from_region));
        format!("--from {}{from} --to {}{to}", self.to, self.from)
    }

    async fn find(&self, name: &str, region: Option<&str>, profile: Option<&str>) -> Result<Target, Failure> {
        let mut args = TargetArgs::none();
        (args.region, args.profile) = (region.map(str::to_owned), profile.map(str::to_owned));
        match name.strip_prefix(LOCAL) {
            None => args.stack = Some(name.to_owned()),
            #[cfg(feature = "local")]
            Some(local) => (args.local, args.state_dir) = (Some(local.to_owned()), self.state_dir.clone()),
            #[cfg(not(feature = "local"))]
            Some(_) => return Err(Failure::input("local stacks: this redial was built without them")),
        }
        args.resolve().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_names_both_stacks_and_their_regions() {
        let region = |region: &str| Some(region.to_owned());
        let pair = Pair {
            from: "redial".to_owned(),
            from_region: region("eu-central-1"),
            from_profile: None,
            to: "redial".to_owned(),
            to_region: region("eu-west-1"),
            to_profile: None,
            #[cfg(feature = "local")]
            state_dir: None,
        };
        let back = "--from redial --from-region eu-west-1 --to redial --to-region eu-central-1";
        assert_eq!(pair.reversed(), back);
    }
}
