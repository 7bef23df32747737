mod resend;
mod run;

use std::path::PathBuf;

use clap::Args;
use redial_adapters::system::System;
use redial_core::{rate::Rate, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{matching::count, which::Which};
use crate::{
    checkpoint::{Checkpoint, Identity, Progress as _, path},
    failure::Failure,
    line::Line,
    resumable::{self, remainder},
    stack::{OnStack, Target},
    terminal::say,
};
use resend::{Permissions, words};
use run::{Preview, Replayed, Replaying, preview};

/// Sends failed messages again, each once
///
/// A message is sent as it is stored, under its own id, as if it had never been tried; its TTL still counts from when it was
/// first sent. Sending the same dead letter twice delivers it once. Those that cannot be sent are counted, with the reason.
/// Ctrl-C stops after the current batch, and the same command continues from there.
///
/// A message is sent on its original lane. Dead letters of earlier releases, and of poison messages, do not name one: of those,
/// campaigns are sent on the bulk lane, all others on the transactional one. Exit status 1 means that some could not be sent, or
/// not be marked as sent again, or that the replay was interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters replay --tenant acme --reason retries_exhausted \\
    --dry-run
  redial dead-letters replay --tenant acme --reason retries_exhausted \\
    --rate 20/s
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
        let mut filter = self.which.filter(now, now)?;
        let target = self.on.target().await?;
        let store = target.dead_letters();
        let may = Permissions { refresh_ttl: self.refresh_ttl, again: self.again };
        if self.dry_run {
            return self.print_preview(&preview(&store, &filter, may).await?);
        }
        let identity = self.identity(&target);
        let path = path::<Replayed>(self.checkpoint.as_deref(), &target.name, &identity)?;
        let mut checkpoint = match Checkpoint::<Replayed>::resume(&path, &identity)? {
            Some(checkpoint) => {
                (filter.since, filter.until) = (checkpoint.progress.since, checkpoint.progress.until);
                checkpoint
            }
            None => {
                let progress = Replayed::none_of(count(&store, &filter).await?, &filter);
                if progress.total() == 0 {
                    say("no dead letters match");
                    return self.print(&progress, &target.name);
                }
                // Before anything is sent, so that a replay that is killed keeps its bounds.
                let checkpoint = Checkpoint::begin(&path, &identity, now, progress);
                checkpoint.write()?;
                checkpoint
            }
        };
        let work = Replaying::new(&store, &target, &filter, may, &checkpoint.progress).await?;
        let print = |progress: &Replayed| self.print(progress, &target.name);
        resumable::run(work, &mut checkpoint, self.rate, print).await?;
        let progress = &checkpoint.progress;
        if progress.unmarked > 0 {
            say(&format!(
                "{} of those that were sent could not be marked as sent again: another replay sends them once more, and the ledger \
                 drops those that arrived",
                progress.unmarked
            ));
        }
        match (progress.refused, progress.unmarked) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::Reported),
            _ => Err(Failure::reported(&self.retry(progress))),
        }
    }

    /// How to retry what SQS refused: of the same times, because relative ones are others by then.
    fn retry(&self, progress: &Replayed) -> String {
        let [since, until] = [progress.since, progress.until].map(Timestamp::to_rfc3339);
        let instead = if self.all { ", without --all" } else { "" };
        let only = if self.again { "; --again sends the others once more, too" } else { ", and only those" };
        format!(
            "run the same command with --since {since} --until {until}{instead} to retry those that were not sent{only}"
        )
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
            preview.skipped.iter().map(|(skip, number)| format!("{number} skipped: {}", words(*skip)));
        let lines =
            || preview.found.lines(Some(&preview.ready)).into_iter().chain(skipped.map(Line::from)).collect();
        let json = || {
            json!({
                "dry_run": true,
                "letters": preview.found.total(),
                "to_be_sent": preview.ready.total(),
                "skipped": preview.skipped,
                "letters_by_tenant": preview.found,
                "to_be_sent_by_tenant": preview.ready,
            })
        };
        self.on.print(json, lines)
    }

    fn print(&self, progress: &Replayed, stack: &str) -> Result<(), Failure> {
        self.on.print(|| summary_json(progress), || summary(progress, stack))
    }
}

fn summary_json(progress: &Replayed) -> Value {
    json!({
        "letters": progress.total(),
        "sent": progress.sent,
        "not_sent": progress.refused,
        "skipped": progress.skipped,
        "unmarked": progress.unmarked,
        "letters_by_tenant": progress.found,
    })
}

fn summary(progress: &Replayed, stack: &str) -> Vec<String> {
    let (sent, total) = (progress.sent, progress.total());
    let rest = remainder(progress.refused, total.saturating_sub(progress.done()));
    let first = format!("{sent} of {total} dead letters sent again to {stack}{rest}");
    let skipped = progress.skipped.iter().map(|(skip, number)| format!("{number} skipped: {}", words(*skip)));
    std::iter::once(first).chain(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_accounts_for_every_dead_letter() {
        let half: Replayed = serde_json::from_value(json!({
            "since": 1, "until": 2, "found": {"acme": {"retries_exhausted": 12}}, "after": null,
            "sent": 5, "refused": 1, "skipped": {"body_absent": 4},
        }))
        .expect("valid");
        assert_eq!(
            summary(&half, "redial"),
            [
                "5 of 12 dead letters sent again to redial, 1 refused, 2 not tried",
                "4 skipped: the body is not kept any more",
            ]
        );
        assert_eq!(summary_json(&half)["skipped"], json!({"body_absent": 4}));
        assert_eq!(half.done(), 10);
    }
}
