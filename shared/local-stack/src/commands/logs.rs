//! `redial local logs`: what the functions of a stack print, and what their host says about them.

use std::{collections::BTreeSet, time::Duration};

use aws_sdk_cloudwatchlogs::Client;
use clap::{Args, ValueEnum};
use redial_adapters::system::System;
use redial_console::{
    duration,
    failure::Failure,
    terminal::{print, say},
};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::which::Which;
use crate::local::{self, Known, call, sdk_config};

/// Between two reads.
const PERIOD: Duration = Duration::from_secs(1);

/// How far each read goes back behind the youngest line: lines of concurrent invocations are written one after the other.
const OVERLAP: Duration = Duration::from_secs(15);

/// Prints what a stack's functions logged, line by line
///
/// All of it: their events, metrics and errors, and why one did not start. `redial tail` shows the events alone, in words. A function's
/// lines can be read when its invocation ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial local logs
  redial local logs dispatch --follow
  redial local logs cleanup --since 1h | grep -v _aws")]
pub struct Logs {
    /// The function [default: all three]
    #[arg(value_enum)]
    function: Option<FunctionName>,
    /// Go on with what is logged from now on, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Start this long ago: 90s, 30m, 2h, 7d
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = since)]
    since: Duration,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FunctionName {
    Dispatch,
    Cleanup,
    Ingest,
}

impl FunctionName {
    const fn label(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Cleanup => "cleanup",
            Self::Ingest => "ingest",
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Line {
    at_ms: i64,
    function: &'static str,
    text: String,
}

impl Line {
    fn shown(&self) -> String {
        format!(
            "{} {:<8} {}",
            Timestamp::from_ms(self.at_ms).to_rfc3339(),
            self.function,
            self.text.trim_end()
        )
    }
}

impl Logs {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let known = local::find(&self.which.name, self.which.state_dir.as_deref())?;
        tokio::select! {
            ended = self.print(&known) => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    async fn print(&self, known: &Known) -> Result<(), Failure> {
        let logs = Client::new(&sdk_config(&known.stack.endpoint, &known.key));
        let groups = groups(&logs, known, self.function).await?;
        let mut from = System.now().minus(self.since);
        let mut seen = BTreeSet::new();
        loop {
            let mut lines = Vec::new();
            for (function, group) in &groups {
                lines.extend(read(&logs, function, group, from).await?);
            }
            // Lines of one moment stay in the order in which they were written.
            lines.sort_by_key(|line| line.at_ms);
            let mut repeated = BTreeSet::new();
            for line in lines {
                if !seen.contains(&line) {
                    print(&line.shown())?;
                }
                repeated.insert(line);
            }
            if !self.follow {
                if repeated.is_empty() {
                    let span = duration::words(self.since);
                    say(&format!("nothing was logged within {span}; --since 2h looks further back"));
                }
                return Ok(());
            }
            if let Some(last) = repeated.last() {
                from = from.max(Timestamp::from_ms(last.at_ms).minus(OVERLAP));
            }
            repeated.retain(|line| line.at_ms >= from.as_ms());
            seen = repeated;
            tokio::time::sleep(PERIOD).await;
        }
    }
}

/// The log groups of these functions: the template names each after its function, `DispatchLogs`.
async fn groups(
    logs: &Client,
    known: &Known,
    wanted: Option<FunctionName>,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let listed = logs.describe_log_groups().into_paginator().items().send();
    let listed = listed.collect::<Result<Vec<_>, _>>().await.map_err(call("DescribeLogGroups"))?;
    let names: Vec<&str> = listed.iter().filter_map(|group| group.log_group_name()).collect();
    let wanted =
        FunctionName::value_variants().iter().filter(|it| wanted.is_none_or(|wanted| wanted == **it));
    let group = |it: &FunctionName| Some((it.label(), group(&known.name, *it, &names)?.to_owned()));
    Ok(wanted.filter_map(group).collect())
}

/// The log group of a stack's function: CloudFormation makes its name of the stack's, the template's and an ending. The embedded emulator
/// makes a path of them.
fn group<'a>(stack: &str, function: FunctionName, names: &[&'a str]) -> Option<&'a str> {
    let label = function.label();
    let of_template = format!("{}{}Logs", label[..1].to_uppercase(), &label[1..]);
    let is_group = |name: &str| {
        let name = name.strip_prefix("/aws/cloudformation/").unwrap_or(name);
        let rest = name.strip_prefix(stack).and_then(|rest| rest.strip_prefix(['-', '/']));
        rest.is_some_and(|rest| rest.starts_with(&of_template))
    };
    names.iter().find(|name| is_group(name)).copied()
}

async fn read(
    logs: &Client,
    function: &'static str,
    group: &str,
    since: Timestamp,
) -> Result<Vec<Line>, Failure> {
    let (mut lines, mut token) = (Vec::new(), None);
    loop {
        let page = logs.filter_log_events().log_group_name(group).start_time(since.as_ms());
        let page = page.set_next_token(token).send().await.map_err(call("FilterLogEvents"))?;
        let line = |event: aws_sdk_cloudwatchlogs::types::FilteredLogEvent| {
            Some(Line { at_ms: event.timestamp?, function, text: event.message? })
        };
        lines.extend(page.events.unwrap_or_default().into_iter().filter_map(line));
        token = page.next_token;
        if token.is_none() {
            return Ok(lines);
        }
    }
}

fn since(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "expected a time back from now: 90s, 30m, 2h, 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_group_of_another_stack_is_not_read() {
        let names = [
            "my-shop-DispatchLogs-a",
            "shop-2-DispatchLogs-b",
            "shop-CleanupLogs-c",
            "shop-DispatchLogs-d",
            "/aws/cloudformation/my-shop/IngestLogs",
            "/aws/cloudformation/shop/IngestLogs",
        ];
        let of = |function| group("shop", function, &names);
        assert_eq!(of(FunctionName::Dispatch), Some("shop-DispatchLogs-d"));
        assert_eq!(of(FunctionName::Cleanup), Some("shop-CleanupLogs-c"));
        assert_eq!(of(FunctionName::Ingest), Some("/aws/cloudformation/shop/IngestLogs"));
    }

    #[test]
    fn a_line_has_its_time_and_its_function() {
        let line = Line { at_ms: 1_795_255_200_250, function: "cleanup", text: "hello\n".to_owned() };
        assert_eq!(line.shown(), "2026-11-21T10:00:00.250Z cleanup  hello");
    }
}
