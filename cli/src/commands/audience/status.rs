//! `redial audience status`.

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use redial_adapters::{audiences_dynamo::DynamoAudiences, system::System};
use redial_engine::ports::Clock as _;

use super::{Shown, State, Which};
use crate::{
    failure::Failure,
    target::TargetArgs,
    terminal::{bar, print, say},
};

/// How often one may look, in seconds.
const WATCH_SECONDS: RangeInclusive<u64> = 1..=3_600;

/// Shows how far a message to an audience is
///
/// To how many recipients it was handed on, how many of its sixteen parts are done, and whether it is open, done, expired (its TTL
/// was over first) or cancelled. Handed on is not sent: `redial status --summary` shows what still waits on the queues. It is
/// known from when it was opened, which is once its deliver_at is there, until no recipient's delivery is under way any more.
///
/// Each look takes about four read units, and one more for every 4 KiB of the message. --count adds how many subscriptions bear the
/// tag now, once, and reads all their rows for that: half a read unit for every 4 KiB of them, so about 500 units for 100,000
/// subscriptions with ids of 20 characters.
///
/// Exit status 1: no such message is known.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience status autumn-2026 --tenant acme
  redial audience status autumn-2026 --tenant acme --watch 5 --count
  redial audience status autumn-2026 --tenant acme --json | jq .recipients")]
pub(crate) struct Status {
    #[command(flatten)]
    which: Which,
    /// Print one line of JSON, and with --watch one each time
    #[arg(long)]
    json: bool,
    /// Look so often, until it is not open any more
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(WATCH_SECONDS))]
    watch: Option<u64>,
    /// Count how many subscriptions bear the tag now
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Status {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let audiences = self.target.resolve().await?.audiences();
        let mut shown = self.look(&audiences).await?;
        let bearing = match &shown.audience {
            Some(audience) if self.count => Some(audiences.count(&self.which.tenant, &audience.tag).await?),
            Some(_) | None => None,
        };
        if let Some(seconds) = self.watch {
            let mut line = Line::new(bearing);
            while shown.state == State::Open {
                if self.json {
                    print(&shown.to_json(bearing).to_string())?;
                } else {
                    line.tell(&shown);
                }
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                shown = self.look(&audiences).await?;
            }
            line.bar.finish_and_clear();
        }
        if self.json {
            return Ok(print(&shown.to_json(bearing).to_string())?);
        }
        for line in shown.lines(bearing) {
            print(&line)?;
        }
        Ok(())
    }

    async fn look(&self, audiences: &DynamoAudiences) -> Result<Shown, Failure> {
        match audiences.standing(&self.which.key()).await? {
            Some(standing) => Ok(Shown::new(standing, System.now())),
            None => Err(self.which.unknown()),
        }
    }
}

/// Progress on standard error: a bar where there is a terminal and it is known how many there are; a line that changes where
/// there is a terminal; else a line for every change.
struct Line {
    bar: ProgressBar,
    told: String,
}

impl Line {
    fn new(bearing: Option<u64>) -> Self {
        let bar = bearing.map_or_else(ProgressBar::new_spinner, |many| bar(many, "handing on"));
        Self { bar, told: String::new() }
    }

    fn tell(&mut self, shown: &Shown) {
        let now = shown.progress();
        self.bar.set_position(shown.standing.recipients());
        if self.bar.is_hidden() {
            if now != self.told {
                say(&now);
            }
        } else if self.bar.length().is_none() {
            self.bar.set_message(now.clone());
        }
        self.told = now;
    }
}
