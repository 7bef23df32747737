//! The state machine of waits, and overdue executions: the messages in their buckets are late.

use std::time::Duration;

use aws_sdk_sfn::types::{ExecutionStatus, StateMachineStatus};
use redial_adapters::system::System;
use redial_core::{time::Timestamp, wait::WaitBucket};
use redial_engine::ports::Clock as _;

use super::{
    report::Report,
    stack::{Stack, output},
};
use crate::{
    aws_error::{AwsError, classified},
    counted::counted,
};

/// How long after its time an execution may still run: it retries its release for about a quarter of an hour if the queue
/// does not respond (the ten retries of `infra/wait.asl.json`).
const GRACE: Duration = Duration::from_secs(20 * 60);

/// Executions of a page, and the most pages that are read.
const PAGE: i32 = 1_000;
const PAGES: usize = 5;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let what = "the state machine of waits";
    let Some(arn) = report.read(what, output(outputs, "WaitStateMachineArn")) else { return };
    let sfn = aws_sdk_sfn::Client::new(&stack.target.sdk);
    let machine = sfn.describe_state_machine().state_machine_arn(arn).send().await;
    let machine = classified("states:DescribeStateMachine", machine);
    let is_absent = machine == Err(AwsError::Absent);
    if let Some(StateMachineStatus::Deleting) = report.read(what, machine).and_then(|machine| machine.status)
    {
        return report.fault("the state machine of waits is being deleted", "deploy the template again");
    }
    if is_absent {
        return;
    }
    if let Some((names, all)) = report.read("the executions that run", running(&sfn, arn).await) {
        judge(&names, System.now(), report);
        let bound = if all { "" } else { ", as far as was read" };
        report.well(format!("{}, none of them overdue{bound}", active(names.len())));
    }
}

fn active(running: usize) -> String {
    let run = counted(running as u64, "of its executions runs", "of its executions run");
    format!("the state machine of waits is active; {run}")
}

/// The names of the executions that run, and whether these are all.
async fn running(sfn: &aws_sdk_sfn::Client, arn: &str) -> Result<(Vec<String>, bool), AwsError> {
    let call = sfn.list_executions().state_machine_arn(arn).status_filter(ExecutionStatus::Running);
    let call = call.max_results(PAGE);
    let (mut names, mut token) = (Vec::new(), None);
    for _ in 0..PAGES {
        let listed = classified("states:ListExecutions", call.clone().set_next_token(token).send().await)?;
        names.extend(listed.executions.into_iter().map(|execution| execution.name));
        token = listed.next_token;
        if token.is_none() {
            return Ok((names, true));
        }
    }
    Ok((names, false))
}

/// When an execution's wait ends, from its name; a later execution of a bucket has a number after it.
fn ends(name: &str) -> Option<Timestamp> {
    let without_number = || name.rsplit_once('-').and_then(|(bucket, _)| WaitBucket::parse(bucket));
    WaitBucket::parse(name).or_else(without_number).map(|bucket| bucket.start())
}

fn judge(names: &[String], now: Timestamp, report: &mut Report) {
    let is_late = |name: &&String| ends(name).is_some_and(|end| now.since(end) > GRACE);
    let late: Vec<&String> = names.iter().filter(is_late).collect();
    let Some(oldest) = late.iter().min_by_key(|name| ends(name)) else { return };
    report.fault(
        format!(
            "{} of {} executions that run {} overdue; the oldest is {oldest}",
            late.len(),
            names.len(),
            if late.len() == 1 { "is" } else { "are" }
        ),
        "look at its history in Step Functions: it cannot reach the retry queue. Cleanup's sweep releases its messages \
         meanwhile",
    );
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    #[test]
    fn an_overdue_execution_is_named() {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:30:00Z").expect("a time");
        let names = [
            "w60-transactional-20261121T100500Z-2",
            "w60-bulk-20261121T100900Z",
            "w60-transactional-20261121T101100Z",
            "w60-bulk-20270101T000000Z",
            "started-by-hand",
        ]
        .map(str::to_owned);
        finds(
            "fault: 2 of 5 executions that run are overdue; the oldest is w60-transactional-20261121T100500Z-2",
            |report| judge(&names, now, report),
        );
        finds("fault: 1 of 4 executions that run is overdue; the oldest is", |report| {
            judge(&names[1..], now, report);
        });
        finds("", |report| judge(&names[2..], now, report));
        let run = |n| active(n).replace("the state machine of waits is active; ", "");
        assert_eq!(
            [0, 1, 2].map(run),
            ["0 of its executions run", "1 of its executions runs", "2 of its executions run",]
        );
    }
}
