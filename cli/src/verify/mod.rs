//! `redial verify`: whether a deployed stack is what this release's template makes.
//!
//! `doctor` asks whether a stack works; here it is compared, setting by setting, with the template that is compiled in. What the
//! template says is evaluated with the stack's own parameters, so that there is no second list of what is right
//! ([`release`], [`expression`]). Checks of `doctor` run first, and what they judge is not judged again.

mod alarms;
mod document;
mod expression;
mod functions;
mod parts;
mod queues;
mod release;
mod roads;
mod roles;
mod settings;
mod tables;
mod waits;

use std::path::PathBuf;

use clap::Args;
use futures_util::join;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use self::{release::Release, roads::Roads};
use crate::{
    doctor::{Diagnosis, Report, Stack, examine, show},
    failure::Failure,
    stack::TargetArgs,
    terminal::print,
};

/// Compares a deployed stack with this release's template, setting by setting
///
/// It runs all checks of `redial doctor`, and then compares what AWS has with what the template that is compiled into this command
/// makes for the stack's own parameters: its resources; what each role may do, too little or too much; the event source mappings'
/// batch sizes, windows and maximum concurrency; the functions' time, memory, role and log group; the queues' delay, encryption
/// and policy; the tables' keys, indexes and continuous backups; the state machine's type, definition and role; the schedules;
/// the alarms' rules; and how long logs are kept.
///
/// That reads and changes nothing, sends no message, and costs nothing. Emulators enforce none of this, so only this command shows
/// it, and only in your own account: what an emulator cannot answer is reported as skipped, with the reason.
///
/// --roads also sends one message down every road: delivered, by the bulk lane, retried after a 503, held back by a Retry-After, ended by
/// a 410, given up as a dead letter, scheduled, and with --long-wait one that waits in Step Functions for 16 minutes. They go
/// to a receiver that is deployed as a stack of its own, and is removed at the end, also on Ctrl-C. It believes a webhook only if
/// its signature verifies, and a push only if it decrypts and its VAPID token is the stack's. The price is stated first, and a
/// confirmation asked for.
///
/// A stack pushes to the hosts of its parameter PushHosts alone. So pushes are sent only if the receiver's host is one of them:
/// deploy with *.lambda-url.REGION.on.aws in PushHosts, verify, and deploy without it. In between, a caller that may
/// store subscriptions can have pushes sent to any function URL of the region.
///
/// --metrics then waits until CloudWatch has the messages in AWS's own metrics of queues, functions and tables, and in those that
/// the functions embed in their logs, up to 20 minutes, and calculates what they cost from AWS's counts.
///
/// A fault loses, delays or refuses messages, now or when something else goes wrong. A warning is worth a look; a permission
/// that the template does not have is one.
///
/// Verify with the release that the stack was deployed from: a newer template has what an older stack cannot have.
///
/// Exit status 1: there is a fault.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial verify --stack redial
  redial verify --stack redial --report verified.json
  redial verify --stack redial --roads --metrics --report verified.json

A permission that was removed by hand:
  fault    roles          CleanupRole may not dynamodb:DeleteItem on
                          table/redial-Subscriptions, and the template lets it
                          do: restore the role's policy as the template
                          has it, or its calls are denied: …

The JSON is that of `redial doctor`, with the release, the time, the region,
whether it is AWS or an emulator, and each road's end.
It holds names and settings, and no payload, endpoint, key or token.")]
pub(crate) struct Verify {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Write that document to a file, to keep or to attach
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    roads: Roads,
    #[command(flatten)]
    target: TargetArgs,
}

impl Verify {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.roads.roads {
            self.roads.is_possible()?;
        }
        if let Some(path) = &self.report {
            document::is_writable(path)?;
        }
        let mut stack = Stack::read(self.target.resolve().await?).await;
        stack.compares_roles = true;
        if self.roads.roads {
            self.roads.ask(&stack)?;
        }
        let (mut reports, compared) = join!(examine(&stack), compared(&stack));
        reports.extend(compared);
        let mut walked = Vec::new();
        if self.roads.roads {
            let (of_roads, all) = self.roads.run(&stack).await;
            reports.extend(of_roads);
            walked = all;
        }
        let diagnosis = Diagnosis { stack: stack.name.clone(), reports };
        let document = document::document(&stack, &diagnosis, &walked, System.now());
        let ended = if !self.json {
            show(&diagnosis, false)
        } else {
            print(&document.to_string())?;
            if diagnosis.has_faults() { Err(Failure::Reported) } else { Ok(()) }
        };
        if let Some(path) = &self.report {
            document::write(path, &document)?;
        }
        ended
    }
}

async fn compared(stack: &Stack) -> Vec<Report> {
    let mut parts = Report::new("parts");
    let why = "the stack is unknown to CloudFormation";
    let resources = stack.resources().await;
    let Some(resources) = parts.read_if_present("the list of the stack's resources", resources, why) else {
        return vec![parts];
    };
    let release = match Release::of(stack, &resources) {
        Ok(release) => release,
        Err(error) => unreachable!("invariant: the compiled template is one, but {error}"),
    };
    parts::check(stack, &release, &mut parts);
    let [mut roles, mut functions, mut mappings, mut schedules] =
        ["roles", "runtime", "polling", "schedules"].map(Report::new);
    let [mut queues, mut tables, mut waits, mut alarms, mut logs] =
        ["queue setup", "table setup", "machine", "alarm rules", "logs"].map(Report::new);
    join!(
        roles::check(stack, &release, &mut roles),
        functions::check(stack, &release, &mut functions),
        functions::check_mappings(stack, &release, &mut mappings),
        functions::check_schedules(stack, &release, &resources, &mut schedules),
        queues::check(stack, &release, &mut queues),
        tables::check(stack, &release, &mut tables),
        waits::check(stack, &release, &mut waits),
        alarms::check(stack, &release, &mut alarms),
        functions::check_logs(stack, &release, &mut logs),
    );
    vec![parts, roles, functions, mappings, schedules, queues, tables, waits, alarms, logs]
}
