//! `redial tail`: the events of a stack, as its functions log them, read from CloudWatch Logs and followed.
//!
//! Every attempt, change of a breaker and internal error is one line of JSON in the log of its function, on AWS and on the local
//! stack alike. CloudWatch does not keep order: a line may become readable some seconds after younger ones. So recent lines are
//! read again for a while, and none is printed twice.

mod event;
pub(crate) mod failures;
mod filter;
mod follow;
pub(crate) mod init_errors;
mod line;
mod source;

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::Args;
use redial_adapters::{success_logs::SuccessLogs, system::System};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::{
    filter::Filter,
    follow::{Follower, Unread},
    init_errors::InitError,
    line::lines as lines_of,
    source::{Backoff, POLL},
};
use crate::{
    duration,
    failure::Failure,
    interrupt::interrupted,
    stack::{Target, TargetArgs},
    terminal::{is_read, say, shown, width},
};

/// How often it is looked whether functions start.
const STARTS_PERIOD: Duration = Duration::from_secs(30);

pub(crate) use self::source::{CloudWatchLogs, group, groups};

/// Follows the functions' logs: a line for each attempt, change of a breaker, dead letter and internal error
///
/// Where the stack's parameter SuccessLogs leaves lines of successes out, this is said first, and each invocation has a line with their
/// number. Recipients of an audience that are sent to by the page have one line for many successes: it is shown as a line for each, and
/// with --json as it was logged. The line of an attempt has: time (UTC), tenant#id, channel/push service, attempt (from 0), status, verdict → next step (if
/// they differ) and its delay, then the reason, the first digits of the endpoint's hash, and the duration of the attempt.
/// --tenant, --id, --verdict and --tag show only lines that have such a field. On AWS, a line can be read some seconds after it was
/// written, and late lines are printed late; on a local stack, a function's lines can be read when its invocation ends. A call
/// reads what was logged since the last one and is free of charge; there is one for each function every two seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial tail
  redial tail --stack redial --tenant acme --verdict failed --verdict gone
  redial tail --id order-17 --since 2h --no-follow
  redial tail --tenant acme --tag region:eu --tag order
  redial tail --tenant acme --requests
  redial tail --json \\
    | jq -r 'select(.event == \"attempt\") | [.correlation_id, .took_ms] | @tsv'

Exit status: 0 ended by Ctrl-C or a closed pipe; with --no-follow 0 found, 1
nothing found; 1 failed.")]
pub(crate) struct Tail {
    #[command(flatten)]
    filter: Filter,
    /// Start this long ago: 90s, 30m, 2h, 7d
    #[arg(long, value_name = "SPAN", default_value = "1m", value_parser = since)]
    since: Duration,
    /// Print what was logged until now, and exit
    #[arg(long)]
    no_follow: bool,
    /// Print the events as they were logged, a line of JSON each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Tail {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.no_follow {
            let found = self.tail().await?;
            return if found {
                Ok(())
            } else {
                Err(Failure::reported("no matching lines; --since 2h looks further back"))
            };
        }
        tokio::select! {
            ended = self.tail() => ended.map(|_| ()),
            () = interrupted() => Ok(()),
        }
    }

    /// Until the pipe is closed, or until now; false if there was nothing to print.
    async fn tail(&self) -> Result<bool, Failure> {
        let target = self.target.resolve().await?;
        let groups = groups(&target).await?;
        let now = System.now();
        let since = now.minus(self.since);
        let mut follower =
            Follower::new(CloudWatchLogs::new(&target.sdk), groups, self.filter.clone(), since, now);
        if !self.no_follow {
            say(&format!("following {} from {}; Ctrl-C ends it", target.name, since.to_rfc3339_seconds()));
        }
        if let Some(left_out) = left_out(&target).await {
            say(&left_out);
        }
        let mut backoff = Backoff::default();
        let mut found = false;
        let mut starts = Starts::default();
        loop {
            let began = System.now();
            starts.say_errors(&target, began).await;
            loop {
                let events = match follower.next().await {
                    Ok(events) => events,
                    Err(error) => {
                        pause(&mut backoff, error).await?;
                        continue;
                    }
                };
                backoff.succeeded();
                let Some(events) = events else { break };
                found = true;
                for event in events {
                    let texts = if self.json {
                        vec![event.text.into()]
                    } else {
                        let lines = self.filter.shown(event);
                        lines.iter().flat_map(|event| lines_of(event, width())).collect()
                    };
                    for text in texts {
                        if !is_read(writeln!(io::stdout(), "{}", shown(&text, &io::stdout())))? {
                            return Ok(true);
                        }
                    }
                }
            }
            if self.no_follow {
                return Ok(found);
            }
            tokio::time::sleep(POLL.max(System.now().since(began))).await;
            if pipe_is_closed() {
                return Ok(true);
            }
            follower.next_round(System.now());
        }
    }
}

/// The functions that cannot start, which have no lines of their own. Each error is said once.
#[derive(Debug, Default)]
struct Starts {
    looked_at: Option<Timestamp>,
    said: Vec<String>,
}

impl Starts {
    async fn say_errors(&mut self, target: &Target, now: Timestamp) {
        if self.looked_at.is_some_and(|at| now.since(at) < STARTS_PERIOD) {
            return;
        }
        self.looked_at = Some(now);
        // Who may not read the configurations follows the logs anyway.
        let errors = init_errors::recent(target, now).await.unwrap_or_default();
        let words: Vec<String> = errors.iter().map(InitError::in_words).collect();
        words.iter().filter(|words| !self.said.contains(words)).for_each(|words| say(words));
        self.said = words;
    }
}

/// Which lines are never written, if some are not.
async fn left_out(target: &Target) -> Option<String> {
    let chosen = target.success_logs().await?;
    let lines = match chosen {
        SuccessLogs::All => return None,
        SuccessLogs::Sampled => "one delivery in a hundred has lines of its successes",
        SuccessLogs::None => "successes have no lines of their own",
    };
    Some(format!("{lines} (SuccessLogs={chosen}); each invocation has a line with their number"))
}

/// Waits before another try; fails if none would help.
async fn pause(backoff: &mut Backoff, error: Unread) -> Result<(), Failure> {
    let Some(pause) = backoff.after(&error.error) else { return Err(error.into()) };
    say(&format!("{error}; trying again in {} s", pause.as_secs()));
    tokio::time::sleep(pause).await;
    Ok(())
}

/// Finds out without a write, since nothing may be logged for a long time.
fn pipe_is_closed() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&at_once)).is_ok() && ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn since(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "expected a time back from now: 90s, 30m, 2h, 7d".to_owned())
}
