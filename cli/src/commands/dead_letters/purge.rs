//! `redial dead-letters purge`.

use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::which::Which;
use crate::{
    agreement,
    dead_letters::{self, Tally, count, counts, purge},
    failure::Failure,
    target::TargetArgs,
    terminal::{bar, print, say},
};

/// Removes dead letters, descriptions and bodies, for good
///
/// It shows how many there are of each tenant and reason, and asks. Letters that come while it asks are not removed. Any
/// answer but yes removes nothing, with exit status 1. Where nobody can be asked, --yes is required, and without it the exit
/// status is 2.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters purge --tenant acme --reason malformed
  redial dead-letters purge --since 7d --until 1d --reason payload_too_large --yes")]
pub(crate) struct Purge {
    #[command(flatten)]
    which: Which,
    /// Every letter of the last 14 days
    #[arg(long)]
    all: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Purge {
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.which.refuse_everything(self.all)?;
        let now = System.now();
        let filter = self.which.filter(now, now)?;
        agreement::can_be_had(self.yes, "remove them")?;
        let target = self.target.resolve().await?;
        let store = dead_letters::store(&target);
        let found = count(&store, &filter).await?;
        if found.total() == 0 {
            say("no dead letter is like that");
            return self.tell(&found);
        }
        counts(&found, None).iter().for_each(|line| say(line));
        let number = letters(found.total());
        let question = format!("Remove {number} from {}, with what bodies there are?", target.name);
        if !agreement::is_given(self.yes, &question)? {
            say("nothing was removed");
            return Err(Failure::Reported);
        }
        let bar = bar(found.total(), "removing");
        let mut removed = Tally::default();
        let done = purge(&store, &filter, &mut removed, &bar).await;
        bar.finish_and_clear();
        self.tell(&removed)?;
        Ok(done?)
    }

    fn tell(&self, removed: &Tally) -> Result<(), Failure> {
        if self.json {
            let line = json!({"removed": removed.total(), "removed_by_tenant": removed.to_json()});
            return Ok(print(&line.to_string())?);
        }
        if removed.total() > 0 {
            print(&format!("{} removed", letters(removed.total())))?;
        }
        Ok(())
    }
}

fn letters(number: u64) -> String {
    if number == 1 { "1 letter".to_owned() } else { format!("{number} letters") }
}
