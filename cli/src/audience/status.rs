use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use redial_adapters::{audiences_dynamo::DynamoAudiences, system::System};
use redial_engine::ports::Clock as _;

use super::{
    outcomes::Outcomes,
    progress::{Shown, State, Which},
};
use crate::{
    failure::Failure,
    stack::OnStack,
    terminal::{bar, print, say},
};

const WATCH_SECONDS: RangeInclusive<u64> = 1..=3_600;

/// Shows the progress of a message to an audience
///
/// How many recipients have a delivery, how many of the sixteen parts are done, and whether the message is open, done, expired (its
/// TTL ended first) or cancelled. A recipient's delivery is not necessarily sent: `redial status --summary` shows what waits on the
/// queues. A message is found from when it was opened, at its deliver_at, until the last delivery to a recipient has ended.
///
/// Each look takes about four read units, and one more for every 4 KiB of the message. --count adds the number of subscriptions that have
/// the tag now, once. It reads all their rows: half a read unit for every 4 KiB, so about 500 units for 100,000 subscriptions with ids
/// of 20 characters.
///
/// --outcomes adds how many recipients it was sent to, failed for, were gone, expired or were cancelled, how many are under way, and how many
/// acknowledged it, once, at the end. It reads the entry of each recipient, at least a read unit each; of a message that is sent by the page
/// (AudiencePages) only the pages, two units for 100 recipients, the entries of those that did not accept it at once, and an
/// acknowledgement's unit for each. Without pages, only recipients that have the tag now are looked up. One that lost it since counts as
/// under way until the TTL is over, as one whose message still waits on the queue does, and is not counted after that.
///
/// Exit status 1: no such message was found. --watch waits for one instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience status autumn-2026 --tenant acme
  redial audience status autumn-2026 --tenant acme --watch 5 --count
  redial audience status autumn-2026 --tenant acme --outcomes
  redial audience status autumn-2026 --tenant acme --json | jq .recipients")]
pub(crate) struct Status {
    #[command(flatten)]
    which: Which,
    /// Look again at this interval, from before the message is opened until it is not open any more
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(WATCH_SECONDS))]
    watch: Option<u64>,
    /// Count the subscriptions that have the tag now
    #[arg(long)]
    count: bool,
    /// Count what became of the recipients
    #[arg(long)]
    outcomes: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let audiences = target.audiences();
        let mut shown = match self.watch {
            Some(seconds) => self.opened(&audiences, seconds).await?,
            None => self.look(&audiences).await?,
        };
        let bearing = match &shown.audience {
            Some(audience) if self.count => Some(audiences.count(&self.which.tenant, &audience.tag).await?),
            Some(_) | None => None,
        };
        if let Some(seconds) = self.watch {
            let bar = bearing.map_or_else(ProgressBar::new_spinner, |total| bar(total, "adding recipients"));
            let mut last = String::new();
            while shown.state == State::Open {
                if self.on.json {
                    print(&shown.to_json(bearing, None).to_string())?;
                } else {
                    last = update(&bar, &shown, &last);
                }
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                shown = self.look(&audiences).await?;
            }
            bar.finish_and_clear();
        }
        let outcomes = if self.outcomes {
            let tag = shown.audience.as_ref().map(|audience| &audience.tag);
            let handed_on = if shown.is_over { 0 } else { shown.standing.recipients() };
            Some(Outcomes::read(&target, &shown.standing.run, tag, handed_on, System.now()).await?)
        } else {
            None
        };
        self.on
            .print(|| shown.to_json(bearing, outcomes.as_ref()), || shown.lines(bearing, outcomes.as_ref()))
    }

    /// Waits until there is something to show: a message opens at its deliver_at, or when a worker has received it.
    async fn opened(&self, audiences: &DynamoAudiences, seconds: u64) -> Result<Shown, Failure> {
        let mut is_said = false;
        loop {
            if let Some(standing) = audiences.standing(&self.which.key()).await? {
                return Ok(Shown::new(standing, System.now()));
            }
            if !is_said {
                let Which { id, tenant } = &self.which;
                say(&format!("{id} of {tenant} was not opened yet: waiting for it; Ctrl-C ends that"));
                is_said = true;
            }
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    }

    async fn look(&self, audiences: &DynamoAudiences) -> Result<Shown, Failure> {
        match audiences.standing(&self.which.key()).await? {
            Some(standing) => Ok(Shown::new(standing, System.now())),
            None => Err(self.which.unknown()),
        }
    }
}

/// Shows the progress on standard error: on a terminal by a bar, or a line that changes where the total is unknown; else by a line
/// for every change.
fn update(bar: &ProgressBar, shown: &Shown, last: &str) -> String {
    let now = shown.progress();
    bar.set_position(shown.standing.recipients());
    if bar.is_hidden() && now != last {
        say(&now);
    } else if !bar.is_hidden() && bar.length().is_none() {
        bar.set_message(now.clone());
    }
    now
}
