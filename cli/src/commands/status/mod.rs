//! `redial status ID --tenant T`, and `redial status --summary`.

mod summary;

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use redial_core::identity::DeliveryId;

use super::ids;
use crate::{
    failure::Failure,
    status::{Lookup, Standing},
    target::TargetArgs,
    terminal::{print, say},
};

/// How often a delivery is looked at while one waits for its end: soon at first, then at leisure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// How often a summary may be made anew, in seconds.
const WATCH_SECONDS: RangeInclusive<u64> = 1..=3_600;

/// Shows where a delivery stands, or with --summary how the whole stack does
///
/// ID is what `redial send` printed: the message's own id, the one that follows from its idempotency key, or the SQS
/// MessageId. A delivery is known from its first attempt on, and for 15 days after its last change; a message that could
/// not be read is known by its dead letter. That it was displayed, clicked or closed is shown where the message asked for
/// acknowledgements and its user's browser told; such a delivery is known for a week after its TTL at least.
///
/// --summary shows at a glance: what waits, is in flight and is delayed on each queue of both lanes, and how old the oldest is;
/// what is parked, by when it is due, and LATE what should have gone on more than two minutes ago; what was sent and failed in
/// the last five minutes, and of that what on which lane; and of each origin its breaker, its pace and what workers told of it
/// in the last five minutes: of an origin that is well they tell little, and counting begins anew when a breaker opens or
/// closes. The first line says what stands out. It reads only, and what you may not read is told with the permission that is
/// missing.
///
/// Queues: SQS's own approximate numbers. Ages and the last minutes: CloudWatch, which hears of them a minute or more later;
/// an emulator makes no metrics of what functions log for them, so there it is read in their logs. Numbers that are not known
/// are null, or "-" and "?". What is parked is counted by one query a shard, each of which costs half a read unit for every
/// 4 KB that it holds, and half a unit where it is empty: 1,024 shards at most, those that are due first, and a mebibyte of
/// each; "≥" where there may be more. --all counts all of it, and shows all origins instead of the twenty that stand out.
///
/// Exit status 1: nothing is known of that id, --wait was over before the delivery had ended, or nothing of the summary could be
/// read. That something is wrong is no failure of --summary: `redial doctor` judges.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial status order-17 --tenant acme
  redial status order-17 --tenant acme --wait 60 --json | jq -r .state
  redial status 0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11 --tenant _unknown --stack redial
  redial status --summary --watch 10
  redial status --summary --json --stack redial | jq '.ok, .findings'")]
pub(crate) struct Status {
    /// The delivery's id
    #[arg(value_name = "ID", value_parser = ids::delivery, required_unless_present = "summary")]
    id: Option<DeliveryId>,
    /// Whose it is; _unknown where a body was so broken that no tenant could be read
    #[arg(long, value_parser = ids::tenant_or_unknown, required_unless_present = "summary")]
    tenant: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Wait so many seconds at most until it has ended
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Show the whole stack at a glance instead
    #[arg(long, conflicts_with_all = ["id", "tenant", "wait"])]
    summary: bool,
    /// Of the summary: make it anew so often, until Ctrl-C
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["id", "tenant", "wait"],
          value_parser = clap::value_parser!(u64).range(WATCH_SECONDS))]
    watch: Option<u64>,
    /// Of the summary: count everything that is parked, and show every origin
    #[arg(long, conflicts_with_all = ["id", "tenant", "wait"])]
    all: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Status {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let Self { id, tenant, json, wait, summary: _, watch, all, target } = self;
        match (id, tenant) {
            (Some(id), Some(tenant)) => Delivery { id, tenant, json, wait }.run(&target).await,
            // The definition asks for both unless it is the summary.
            (_, None) | (None, _) => summary::run(&target.resolve().await?, watch, json, all).await,
        }
    }
}

/// The delivery that is asked for.
#[derive(Debug)]
struct Delivery {
    id: DeliveryId,
    tenant: String,
    json: bool,
    wait: Option<u64>,
}

impl Delivery {
    async fn run(self, target: &TargetArgs) -> Result<(), Failure> {
        let lookup = Lookup::new(&target.resolve().await?);
        let Some(seconds) = self.wait else {
            return match lookup.standing(&self.tenant, &self.id).await? {
                Some(standing) => self.show(&standing),
                None => self.unknown(),
            };
        };
        let mut last = None;
        let ended = self.ended(&lookup, &mut last);
        let ended = tokio::time::timeout(Duration::from_secs(seconds), ended).await;
        match (ended, last) {
            (Ok(Err(failure)), _) => Err(failure),
            (Ok(Ok(standing)), _) => self.show(&standing),
            (Err(_), Some(standing)) => {
                self.show(&standing)?;
                say(&format!("it has not ended within {seconds} s"));
                Err(Failure::Reported)
            }
            (Err(_), None) => self.unknown(),
        }
    }

    /// Looks until it has ended; what was seen until then is left in `last`.
    async fn ended(&self, lookup: &Lookup, last: &mut Option<Standing>) -> Result<Standing, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            match lookup.standing(&self.tenant, &self.id).await? {
                Some(standing) if standing.is_final() => return Ok(standing),
                Some(standing) => *last = Some(standing),
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
        }
    }

    fn show(&self, standing: &Standing) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&standing.to_json().to_string())?);
        }
        standing.lines().iter().try_for_each(|line| print(line)).map_err(Failure::from)
    }

    fn unknown(&self) -> Result<(), Failure> {
        say(&format!("nothing is known of {}#{}:", self.tenant, self.id));
        say(
            "  it was not attempted yet (on its queue, or parked for its deliver_at), never sent, or is forgotten",
        );
        Err(Failure::Reported)
    }
}
