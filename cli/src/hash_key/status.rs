use clap::Args;
use redial_core::time::Timestamp;
use serde_json::json;

use super::{
    document::Step,
    secret::HashSecret,
    shown::{keys_json, lines},
};
use crate::{failure::Failure, stack::OnStack, terminal::say};

/// Shows the ids of the keys that endpoints are hashed with, and when former ones may be retired
///
/// Exit status 1 means that a rotation is in progress.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key status
  redial hash-key status --json | jq -r '.keys[] | select(.role == \"current\") | .id'")]
pub(crate) struct Status {
    #[command(flatten)]
    on: OnStack,
}

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let secret = HashSecret::of(&target).await?;
        let (document, changed_at) = (secret.document().await?, secret.changed_at().await?);
        let changed_at = changed_at.map(Timestamp::to_rfc3339_seconds);
        let is_settled = document.step() == Step::Settled;
        let json = || json!({"keys": keys_json(&document), "changed_at": changed_at, "settled": is_settled});
        self.on.print(json, || lines(&document))?;
        if let (Some(changed_at), false) = (&changed_at, self.on.json) {
            say(&format!("the secret was last changed at {changed_at}"));
        }
        if is_settled { Ok(()) } else { Err(Failure::Reported) }
    }
}
