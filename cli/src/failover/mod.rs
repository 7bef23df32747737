//! `redial failover`: which of two stacks sends.
//!
//! ```text
//! checks (before anything changes) ─► stop: the source's mappings ─► start: the destination's ─► what is left in the source
//! ```
//!
//! A stack sends while the event source mappings of its dispatch function read the queues. They are switched one by one, each of them is
//! idempotent, and the source first: a run that is interrupted leaves messages waiting, none lost, and the next run continues.

mod checks;
mod switch;

use std::time::Duration;

use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use crate::{
    confirm::Confirm,
    counted::counted,
    failure::Failure,
    rotation::longest_timeout,
    stack::{Pair, Target},
    status::{Left, left, on_queues},
    terminal::{print, print_lines, say},
};
use switch::Switchable;

const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Stops the sending of one stack and starts that of another, for example in another region
///
/// The stack --from stops reading its four queues of messages, and the stack --to starts reading its own: their event source mappings are
/// disabled and enabled. Before anything changes, the command checks that --to has the mappings, the keys and the subscriptions of --from. It
/// waits until every mapping has its new state, and for invocations in progress. A run that failed half-way is continued by the same command. To
/// go back, run it the other way round.
///
/// Messages that --from has accepted and not sent stay there. They are sent when it is started again, or end by their TTL; a queue keeps a message
/// for 10 days. Each stack knows its own deliveries only: a message that a producer sends to both, with the same id, is sent twice.
///
/// With --source-unreachable nothing is read or stopped at --from. It goes on sending what it holds as soon as its region is back: run the command
/// again then, without that option. It does nothing to a stack that is stopped or started already.
///
/// Producers and browsers are not redirected: give them the queues and the API of --to. Then deploy --from with Standby=true and --to with
/// Standby=false, because a deployment that changes a mapping sets what that parameter says. infra/docs/two-regions.md has the whole.
///
/// The command asks for confirmation. Any answer but yes changes nothing, with exit status 1. Without a terminal it requires --yes, else the exit
/// status is 2.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial failover --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1 --dry-run
  redial failover --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1
  redial failover --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1 --source-unreachable --yes
  redial failover --from local:a --to local:b --yes --json")]
pub(crate) struct Failover {
    /// Only check, and show what would be done
    #[arg(long)]
    dry_run: bool,
    /// The region of --from does not answer: stop nothing there
    #[arg(long)]
    source_unreachable: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pair: Pair,
}

/// The stack to stop, and its mappings.
struct Source {
    target: Target,
    mappings: Switchable,
}

impl Failover {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if !self.dry_run {
            self.confirm.is_possible("fail over")?;
        }
        let (from, to) = self.stacks().await?;
        let source = match from {
            Some(target) => Some(Source { mappings: Switchable::of(&target).await?, target }),
            None => None,
        };
        let mappings = Switchable::of(&to).await?;
        let found = match &source {
            Some(source) => checks::both(&source.target, &to).await?,
            None => checks::destination_alone(&to).await?,
        };
        found.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
        if !found.faults.is_empty() {
            found.faults.iter().for_each(|fault| say(&format!("error: {fault}")));
            return Err(Failure::reported("nothing was changed"));
        }
        if self.dry_run {
            return self.show(source.as_ref(), &mappings, None);
        }
        let question = match &source {
            Some(_) => format!("Stop sending from {} and start {}?", self.pair.from, self.pair.to),
            None => format!("Start {}, without stopping {}?", self.pair.to, self.pair.from),
        };
        self.confirm.ask(&question, "nothing was changed")?;
        if let Some(source) = &source {
            source.mappings.set(&source.target, false).await?;
            settled(&source.target).await?;
        }
        mappings.set(&to, true).await?;
        let left = match &source {
            Some(source) => Some(left_in(&source.target).await),
            None => None,
        };
        self.show(source.as_ref(), &mappings, Some(left.flatten()))
    }

    /// `None` for a source that is not asked.
    async fn stacks(&self) -> Result<(Option<Target>, Target), Failure> {
        if self.source_unreachable {
            return Ok((None, self.pair.destination().await?));
        }
        match self.pair.both().await {
            Ok((from, to)) => Ok((Some(from), to)),
            Err(failure @ Failure::Input(_)) => Err(failure),
            Err(failure) => {
                say("if the region of --from does not answer, pass --source-unreachable");
                Err(failure)
            }
        }
    }

    /// `left`: what the source holds, where it was stopped; its inner part is absent if that could not be read.
    fn show(
        &self,
        source: Option<&Source>,
        mappings: &Switchable,
        left: Option<Option<Left>>,
    ) -> Result<(), Failure> {
        let (from, to) = (&self.pair.from, &self.pair.to);
        let is_done = left.is_some();
        let left = left.flatten();
        if self.json {
            let of_left = |left: Left| {
                json!({
                    "waiting": left.waiting,
                    "in_flight": left.in_flight,
                    "delayed": left.delayed,
                    "parked": left.parked.messages,
                    "parked_at_least": left.parked.at_least(),
                })
            };
            let source =
                source.map(|source| json!({"mappings": source.mappings.names(), "left": left.map(of_left)}));
            let shown: Value = json!({
                "done": is_done,
                "from": from,
                "source": source,
                "to": to,
                "mappings": mappings.names(),
                "fail_back": format!("redial failover {}", self.pair.reversed()),
            });
            print(&shown.to_string())?;
            return Ok(());
        }
        let (stopped, started) = if is_done { ("stopped", "started") } else { ("would stop", "would start") };
        let mut lines = match source {
            Some(source) => vec![format!("{stopped} {from}: {}", source.mappings.names().join(", "))],
            None => vec![format!("{from} was not stopped: when its region is back, it sends what it holds")],
        };
        lines.push(format!("{started} {to}: {}", mappings.names().join(", ")));
        if is_done {
            lines.extend(left.map(|left| {
                format!(
                    "{from} holds {} on its queues ({} delayed, {} in flight) and {} parked: they are sent when it is started \
                     again, or end by their TTL; a queue keeps them for 10 days",
                    counted(left.sum_on_queues(), "message", "messages"),
                    left.delayed,
                    left.in_flight,
                    left.parked
                )
            }));
            lines.push(format!("what a producer has sent to {from}, and sends to {to} again, is sent twice"));
            lines.push(format!("next: deploy {from} with Standby=true and {to} with Standby=false"));
            lines.push(format!("back: redial failover {}", self.pair.reversed()));
        }
        print_lines(lines)?;
        Ok(())
    }
}

/// Waits until nothing is in flight, and no longer than an invocation may take: what is still in flight then waits for its visibility.
async fn settled(target: &Target) -> Result<(), Failure> {
    let end = System.now().plus(longest_timeout(target).await?);
    while System.now() < end {
        match on_queues(target).await {
            Ok(left) if left.in_flight == 0 => return Ok(()),
            Ok(_) | Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
    Ok(())
}

async fn left_in(target: &Target) -> Option<Left> {
    let read = left(target, System.now()).await;
    read.inspect_err(|error| say(&format!("what {} holds cannot be read: {}", target.name, error.in_words())))
        .ok()
}
