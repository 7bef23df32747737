use clap::Args;
use serde_json::json;

use super::{report::Report, secret::VapidSecret, standing::Standing};
use crate::{failure::Failure, stack::OnStack};

/// Shows a stack's VAPID keys, and how many stored subscriptions use each
///
/// ACTIVE subscriptions are sent to; FLAGGED are those of them that a push service has answered with 404; OFF are gone, or in
/// quarantine. Those that name no key count for the default. The command reads the whole table of subscriptions, in pages: a million of
/// them, about 500 MB, are 63,000 read units, a cent on demand and a few minutes; of a table with provisioned capacity it
/// uses all. Exit status 1 means that active subscriptions name a key that the stack does not have.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid status
  redial vapid status --stack redial --json | jq -r '.keys[] | select(.current) | .public_key'")]
pub(crate) struct Status {
    #[command(flatten)]
    on: OnStack,
}

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let keys = VapidSecret::of(&target).await?.keys().await?;
        let standing = Standing::read(&target, false).await?;
        let report = Report::of(&keys, &standing);
        self.on.print(|| json!({"keys": report.json()}), || report.lines())?;
        if report.stranded() > 0 {
            return Err(Failure::reported(&format!(
                "{} active subscriptions name a key that the stack does not have: restore it in the secret, or have those \
                 browsers subscribe again",
                report.stranded()
            )));
        }
        Ok(())
    }
}
