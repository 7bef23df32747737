//! `redial doctor`: what is wrong with a stack, and what to do about it.
//!
//! Checks read and change nothing. Each reads from AWS what it needs and gives that to pure functions that add findings to its
//! [`Report`]. One cause is one finding: no two checks report the same. What the caller may not read is reported with the
//! missing permission, and is not a fault.
//!
//! `stack` reads what several checks need, once; `report` prints.

mod callbacks;
mod clock;
mod functions;
mod mappings;
mod origins;
mod queues;
mod relay;
mod report;
mod secrets;
mod stack;
mod starts;
mod tables;
mod template;
mod waits;

use clap::Args;
use futures_util::{FutureExt as _, future::join_all};

#[cfg(test)]
pub(crate) use self::report::tests::{finds, found};
pub(crate) use self::{
    mappings::{Mapping, mappings, of_queue},
    queues::{Attributes, attributes},
    report::{Diagnosis, Report, Severity},
    stack::{Resource, Stack},
};
use crate::{
    failure::Failure,
    stack::TargetArgs,
    terminal::{print, print_lines, say_toned},
};

/// Examines a stack and reports what is wrong with it, with a remedy for each finding
///
/// It reads and changes nothing, but for a local stack whose dispatch was never invoked: that is invoked with no messages. It examines
/// whether the functions start; their environments, timeouts and states; the queues' attributes; the event source
/// mappings; the keys, which it never prints; the tables; the waits; the bus, the callbacks and the queue of events for them; the alarms; breakers
/// and limits; and this machine's clock.
///
/// Of the account it reads the concurrent executions that the mappings need, the functions' recursion setting, tables that
/// DynamoDB throttled in the last hour, functions that cannot start on their processor architecture, KMS keys of queues and
/// secrets, and the template's size against CloudFormation's quotas.
///
/// A fault loses, delays or refuses messages, now or when something else goes wrong. A warning is worth a look. What you may not
/// read is reported with the missing permission and is neither; the same goes for operations that an emulator or a region does
/// not have.
///
/// Exit status 1: there is a fault.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial doctor --stack redial
  redial doctor --stack redial && ./announce-the-campaign
  redial doctor --json | jq -r '.checks[].findings[] | select(.severity == \"fault\") | .found, .do'

A finding about a queue whose attributes were changed by hand:
  fault    queues         the visibility timeout of the ingest queue is 45 s, and dispatch may run for 30 s
                          do: set it to 180 s, six times the function's timeout (the template's VisibilityTimeout)")]
pub(crate) struct Doctor {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stack = Stack::read(self.target.resolve().await?).await;
        // Each check would find the same.
        if let Some(error) = stack.no_answer() {
            return Err(error.failure(&format!("the stack {} does not answer", stack.name)));
        }
        let reports = examine(&stack).await;
        show(&Diagnosis { stack: stack.name, reports }, self.json)
    }
}

/// Runs these checks concurrently; the reports are in their order.
macro_rules! reports {
    ($stack:expr, [$($name:literal: $check:path),+ $(,)?]) => {
        join_all([$(async {
            let mut report = Report::new($name);
            $check($stack, &mut report).await;
            report
        }.boxed_local()),+])
    };
}

/// Prints what was found; a fault is a failure.
pub(crate) fn show(diagnosis: &Diagnosis, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print(&diagnosis.to_json().to_string())?;
    } else {
        print_lines(diagnosis.lines())?;
        say_toned(&diagnosis.summary(), diagnosis.tone());
    }
    if diagnosis.has_faults() { Err(Failure::Reported) } else { Ok(()) }
}

/// All checks of this command, for a stack that was read.
pub(crate) async fn examine(stack: &Stack) -> Vec<Report> {
    let reports = reports!(stack, [
        "starts": starts::check,
        "configuration": functions::check_configuration,
        "template": template::check_size,
        "queues": queues::check,
        "mappings": mappings::check,
        "concurrency": mappings::check_concurrency,
        "functions": functions::check,
        "recursion": functions::check_recursion,
        "architecture": functions::check_architecture,
        "keys": secrets::check,
        "encryption": secrets::check_encryption,
        "clock": clock::check,
        "tables": tables::check,
        "throttling": tables::check_throttling,
        "waits": waits::check,
        "relay": relay::check,
        "alarms": template::check_alarms,
        "breakers": origins::check_breakers,
        "limits": origins::check_limits,
    ]);
    reports.await
}
