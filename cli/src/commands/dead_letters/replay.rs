//! `redial dead-letters replay`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use redial_adapters::system::System;
use redial_core::{rate::Rate, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::which::Which;
use crate::{
    checkpoint::{Identity, Resumable as _, default_path, goes_on},
    dead_letters::{
        self, Checkpoint, Ended, Outcome, Permissions, Plan, Queues, Skip, count, counts, preview, replay,
    },
    failure::Failure,
    interrupt::interrupted,
    send::Queue,
    target::{Target, TargetArgs},
    terminal::{bar, print, say},
};

/// Sends messages again that were given up, each once
///
/// A message goes out as it is stored, under its own id, as if it had never been tried; its TTL goes on counting from when
/// it was first sent. Sending the same letter twice delivers it once. Those that cannot be sent are counted, with the reason.
/// Ctrl-C ends it after the batch under way, and the same command goes on from there.
///
/// A message goes out on the lane that it came by. Letters of earlier releases, and poison messages, do not say which: of
/// those, campaigns go out on the bulk lane, all else on the transactional one. Exit status 1 says that something could not
/// be sent, or that it was interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters replay --tenant acme --reason retries_exhausted --dry-run
  redial dead-letters replay --tenant acme --reason retries_exhausted --rate 20/s
  redial dead-letters replay --id order-17 --tenant acme --refresh-ttl")]
pub(crate) struct Replay {
    #[command(flatten)]
    which: Which,
    /// Every letter of the last 14 days
    #[arg(long)]
    all: bool,
    /// Only count what would be sent and what would not
    #[arg(long)]
    dry_run: bool,
    /// At most so many a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(long, default_value = "50/s", value_parser = Rate::parse)]
    rate: Rate,
    /// Let each message's TTL begin anew, also where it is over already and the body, which counts as absent from then on, still
    /// lies in the store: until the next hourly sweep, as a rule
    #[arg(long)]
    refresh_ttl: bool,
    /// Send also what was sent again before; what has arrived is dropped
    #[arg(long)]
    again: bool,
    /// File that says where it stands [default: one in the user's state directory, named after stack and options]
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Replay {
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.which.refuse_everything(self.all)?;
        let now = System.now();
        let filter = self.which.filter(now, now)?;
        let target = self.target.resolve().await?;
        let store = dead_letters::store(&target);
        let may = Permissions { refresh_ttl: self.refresh_ttl, again: self.again };
        let mut plan = Plan { filter, may, rate: self.rate };
        if self.dry_run {
            return self.tell_preview(&preview(&store, &plan).await?);
        }
        let identity = self.identity(&target);
        let path = self.checkpoint_path(&target, &identity)?;
        let mut checkpoint = match Checkpoint::read(&path)? {
            Some(checkpoint) => {
                checkpoint.is_of(&identity, &path)?;
                plan.filter.since = Timestamp::from_ms(checkpoint.since);
                plan.filter.until = Timestamp::from_ms(checkpoint.until);
                say(&going_on(&checkpoint, &path));
                checkpoint
            }
            None => {
                let found = count(&store, &plan.filter).await?;
                let bounds = (plan.filter.since, plan.filter.until);
                let checkpoint = Checkpoint::start(identity, now, bounds, found);
                if checkpoint.found.total() == 0 {
                    say("no dead letter is like that");
                    return self.tell(&checkpoint, &target.name);
                }
                // Before anything is sent: what cannot be noted is not begun, and what is killed keeps its bounds.
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
        self.tell(&checkpoint, &target.name)?;
        let done = done.inspect_err(|_| say(&goes_on("something failed", &path)))?;
        match done {
            Ended::Done => Checkpoint::remove(&path)?,
            Ended::Interrupted => {
                say(&goes_on("interrupted", &path));
                return Err(Failure::Reported);
            }
            Ended::NothingGetsThrough => {
                say(
                    "the queue took nothing of a whole batch: the rest is not tried. The same command goes on here",
                );
                return Err(Failure::Reported);
            }
        }
        if checkpoint.refused == 0 {
            return Ok(());
        }
        say("the same command tries those again that were not sent, and only those");
        Err(Failure::Reported)
    }

    fn identity(&self, target: &Target) -> Identity {
        let mut options = self.which.options();
        let flags = [(self.all, "--all"), (self.refresh_ttl, "--refresh-ttl"), (self.again, "--again")];
        options.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.to_owned()));
        Identity { stack: target.queues.retry.clone(), options: options.join(" ") }
    }

    fn checkpoint_path(&self, target: &Target, identity: &Identity) -> Result<PathBuf, Failure> {
        match &self.checkpoint {
            Some(given) => Ok(given.clone()),
            None => default_path("replays", &target.name, identity),
        }
    }

    fn tell_preview(&self, outcome: &Outcome) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&preview_json(outcome).to_string())?);
        }
        if outcome.letters.total() == 0 {
            say("no dead letter is like that");
            return Ok(());
        }
        counts(&outcome.letters, Some(&outcome.ready)).iter().try_for_each(|line| print(line))?;
        for (skip, number) in &outcome.skipped {
            print(&format!("{number} skipped: {}", skip.words()))?;
        }
        Ok(())
    }

    fn tell(&self, checkpoint: &Checkpoint, stack: &str) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&summary_json(checkpoint).to_string())?);
        }
        summary(checkpoint, stack).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn going_on(checkpoint: &Checkpoint, path: &Path) -> String {
    format!(
        "goes on with the replay that began {}, after {} of {} letters (to begin anew, remove {})",
        Timestamp::from_ms(checkpoint.begun).to_rfc3339_seconds(),
        checkpoint.done(),
        checkpoint.found.total(),
        path.display()
    )
}

fn preview_json(outcome: &Outcome) -> Value {
    let skipped: BTreeMap<&str, u64> =
        outcome.skipped.iter().map(|(skip, number)| (skip.label(), *number)).collect();
    json!({
        "dry_run": true,
        "letters": outcome.letters.total(),
        "to_be_sent": outcome.ready.total(),
        "skipped": skipped,
        "letters_by_tenant": outcome.letters.to_json(),
        "to_be_sent_by_tenant": outcome.ready.to_json(),
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
    let mut first = format!("{} of {total} letters sent again to {stack}", checkpoint.sent);
    if checkpoint.refused > 0 {
        first.push_str(&format!(", {} not", checkpoint.refused));
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
    fn the_summary_accounts_for_every_letter() {
        let mut it = checkpoint();
        it.sent = 5;
        it.refused = 1;
        it.skipped = BTreeMap::from([(Skip::Absent.label().to_owned(), 4)]);
        assert_eq!(
            summary(&it, "redial"),
            [
                "5 of 12 letters sent again to redial, 1 not, 2 not tried",
                "4 skipped: the body is not kept any more",
            ]
        );
        assert!(going_on(&it, Path::new("a.json")).contains("after 10 of 12 letters"));
        assert_eq!(summary_json(&it)["skipped"], json!({"body_absent": 4}));
    }
}
