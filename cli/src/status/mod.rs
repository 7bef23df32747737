//! `redial status`: one delivery, `redial status ID --tenant T`; a tenant's deliveries in a state, `redial status --state S --tenant T`; or
//! the whole stack, `redial status --summary`.

mod delivery;
mod listing;
mod summary;

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use redial_adapters::system::System;
use redial_core::{
    identity::{DeliveryId, Tenant},
    ledger::listing::Filter,
    tag::MessageTag,
};
use redial_engine::ports::Clock as _;

pub(crate) use self::{
    delivery::standing,
    listing::ByState,
    summary::{Backlog, Left, Summary, counted_since, left, on_queues, relay_backlog},
};

use self::delivery::Standing;
use crate::{
    arguments,
    failure::Failure,
    stack::{Target, TargetArgs},
    tail::init_errors,
    terminal::{print, print_lines, say},
    when::When,
};

/// Pauses between two reads with `--wait`: short ones first.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// How many deliveries `--state` lists, and usually.
const LISTED: RangeInclusive<u64> = 1..=10_000;
const USUALLY_LISTED: u64 = 50;

/// How far back `--state` looks without `--since`.
pub(crate) const LISTED_SINCE: Duration = Duration::from_secs(86_400);

/// The period of `--watch`.
const WATCH_SECONDS: RangeInclusive<u64> = 1..=3_600;

/// Shows the state of a delivery, of all in a state, or with --summary of the whole stack
///
/// ID is what `redial send` printed: the message's own id, the one that follows from its idempotency key, or the SQS
/// MessageId. A delivery is recorded as soon as a worker has received its message, if it has to wait with what holds it back and when that
/// ends, and for 15 days after its last change; a message that could not be parsed has only a dead letter. `ttl` is the TTL that the message
/// was given, its own or its class's, and `dispatched` the time at which a worker went out to make the first attempt. Whether it was
/// displayed, clicked or closed is shown if the message requested
/// acknowledgements and the user's browser sent them; such a delivery is recorded for at least a week after its TTL.
///
/// --state lists a tenant's deliveries that wait for a retry, were held back, or have ended otherwise than by a success, the latest first, with
/// where each is. parked are those whose wait is longer than 15 minutes. What succeeds at once is never listed. The list may be a moment
/// behind. It reads an index, which costs half a read unit for each of its 16 partitions and half a unit for each delivery.
///
/// --summary shows the messages that wait, are in flight and are delayed on each queue of both lanes, and the age of the oldest; events on
/// their way to a bus or to callbacks only if they are many or old;
/// parked messages, by when they are due, LATE those that are more than two minutes overdue, and ORIGIN those that an open
/// breaker holds back until their origin may be sent to again (`redial breakers list` shows them by origin); what was sent and
/// failed in the last five minutes, or since --since, as a whole, dead letters among it, and by lane; and the breaker and pace of each origin, with the attempts that
/// workers reported in the last five minutes: they report few of a healthy origin, and the count starts again when a breaker
/// opens or closes. The first line has the findings. It only reads, and reports what you may not read with the missing permission.
///
/// COST is what the stack was counted to have used in that time, at the list prices of `redial cost`, by the deliveries that ended in it, sent
/// or not. What nothing counts is named after it: an emulator has no metrics of tables and logs.
///
/// The numbers of queues are SQS's approximate ones. Ages and the last minutes come from CloudWatch, a minute or more late; an
/// emulator has no such metrics, so there they come from the functions' logs. Unknown numbers are null, or "-" and "?". Parked
/// messages are counted by one query for each shard, which costs half a read unit for every 4 KB in it, and half a unit where it
/// is empty: at most 1,024 shards of those that are due first, at most 1,024 of those that wait for origins, and a mebibyte of
/// each; "≥" means that there may be more. --all counts all of them, and shows all origins instead of the twenty most urgent.
///
/// Exit status 1: the id is unknown, --wait ended before the delivery did, or no part of the summary could be read. Findings of
/// --summary are no failure: `redial doctor` judges.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial status order-17 --tenant acme
  redial status order-17 --tenant acme --wait 60 --json | jq -r .state
  redial status 0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11 --tenant _unknown \\
    --stack redial
  redial status --state retrying --tenant acme --since 1h
  redial status --state failed --tenant acme --tag order --json | jq -r .id
  redial status --summary --watch 10
  redial status --summary --since 1h
  redial status --summary --json --stack redial | jq '.ok, .findings'")]
pub(crate) struct Status {
    /// The delivery's id
    #[arg(
        value_name = "ID",
        value_parser = arguments::delivery,
        required_unless_present_any = ["summary", "state"]
    )]
    id: Option<DeliveryId>,
    /// The delivery's tenant; _unknown for a body whose tenant could not be parsed
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant_or_unknown, required_unless_present = "summary")]
    tenant: Option<String>,
    /// Print one line of JSON; with --state, one for each delivery
    #[arg(long)]
    json: bool,
    /// Wait until the delivery has ended, at most this long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=LONGEST_WAIT))]
    wait: Option<u64>,
    /// List the deliveries in this state instead of one: retrying, parked, deferred, gone, expired, failed, failed_no_retries or cancelled
    #[arg(long, value_name = "STATE", value_parser = states(), hide_possible_values = true,
          conflicts_with_all = ["id", "wait", "watch", "all"])]
    state: Option<Filter>,
    /// That came to their state at or after: a time ago, 90s, 30m, 2h, 7d; or a point in time, 2026-11-21T10:05:00Z [default: 1d]. With
    /// --summary, from when on to count what was sent and failed [default: 5m]
    #[arg(long, value_name = "AGO|TIME", value_parser = When::parse, conflicts_with_all = ["id", "wait"])]
    since: Option<When>,
    /// Whose messages have this tag; may be repeated, then all of them
    #[arg(long, value_name = "TAG", requires = "state", conflicts_with_all = ["id", "summary"], value_parser = arguments::tag)]
    tag: Vec<MessageTag>,
    /// How many deliveries at most [default: 50]
    #[arg(long, value_name = "N", requires = "state", conflicts_with_all = ["id", "summary"], value_parser = clap::value_parser!(u64).range(LISTED))]
    limit: Option<u64>,
    /// Show the whole stack instead of a delivery
    #[arg(long, conflicts_with_all = ["id", "wait", "state"])]
    summary: bool,
    /// Repeat the summary at this interval, until Ctrl-C
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["id", "wait"],
          value_parser = clap::value_parser!(u64).range(WATCH_SECONDS))]
    watch: Option<u64>,
    /// Count all parked messages of the summary, and show every origin
    #[arg(long, conflicts_with_all = ["id", "wait"])]
    all: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// The states that can be listed, by their labels.
fn states() -> impl clap::builder::TypedValueParser<Value = Filter> {
    let labels = PossibleValuesParser::new(Filter::ALL.map(Filter::label));
    labels.map(|label| Filter::from_label(&label).expect("invariant: it is one of the labels"))
}

/// A message waits a year at most.
const LONGEST_WAIT: u64 = 31_536_000;

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let Self { id, tenant, json, wait, state, since, tag, limit, summary, watch, all, target } = self;
        // The variable is for all commands, and the summary has no use for it.
        if summary && arguments::is_given(tenant.as_deref()) {
            return Err(Failure::input(
                "--tenant: the summary is of the whole stack; --state lists a tenant's deliveries",
            ));
        }
        if let Some(filter) = state {
            let tenant = tenant.as_deref().and_then(Tenant::parse).ok_or_else(|| {
                Failure::input("--tenant: expected a tenant: _unknown has no deliveries, only dead letters")
            })?;
            let now = System.now();
            let since = since.map_or(now.minus(LISTED_SINCE), |since| since.resolve(now));
            let limit = usize::try_from(limit.unwrap_or(USUALLY_LISTED)).unwrap_or(usize::MAX);
            let listing = ByState { filter, tenant, since, tags: tag, limit };
            return listing.run(&target.resolve().await?, json).await;
        }
        match (id, tenant) {
            (Some(id), Some(tenant)) => {
                let delivery = Delivery { id, tenant, json, target: target.resolve().await? };
                match wait {
                    Some(seconds) => delivery.wait(seconds).await,
                    None => {
                        let standing = delivery.standing().await?;
                        delivery.say_init_errors(standing.as_ref()).await;
                        delivery.show(standing.as_ref())
                    }
                }
            }
            // The arguments require both unless it is the summary.
            (_, None) | (None, _) => {
                let shown = summary::Shown { since, watch, json, all };
                shown.since(System.now())?;
                summary::run(target, shown).await
            }
        }
    }
}

#[derive(Debug)]
struct Delivery {
    id: DeliveryId,
    tenant: String,
    json: bool,
    target: Target,
}

impl Delivery {
    async fn standing(&self) -> Result<Option<Standing>, Failure> {
        standing(&self.target, &self.tenant, &self.id).await
    }

    async fn wait(&self, seconds: u64) -> Result<(), Failure> {
        let mut last = None;
        match tokio::time::timeout(Duration::from_secs(seconds), self.ended(&mut last)).await {
            Ok(ended) => {
                ended?;
                self.show(last.as_ref())
            }
            Err(_) => {
                self.say_init_errors(last.as_ref()).await;
                self.show(last.as_ref())?;
                Err(Failure::reported(&format!("the delivery has not ended within {seconds} s")))
            }
        }
    }

    /// Reads until the delivery has ended, and leaves the last state in `last`.
    async fn ended(&self, last: &mut Option<Standing>) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            *last = self.standing().await?.or(last.take());
            if last.as_ref().is_some_and(Standing::is_final) {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
        }
    }

    /// Says first why a delivery that has not ended makes no progress: its function cannot start.
    async fn say_init_errors(&self, standing: Option<&Standing>) {
        if standing.is_none_or(|standing| !standing.is_final()) {
            // Who may not read the logs still sees the delivery.
            let errors = init_errors::recent(&self.target, System.now()).await.unwrap_or_default();
            errors.iter().for_each(|error| say(&error.in_words()));
        }
    }

    fn show(&self, standing: Option<&Standing>) -> Result<(), Failure> {
        match standing {
            Some(standing) if self.json => print(&standing.to_json().to_string())?,
            Some(standing) => print_lines(standing.lines())?,
            None => {
                let Self { tenant, id, .. } = self;
                return Err(Failure::reported(&format!(
                    "the delivery {tenant}#{id} is unknown:\n  no worker has received it yet, it was never sent, or has expired\n  \
                     next: `redial status --summary` shows what waits on the queues, and `redial tail --tenant {tenant} --id={id} \
                     --since 2h --no-follow` what was logged of it"
                )));
            }
        }
        Ok(())
    }
}
