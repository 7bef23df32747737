//! `redial tail`.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::{Args, builder::PossibleValuesParser};
use redial_adapters::system::System;
use redial_core::identity::DeliveryId;
use redial_engine::ports::Clock as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ids;
use crate::{
    failure::Failure,
    span,
    tail::{CloudWatchLogs, Filter, Follower, POLL, Pace, Trouble, VERDICTS, groups, line},
    target::TargetArgs,
    terminal::say,
};

/// Follows what a stack's functions log: a line for every attempt, breaker that moves, dead letter and trouble of their own
///
/// A line of an attempt is: time (UTC), tenant#id, channel/push service, attempt (from 0), status, verdict → what follows
/// (where they differ) and in how long, then the reason, the first digits of the endpoint's hash, and how long the attempt took.
/// With --tenant, --id or --verdict, only lines are shown that have such a field. On AWS, CloudWatch has a line some seconds
/// after it was written, and one that comes late is shown late; on a local stack, a function's lines come when its invocation
/// ends. A call reads what was logged since the last one and is free of charge; there is one for each function every two
/// seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial tail
  redial tail --stack redial --tenant acme --verdict failed --verdict gone
  redial tail --id order-17 --since 2h --no-follow
  redial tail --tenant acme --requests
  redial tail --json | jq -r 'select(.event == \"attempt\") | [.correlation_id, .took_ms] | @tsv'

Exit status: 0 ended by Ctrl-C or by a reader that left; with --no-follow 0 found, 1 nothing found; 1 failed.")]
pub(crate) struct Tail {
    /// Whose; _unknown for messages that were so broken that no tenant could be read [default: everybody's]
    #[arg(long, value_parser = ids::tenant_or_unknown)]
    tenant: Option<String>,
    /// Of this delivery
    #[arg(long, value_parser = ids::delivery)]
    id: Option<DeliveryId>,
    /// Attempts of this verdict; may be given several times
    #[arg(long, value_parser = PossibleValuesParser::new(VERDICTS))]
    verdict: Vec<String>,
    /// The HTTP API's requests too: method, route, status, whose credential
    #[arg(long, conflicts_with_all = ["id", "verdict"])]
    requests: bool,
    /// From so long ago on: 90s, 30m, 2h, 7d
    #[arg(long, value_name = "SPAN", default_value = "1m", value_parser = since)]
    since: Duration,
    /// Print what there is, and end
    #[arg(long)]
    no_follow: bool,
    /// Print the events as they were logged, a line of JSON each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Why it ends, where nothing failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// All there was has been printed; it was something, or not.
    Over { found: bool },
    /// Nobody reads any more.
    ReaderLeft,
}

impl Tail {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.no_follow {
            return match self.tail().await? {
                Ended::Over { found: false } => {
                    say("nothing of that was logged since then; --since 2h looks further back");
                    Err(Failure::Reported)
                }
                Ended::Over { found: true } | Ended::ReaderLeft => Ok(()),
            };
        }
        tokio::select! {
            ended = self.tail() => ended.map(|_| ()),
            () = interrupted() => Ok(()),
        }
    }

    async fn tail(&self) -> Result<Ended, Failure> {
        let filter = Filter::new(self.tenant.as_deref(), self.id.clone(), &self.verdict)
            .expect("invariant: the options are read by parsers of their own")
            .with_requests(self.requests);
        let target = self.target.resolve().await?;
        let groups = groups(&target).await?;
        let now = System.now();
        let since = now.minus(self.since);
        let mut follower = Follower::new(CloudWatchLogs::new(&target.sdk), groups, filter, since, now);
        if !self.no_follow {
            say(&format!("following {} from {} on; Ctrl-C ends it", target.name, since.to_rfc3339_seconds()));
        }
        let mut pace = Pace::default();
        let mut found = false;
        loop {
            let began = System.now();
            loop {
                let events = match follower.next().await {
                    Ok(events) => events,
                    Err(trouble) => {
                        pause(&mut pace, trouble).await?;
                        continue;
                    }
                };
                pace.well();
                let Some(events) = events else { break };
                found = true;
                for event in events {
                    let shown = if self.json { event.text } else { line(&event) };
                    if !print(&shown)? {
                        return Ok(Ended::ReaderLeft);
                    }
                }
            }
            if self.no_follow {
                return Ok(Ended::Over { found });
            }
            tokio::time::sleep(POLL.max(System.now().since(began))).await;
            if reader_left() {
                return Ok(Ended::ReaderLeft);
            }
            follower.again(System.now());
        }
    }
}

/// Waits after a trouble, and says so; fails where that is no use.
async fn pause(pace: &mut Pace, trouble: Trouble) -> Result<(), Failure> {
    let Some(pause) = pace.after(&trouble) else { return Err(trouble.into()) };
    say(&format!("{trouble}; trying again in {} s", pause.as_secs()));
    tokio::time::sleep(pause).await;
    Ok(())
}

/// A line of the result; false if nobody reads it.
fn print(line: &str) -> io::Result<bool> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the other end of a pipe is closed: where nothing is logged, no write would tell.
fn reader_left() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&at_once)).is_ok() && ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Comes when somebody wants it to end. Where that cannot be heard, nobody ever does.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn since(text: &str) -> Result<Duration, String> {
    span::parse(text).ok_or_else(|| "a span back from now: 90s, 30m, 2h, 7d".to_owned())
}
