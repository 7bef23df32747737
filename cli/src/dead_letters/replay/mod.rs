mod checkpoint;
mod resend;
mod run;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use redial_adapters::system::System;
use redial_core::{rate::Rate, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{matching::count, tally::counts, which::Which};
use crate::{
    checkpoint::{Identity, Resumable as _, path, resume_hint},
    failure::Failure,
    interrupt::interrupted,
    send::queue::Queue,
    stack::{OnStack, Target},
    terminal::{bar, say},
};
use checkpoint::Checkpoint;
use resend::{Permissions, Skip};
use run::{Ended, Plan, Preview, Queues, preview, replay};

/// Sends failed messages again, each once
///
/// A message is sent as it is stored, under its own id, as if it had never been tried; its TTL still counts from when it was
/// first sent. Sending the same dead letter twice delivers it once. Those that cannot be sent are counted, with the reason.
/// Ctrl-C stops after the current batch, and the same command continues from there.
///
/// A message is sent on its original lane. Dead letters of earlier releases, and of poison messages, do not name one: of those,
/// campaigns are sent on the bulk lane, all others on the transactional one. Exit status 1 means that some could not be sent, or
/// that the replay was interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters replay --tenant acme --reason retries_exhausted --dry-run
  redial dead-letters replay --tenant acme --reason retries_exhausted --rate 20/s
  redial dead-letters replay --id order-17 --tenant acme --refresh-ttl")]
pub(crate) struct Replay {
    #[command(flatten)]
    which: Which,
    /// Every dead letter of the last 14 days
    #[arg(long)]
    all: bool,
    /// Only count what would be sent and what would not
    #[arg(long)]
    dry_run: bool,
    /// The most messages a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(long, default_value = "50/s", value_parser = Rate::parse)]
    rate: Rate,
    /// Restart each message's TTL, also if it is over and the body, absent from then on, is still stored: usually until the
    /// next hourly sweep
    #[arg(long)]
    refresh_ttl: bool,
    /// Also send those that were replayed before; the ledger drops those that arrived
    #[arg(long)]
    again: bool,
    /// File with the progress [default: one in the user's state directory, named after stack and options]
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    on: OnStack,
}

impl Replay {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.which.require_selection(self.all)?;
        let now = System.now();
        let filter = self.which.filter(now, now)?;
        let target = self.on.target().await?;
        let store = target.dead_letters();
        let may = Permissions { refresh_ttl: self.refresh_ttl, again: self.again };
        let mut plan = Plan { filter, may, rate: self.rate };
        if self.dry_run {
            return self.print_preview(&preview(&store, &plan).await?);
        }
        let identity = self.identity(&target);
        let path = path(self.checkpoint.as_deref(), "replays", &target.name, &identity)?;
        let mut checkpoint = match Checkpoint::read(&path)? {
            Some(checkpoint) => {
                checkpoint.check(&identity, &path)?;
                plan.filter.since = Timestamp::from_ms(checkpoint.since);
                plan.filter.until = Timestamp::from_ms(checkpoint.until);
                say(&resuming(&checkpoint, &path));
                checkpoint
            }
            None => {
                let found = count(&store, &plan.filter).await?;
                let bounds = (plan.filter.since, plan.filter.until);
                let checkpoint = Checkpoint::start(identity, now, bounds, found);
                if checkpoint.found.total() == 0 {
                    say("no dead letters match");
                    return self.print(&checkpoint, &target.name);
                }
                // Before anything is sent, so that a replay that is killed keeps its bounds.
                checkpoint.write(&path)?;
                checkpoint
            }
        };
        let queues = Queues {
            transactional: Queue::new(&target, &target.queues.retry),
            bulk: Queue::new(&target, &target.queues.retry_bulk),
        };
        let bar = bar(checkpoint.found.total(), "sending again");
        bar.set_position(checkpoint.done());
        let done = replay(&store, &queues, &plan, (&mut checkpoint, &path), &bar, interrupted()).await;
        bar.finish_and_clear();
        self.print(&checkpoint, &target.name)?;
        match done.inspect_err(|_| say(&resume_hint("failed", &path)))? {
            Ended::Done => Checkpoint::remove(&path)?,
            Ended::Interrupted => return Err(Failure::reported(&resume_hint("interrupted", &path))),
            Ended::Refused => {
                let words =
                    "SQS refused a whole batch, so the rest was not tried; run the same command to continue";
                return Err(Failure::reported(words));
            }
        }
        if checkpoint.refused == 0 {
            return Ok(());
        }
        Err(Failure::reported("run the same command to retry those that were not sent, and only those"))
    }

    fn identity(&self, target: &Target) -> Identity {
        let mut options = self.which.options();
        let flags = [(self.all, "--all"), (self.refresh_ttl, "--refresh-ttl"), (self.again, "--again")];
        options.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.to_owned()));
        Identity { stack: target.queues.retry.clone(), options: options.join(" ") }
    }

    fn print_preview(&self, preview: &Preview) -> Result<(), Failure> {
        if preview.found.total() == 0 && !self.on.json {
            say("no dead letters match");
            return Ok(());
        }
        let skipped =
            preview.skipped.iter().map(|(skip, number)| format!("{number} skipped: {}", skip.words()));
        let lines = || counts(&preview.found, Some(&preview.ready)).into_iter().chain(skipped).collect();
        self.on.print(|| preview_json(preview), lines)
    }

    fn print(&self, checkpoint: &Checkpoint, stack: &str) -> Result<(), Failure> {
        self.on.print(|| summary_json(checkpoint), || summary(checkpoint, stack))
    }
}

fn resuming(checkpoint: &Checkpoint, path: &Path) -> String {
    format!(
        "continuing the replay that began {}, after {} of {} dead letters (to start over, remove {})",
        Timestamp::from_ms(checkpoint.begun).to_rfc3339_seconds(),
        checkpoint.done(),
        checkpoint.found.total(),
        path.display()
    )
}

fn preview_json(preview: &Preview) -> Value {
    let skipped: BTreeMap<&str, u64> =
        preview.skipped.iter().map(|(skip, number)| (skip.label(), *number)).collect();
    json!({
        "dry_run": true,
        "letters": preview.found.total(),
        "to_be_sent": preview.ready.total(),
        "skipped": skipped,
        "letters_by_tenant": preview.found.to_json(),
        "to_be_sent_by_tenant": preview.ready.to_json(),
    })
}

fn summary_json(checkpoint: &Checkpoint) -> Value {
    json!({
        "letters": checkpoint.found.total(),
        "sent": checkpoint.sent,
        "not_sent": checkpoint.refused,
        "skipped": checkpoint.skipped,
        "letters_by_tenant": checkpoint.found.to_json(),
    })
}

fn summary(checkpoint: &Checkpoint, stack: &str) -> Vec<String> {
    let total = checkpoint.found.total();
    let mut first = format!("{} of {total} dead letters sent again to {stack}", checkpoint.sent);
    if checkpoint.refused > 0 {
        first.push_str(&format!(", {} refused", checkpoint.refused));
    }
    let left = total.saturating_sub(checkpoint.done());
    if left > 0 {
        first.push_str(&format!(", {left} not tried"));
    }
    let skipped = Skip::ALL.into_iter().filter_map(|skip| {
        let number = checkpoint.skipped.get(skip.label())?;
        Some(format!("{number} skipped: {}", skip.words()))
    });
    std::iter::once(first).chain(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(options: &str) -> Identity {
        Identity { stack: "https://q.example/retry".to_owned(), options: options.to_owned() }
    }

    fn checkpoint() -> Checkpoint {
        let found = serde_json::from_str(r#"{"acme":{"retries_exhausted":12}}"#).expect("a tally");
        let bounds = (Timestamp::from_secs(1), Timestamp::from_secs(2));
        Checkpoint::start(identity("--tenant acme"), Timestamp::from_secs(3), bounds, found)
    }

    #[test]
    fn the_summary_accounts_for_every_dead_letter() {
        let mut half = checkpoint();
        half.sent = 5;
        half.refused = 1;
        half.skipped = BTreeMap::from([(Skip::Absent.label().to_owned(), 4)]);
        assert_eq!(
            summary(&half, "redial"),
            [
                "5 of 12 dead letters sent again to redial, 1 refused, 2 not tried",
                "4 skipped: the body is not kept any more",
            ]
        );
        assert!(resuming(&half, Path::new("a.json")).contains("after 10 of 12 dead letters"));
        assert_eq!(summary_json(&half)["skipped"], json!({"body_absent": 4}));
    }
}
