//! `redial status --summary`: a stack at a glance, once or repeatedly.
//!
//! It counts and does not judge: `redial doctor` reports what is wrong with a stack, and what to do about it. Each count is
//! bounded, and the output says where counting stopped.

mod cost;
mod findings;
mod json;
mod left;
mod metrics;
mod queues;
mod relay;
mod shown;
#[cfg(test)]
mod tests;
mod used;
mod waits;

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use futures_util::join;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use self::{
    cost::Cost,
    metrics::{Ages, FLOW_PERIOD, Flow, LONGEST_PERIOD},
    queues::Depth,
    waits::Waits,
};
pub(crate) use self::{
    left::{Left, left, on_queues},
    relay::{Backlog, relay_backlog},
};
use crate::{
    aws_error::AwsError,
    breakers::shown::Row,
    cost::Counts,
    failure::Failure,
    line::Line,
    stack::{Target, TargetArgs},
    tail::init_errors::{self, InitError},
    terminal::{height, is_read, shown, width},
    when::When,
};

/// Moves to the top left corner, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The most origins that are shown without `--all`.
const MOST_ORIGINS: usize = 20;

/// The source of the oldest messages' ages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AgesFrom {
    CloudWatch,
    Emulator,
}

/// A stack at one moment, all parts read concurrently. A missing permission costs one part and not the whole.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Summary {
    stack: String,
    at: Timestamp,
    /// Why it does not answer at all.
    lost: Option<String>,
    /// The functions that cannot start.
    init_errors: Result<Vec<InitError>, AwsError>,
    /// From when on what was sent and failed is counted.
    since: Timestamp,
    /// Whether to show all origins, and to count all parked messages.
    all: bool,
    is_emulated: bool,
    /// In the order of [`queues::QUEUES`].
    depths: Vec<Result<Depth, AwsError>>,
    ages: Ages,
    ages_from: Option<AgesFrom>,
    flow: Option<Flow>,
    /// What AWS counted that the stack used meanwhile.
    counts: Counts,
    /// Why CloudWatch could not be read.
    metrics_error: Option<AwsError>,
    waits: Result<Waits, AwsError>,
    /// The most urgent first, then those with the most attempts.
    origins: Result<Vec<Row>, AwsError>,
}

impl Summary {
    /// Reads it. Where nothing answers, it looks for the stack once more: a local one may be known to have ended, or be up again at
    /// another place, which is returned too.
    pub(crate) async fn read_or_find(
        args: &TargetArgs,
        target: &Target,
        since: Timestamp,
        all: bool,
        now: Timestamp,
    ) -> (Self, Option<Target>) {
        let mut summary = Self::read(target, since, all, now).await;
        if summary.lost.is_none() {
            return (summary, None);
        }
        match args.found().await {
            Ok(found) => (summary, Some(found)),
            Err(why) => {
                summary.lost = Some(why);
                (summary, None)
            }
        }
    }

    async fn read(target: &Target, since: Timestamp, all: bool, now: Timestamp) -> Self {
        let of_functions = async {
            let configurations = target.configurations().await;
            let functions = used::functions(target, &configurations);
            join!(
                metrics::read(target, &functions, since, now),
                init_errors::recent_of(target, &configurations, now),
            )
        };
        let (depths, (metrics, init_errors), emulated_ages, emulated_flow, waits, mut origins) = join!(
            queues::depths(target),
            of_functions,
            metrics::emulated_ages(target, now),
            metrics::emulated_flow(target, since),
            waits::read(target, all, now),
            origins(target, now),
        );
        if let (Ok(rows), Ok(waits)) = (&mut origins, &waits) {
            rows.iter_mut().for_each(|row| row.wait_in(&waits.lines));
        }
        let metrics_error = metrics.as_ref().err().cloned();
        let metrics = metrics.unwrap_or_default();
        let (ages, ages_from) = match emulated_ages {
            Some(ages) => (ages, Some(AgesFrom::Emulator)),
            None => (metrics.ages, metrics_error.is_none().then_some(AgesFrom::CloudWatch)),
        };
        Self {
            stack: target.name.clone(),
            at: now,
            lost: no_answer(&depths),
            init_errors,
            since,
            all,
            is_emulated: target.is_emulated(),
            depths,
            ages,
            ages_from,
            flow: metrics.flow.or(emulated_flow),
            counts: metrics.counts,
            metrics_error,
            waits,
            origins,
        }
    }

    fn cost(&self) -> Cost {
        Cost::of(self.flow, self.counts)
    }

    fn is_unread(&self) -> bool {
        self.depths.iter().all(Result::is_err) && self.waits.is_err() && self.origins.is_err()
    }

    fn shown_origins(&self) -> &[Row] {
        let all = self.origins.as_deref().unwrap_or_default();
        if self.all { all } else { &all[..all.len().min(MOST_ORIGINS)] }
    }
}

/// Why no queue was read, if none was because nothing answered.
fn no_answer(depths: &[Result<Depth, AwsError>]) -> Option<String> {
    let errors = depths.iter().map(|depth| depth.as_ref().err().filter(|error| error.is_no_answer()));
    let errors: Option<Vec<&AwsError>> = errors.collect();
    errors?.first().map(|error| error.in_words())
}

async fn origins(target: &Target, now: Timestamp) -> Result<Vec<Row>, AwsError> {
    let known = target.protection().origins().await.map_err(|error| AwsError::of_port(&error))?;
    let mut rows: Vec<Row> =
        known.into_iter().map(|(origin, stored)| Row::of(origin, &stored.state, now)).collect();
    rows.sort_by(|a, b| {
        let by_attempts = b.attempts().cmp(&a.attempts());
        a.urgency().cmp(&b.urgency()).then(by_attempts).then_with(|| a.circuit.cmp(&b.circuit))
    });
    Ok(rows)
}

/// What is shown, and how often.
#[derive(Debug)]
pub(super) struct Shown {
    /// From when on what was sent and failed is counted.
    pub(super) since: Option<When>,
    pub(super) watch: Option<u64>,
    pub(super) json: bool,
    pub(super) all: bool,
}

impl Shown {
    /// An error if the period is too short or too long.
    pub(super) fn since(&self, now: Timestamp) -> Result<Timestamp, Failure> {
        counted_since(self.since.as_ref(), now).ok_or_else(|| {
            let found = self.since.as_ref().map(When::text).unwrap_or_default();
            Failure::input(format!(
                "--since: expected a time from 1m to 15d ago for --summary, because CloudWatch has metrics by the minute and for 15 days, \
                 found `{found}`"
            ))
        })
    }
}

/// From when on what was sent and failed is counted; `None` if the period is too short or too long.
pub(crate) fn counted_since(since: Option<&When>, now: Timestamp) -> Option<Timestamp> {
    let Some(since) = since else { return Some(now.minus(FLOW_PERIOD)) };
    let at = since.resolve(now);
    (at < now && (SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&now.since(at))).then_some(at)
}

/// Metrics are counted by the minute.
const SHORTEST_PERIOD: Duration = Duration::from_secs(60);

/// Prints it once, or every `watch` seconds until the reader closes the pipe. While a stack does not answer, that is printed once.
pub(super) async fn run(mut args: TargetArgs, show: Shown) -> Result<(), Failure> {
    let Shown { watch, json, all, .. } = show;
    let clears = watch.is_some() && !json && io::stdout().is_terminal();
    let mut target = args.resolve_and_pin().await?;
    let (mut is_first, mut was_lost, mut last) = (true, false, Vec::new());
    loop {
        let now = System.now();
        let since = show.since(now)?;
        let (summary, found) = Summary::read_or_find(&args, &target, since, all, now).await;
        target = found.unwrap_or(target);
        if !(was_lost && summary.lost.is_some()) {
            let text = if json {
                shown(&summary.to_json().to_string().into(), &io::stdout())
            } else {
                // The cursor stands on a line of its own.
                let most = if clears { height().map(|rows| rows.saturating_sub(1)) } else { None };
                let mut lines = summary.lines(width(), most);
                if clears && summary.lost.is_some() {
                    // What was seen last stays below a loss.
                    lines.push(Line::default());
                    lines.append(&mut last);
                    lines.truncate(most.unwrap_or(usize::MAX));
                } else {
                    last.clone_from(&lines);
                }
                let text: Vec<String> = lines.iter().map(|line| shown(line, &io::stdout())).collect();
                let text = text.join("\n");
                // In a file or a pipe, an empty line stands between two.
                let before = if clears { CLEAR } else { "\n" };
                if is_first && !clears { text } else { format!("{before}{text}") }
            };
            let has_reader = is_read(writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()))?;
            if !has_reader && watch.is_some() {
                return Ok(());
            }
        }
        let Some(seconds) = watch else {
            return if summary.is_unread() { Err(Failure::Reported) } else { Ok(()) };
        };
        (is_first, was_lost) = (false, summary.lost.is_some());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}
