//! The state machine of waits, and executions that should have ended: what waits in their buckets comes late.

use std::time::Duration;

use aws_sdk_sfn::types::{ExecutionStatus, StateMachineStatus};
use redial_adapters::system::System;
use redial_core::{time::Timestamp, wait::WaitBucket};
use redial_engine::ports::Clock as _;

use super::{
    asked::{Trouble, asked},
    queues::unfound,
    report::Report,
    stack::Stack,
};

/// How long after its time an execution may still run: it repeats its release for about a quarter of an hour if the queue
/// does not answer (the ten retries of `infra/wait.asl.json`).
const GRACE: Duration = Duration::from_secs(20 * 60);

/// How many executions are asked for at once, and how often.
const PAGE: i32 = 1_000;
const PAGES: usize = 5;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("waits");
    let arn = match stack.output("WaitStateMachineArn") {
        Ok(arn) => arn,
        Err(trouble) => {
            unfound(&trouble, &mut report);
            return report;
        }
    };
    let sfn = aws_sdk_sfn::Client::new(&stack.target.sdk);
    let machine = sfn.describe_state_machine().state_machine_arn(arn).send().await;
    match asked("states:DescribeStateMachine", machine) {
        Ok(machine) => match machine.status() {
            Some(StateMachineStatus::Deleting) => {
                report.fault("the state machine of waits is being deleted", "deploy the template again");
                return report;
            }
            _ => report.well("the state machine of waits is active"),
        },
        Err(trouble) => {
            report.trouble("the state machine of waits", &trouble);
            if trouble == Trouble::Absent {
                return report;
            }
        }
    }
    match running(&sfn, arn).await {
        Ok(Running { names, all }) => {
            judge(&names, System.now(), &mut report);
            let bound = if all { "" } else { ", as far as was looked" };
            report.well(format!(
                "the state machine of waits is active; {} of its executions run, none past its time{bound}",
                names.len()
            ));
        }
        Err(trouble) => report.trouble("the executions that run", &trouble),
    }
    report
}

struct Running {
    names: Vec<String>,
    /// Whether these are all.
    all: bool,
}

async fn running(sfn: &aws_sdk_sfn::Client, arn: &str) -> Result<Running, Trouble> {
    let mut names = Vec::new();
    let mut token = None;
    for _ in 0..PAGES {
        let listed = sfn
            .list_executions()
            .state_machine_arn(arn)
            .status_filter(ExecutionStatus::Running)
            .max_results(PAGE)
            .set_next_token(token)
            .send()
            .await;
        let listed = asked("states:ListExecutions", listed)?;
        names.extend(listed.executions.into_iter().map(|execution| execution.name));
        token = listed.next_token;
        if token.is_none() {
            return Ok(Running { names, all: true });
        }
    }
    Ok(Running { names, all: false })
}

/// When an execution's wait ends. Its name says that; a later one of a bucket has a number after it.
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
            "{} of {} executions that run should have ended: the oldest is {oldest}",
            late.len(),
            names.len()
        ),
        "look at its history in Step Functions: it cannot reach the retry queue. The sweep of \
         cleanup releases its messages meanwhile",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_that_runs_past_its_time_is_named() {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:30:00Z").expect("a time");
        let names = [
            "w60-transactional-20261121T100500Z-2",
            "w60-bulk-20261121T100900Z",
            "w60-transactional-20261121T101100Z",
            "w60-bulk-20270101T000000Z",
            "started-by-hand",
        ]
        .map(str::to_owned);
        let mut report = Report::new("waits");
        judge(&names, now, &mut report);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!(
            finding.found,
            "2 of 5 executions that run should have ended: the oldest is w60-transactional-20261121T100500Z-2"
        );
        let mut report = Report::new("waits");
        judge(&names[2..], now, &mut report);
        assert!(report.findings.is_empty());
    }
}
