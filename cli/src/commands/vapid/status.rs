//! `redial vapid status`.

use clap::Args;
use serde_json::json;

use super::report::Report;
use crate::{
    failure::Failure,
    rotation::{standing::Standing, vapid::VapidSecret},
    target::TargetArgs,
    terminal::{print, say},
};

/// Shows a stack's VAPID keys, and how many stored subscriptions stand on each
///
/// ACTIVE ones are sent to; FLAGGED are those of them that a push service has answered 404 for; OFF are gone, or in
/// quarantine. Those that name no key count for the default one. It reads the whole table of subscriptions, in pages: a million
/// of them, about 500 MB, are 63,000 read units, a cent on demand and a few minutes; of a table with provisioned capacity it
/// takes all that there is. Exit status 1 says that active ones name a key that is not there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid status
  redial vapid status --stack redial --json | jq -r '.keys[] | select(.current) | .public_key'")]
pub(crate) struct Status {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Status {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let target = self.target.resolve().await?;
        let keys = VapidSecret::of(&target).await?.keys().await?;
        let standing = Standing::read(&target, false).await?;
        let report = Report::of(&keys, &standing);
        if self.json {
            print(&json!({"keys": report.json()}).to_string())?;
        } else {
            report.lines().iter().try_for_each(|line| print(line))?;
        }
        if report.stranded() > 0 {
            say(&format!(
                "{} active subscriptions name a key that is not there: put it back into the secret, or have those browsers \
                 subscribe anew",
                report.stranded()
            ));
            return Err(Failure::Reported);
        }
        Ok(())
    }
}
