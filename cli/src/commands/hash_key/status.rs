//! `redial hash-key status`.

use clap::Args;
use redial_core::time::Timestamp;
use serde_json::json;

use super::{keys_json, lines};
use crate::{
    failure::Failure,
    rotation::{hash_document::Step, hashes::HashSecret},
    target::TargetArgs,
    terminal::{print, say},
};

/// Shows the ids of the keys that endpoints are hashed with, and from when on former ones may be retired
///
/// Exit status 1 says that a rotation was begun and not ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key status
  redial hash-key status --json | jq -r '.keys[] | select(.role == \"current\") | .id'")]
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
        let secret = HashSecret::of(&target).await?;
        let (document, changed_at) = (secret.document().await?, secret.changed_at().await?);
        let changed_at = changed_at.map(Timestamp::to_rfc3339_seconds);
        let is_settled = document.step() == Step::Settled;
        if self.json {
            let line = json!({"keys": keys_json(&document), "changed_at": changed_at, "settled": is_settled});
            print(&line.to_string())?;
        } else {
            lines(&document).iter().try_for_each(|line| print(line))?;
            if let Some(changed_at) = changed_at {
                say(&format!("the secret was last changed at {changed_at}"));
            }
        }
        if is_settled { Ok(()) } else { Err(Failure::Reported) }
    }
}
