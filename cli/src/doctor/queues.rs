//! The queues' attributes, on which rests that nothing is lost.
//!
//! A visibility time-out that is too short lets a message be received while it is in work, and each receive is one of the
//! twenty after which it is set aside. Without a redrive policy a message that crashes its worker comes back until its
//! retention ends. A retention that is shorter than the template's lets messages vanish in an outage of some days.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_adapters::config;
use serde_json::Value;

use super::{
    aws_error::{AwsError, classified},
    report::Report,
    stack::{Function, Stack},
};

/// How often a message is received before it goes to the quarantine (the template's `maxReceiveCount`).
const RECEIVES: u64 = 20;

/// How long a message may wait on its way (the template's `MessageRetentionPeriod`), in seconds.
const ON_THE_WAY: u64 = 10 * 86_400;

/// How long at the end of it.
const AT_THE_END: u64 = 14 * 86_400;

/// What AWS asks for between a queue and a function: a visibility time-out of so many of the function's time-outs.
const TIMEOUTS: u32 = 6;

/// Unless the environment says otherwise (`LEASE_MARGIN_SECONDS`).
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// A queue of the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Queue {
    /// In words.
    pub(super) name: &'static str,
    /// The output with its URL.
    pub(super) output: &'static str,
    /// Whether dispatch reads it; else cleanup does.
    pub(super) of_dispatch: bool,
}

/// All of them.
pub(super) const QUEUES: [Queue; 6] = [
    Queue { name: "ingest", output: "IngestQueueUrl", of_dispatch: true },
    Queue { name: "bulk", output: "BulkQueueUrl", of_dispatch: true },
    Queue { name: "retry", output: "RetryQueueUrl", of_dispatch: true },
    Queue { name: "bulk retry", output: "RetryBulkQueueUrl", of_dispatch: true },
    Queue { name: "dead-letter", output: "DeadLetterQueueUrl", of_dispatch: false },
    Queue { name: "quarantine", output: "QuarantineQueueUrl", of_dispatch: false },
];

type Attributes = HashMap<QueueAttributeName, String>;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("queues");
    if let Err(trouble) = stack.outputs() {
        unfound(trouble, &mut report);
        return report;
    }
    let sqs = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let read = join_all(QUEUES.map(|queue| attributes(stack, &sqs, queue.output))).await;
    let arn =
        |read: &Result<Attributes, AwsError>| read.as_ref().ok()?.get(&QueueAttributeName::QueueArn).cloned();
    let quarantine = read.last().and_then(arn);
    let margin = stack.dispatch.as_ref().ok().and_then(lease_margin).unwrap_or(LEASE_MARGIN);
    for (queue, read) in QUEUES.iter().zip(&read) {
        let function = if queue.of_dispatch { &stack.dispatch } else { &stack.cleanup };
        match read {
            Ok(attributes) => {
                report.well(
                    "the six queues have the template's redrive and retention, and time for their functions",
                );
                if let Some((function, timeout)) =
                    function.as_ref().ok().and_then(|it| Some((it, it.timeout()?)))
                {
                    visibility(queue, function.name, timeout, margin, attributes, &mut report);
                }
                redrive(queue, quarantine.as_deref(), attributes, &mut report);
                retention(queue, attributes, &mut report);
            }
            Err(trouble) => report.trouble(&format!("the {} queue", queue.name), trouble),
        }
    }
    report
}

/// Without the outputs there is nothing to go by. That a stack is absent is told by the check of the configuration.
pub(super) fn unfound(trouble: &AwsError, report: &mut Report) {
    match trouble {
        AwsError::Refused { .. } => report.trouble("the stack's outputs", trouble),
        AwsError::Absent | AwsError::Failed { .. } => {
            report.unchecked("all of this", "the stack's outputs are not known");
        }
    }
}

fn lease_margin(dispatch: &Function) -> Option<Duration> {
    let lookup = |name: &str| dispatch.lookup(name);
    let read = config::dispatch(lookup).ok().map(|config| config.lease_margin);
    read.or_else(|| dispatch.variable("LEASE_MARGIN_SECONDS")?.parse().ok().map(Duration::from_secs))
}

async fn attributes(stack: &Stack, sqs: &aws_sdk_sqs::Client, output: &str) -> Result<Attributes, AwsError> {
    let url = stack.output(output)?;
    let read =
        sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All).send().await;
    Ok(classified("sqs:GetQueueAttributes", read)?.attributes.unwrap_or_default())
}

fn number(attributes: &Attributes, name: &QueueAttributeName) -> Option<u64> {
    attributes.get(name)?.parse().ok()
}

fn visibility(
    queue: &Queue,
    function: &str,
    timeout: Duration,
    margin: Duration,
    attributes: &Attributes,
    report: &mut Report,
) {
    let Some(seconds) = number(attributes, &QueueAttributeName::VisibilityTimeout) else { return };
    let (visible_after, timeout_seconds) = (Duration::from_secs(seconds), timeout.as_secs());
    // A message that comes back must find the claim of the invocation before it ended.
    let claimed = timeout + margin * 2;
    let wanted = (timeout * TIMEOUTS).max(claimed + Duration::from_secs(1)).as_secs();
    if visible_after < timeout * TIMEOUTS || visible_after <= claimed {
        report.fault(
            format!(
                "the visibility time-out of the {} queue is {seconds} s, and {function} may run for \
                 {timeout_seconds} s",
                queue.name
            ),
            format!(
                "set it to {wanted} s, six times the function's time-out (the template's \
             VisibilityTimeout)"
            ),
        );
    }
}

/// The template's: to the quarantine from what dispatch reads, nowhere from the two ends.
fn redrive(queue: &Queue, quarantine: Option<&str>, attributes: &Attributes, report: &mut Report) {
    let policy = attributes.get(&QueueAttributeName::RedrivePolicy).filter(|policy| !policy.is_empty());
    let policy: Option<Value> = policy.map(|policy| serde_json::from_str(policy).unwrap_or_default());
    let name = queue.name;
    match policy {
        None if queue.of_dispatch => report.fault(
            format!(
                "the {name} queue has no redrive policy: a message that crashes its worker comes back \
                 until it is deleted by age"
            ),
            format!(
                "set one to the quarantine queue with a maxReceiveCount of {RECEIVES}, or deploy the \
             template again"
            ),
        ),
        Some(_) if !queue.of_dispatch => report.fault(
            format!("the {name} queue has a redrive policy: what it sets aside, nobody looks at"),
            "remove it",
        ),
        None => {}
        Some(policy) => {
            let receives = &policy["maxReceiveCount"];
            let receives = receives.as_u64().or_else(|| receives.as_str()?.parse().ok());
            let target = policy["deadLetterTargetArn"].as_str();
            if quarantine.is_some() && target != quarantine {
                report.fault(
                    format!(
                        "the {name} queue sets messages aside in {}, which cleanup does not \
                     read",
                        target.unwrap_or("nothing")
                    ),
                    "set its redrive policy to the quarantine queue",
                );
            }
            if receives != Some(RECEIVES) {
                let found = receives.map_or("no number".to_owned(), |receives| receives.to_string());
                report.fault(
                    format!(
                        "the {name} queue sets messages aside after {found} receives: the template's \
                     is {RECEIVES}"
                    ),
                    format!(
                        "set its maxReceiveCount to {RECEIVES}: messages that came back because a \
                     batch had no time for them must not look like poison"
                    ),
                );
            }
        }
    }
}

fn retention(queue: &Queue, attributes: &Attributes, report: &mut Report) {
    let Some(seconds) = number(attributes, &QueueAttributeName::MessageRetentionPeriod) else { return };
    let wanted = if queue.of_dispatch { ON_THE_WAY } else { AT_THE_END };
    let found =
        format!("the {} queue keeps messages for {seconds} s: the template's is {wanted} s", queue.name);
    if seconds < wanted {
        report.fault(found, format!("set its retention to {wanted} s: what is older is deleted unread"));
    } else if seconds > wanted {
        report.warning(
            found,
            format!(
                "set its retention to {wanted} s: what is set aside keeps its age, and needs time after that"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARANTINE: &str = "arn:aws:sqs:eu-central-1:1:quarantine";

    fn healthy() -> Attributes {
        let policy = format!(r#"{{"deadLetterTargetArn":"{QUARANTINE}","maxReceiveCount":20}}"#);
        HashMap::from([
            (QueueAttributeName::VisibilityTimeout, "180".to_owned()),
            (QueueAttributeName::MessageRetentionPeriod, "864000".to_owned()),
            (QueueAttributeName::RedrivePolicy, policy),
        ])
    }

    fn findings(queue: &Queue, attributes: &Attributes) -> Vec<String> {
        let mut report = Report::new("queues");
        let (timeout, margin) = (Duration::from_secs(30), Duration::from_secs(10));
        visibility(queue, "dispatch", timeout, margin, attributes, &mut report);
        redrive(queue, Some(QUARANTINE), attributes, &mut report);
        retention(queue, attributes, &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[track_caller]
    fn finds(name: QueueAttributeName, value: &str, words: &str) {
        let mut attributes = healthy();
        attributes.insert(name, value.to_owned());
        let found = findings(&QUEUES[0], &attributes);
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    }

    #[test]
    fn the_template_s_attributes_are_healthy() {
        assert_eq!(findings(&QUEUES[0], &healthy()), [""; 0]);
        let mut end = healthy();
        end.remove(&QueueAttributeName::RedrivePolicy);
        end.insert(QueueAttributeName::MessageRetentionPeriod, "1209600".to_owned());
        assert_eq!(findings(&QUEUES[4], &end), [""; 0]);
    }

    #[test]
    fn what_is_off_is_one_finding() {
        finds(QueueAttributeName::VisibilityTimeout, "179", "is 179 s, and dispatch may run for 30 s");
        finds(QueueAttributeName::RedrivePolicy, "", "no redrive policy");
        finds(QueueAttributeName::MessageRetentionPeriod, "345600", "for 345600 s");
        finds(QueueAttributeName::MessageRetentionPeriod, "1209600", "for 1209600 s");
        let policy =
            |to: &str, count: &str| format!(r#"{{"deadLetterTargetArn":"{to}","maxReceiveCount":{count}}}"#);
        finds(QueueAttributeName::RedrivePolicy, &policy(QUARANTINE, "3"), "after 3 receives");
        finds(QueueAttributeName::RedrivePolicy, &policy("arn:other", "\"20\""), "aside in arn:other");
    }

    #[test]
    fn the_ends_of_the_road_have_no_redrive() {
        let mut end = healthy();
        end.insert(QueueAttributeName::MessageRetentionPeriod, "1209600".to_owned());
        let found = findings(&QUEUES[5], &end);
        assert!(found.len() == 1 && found[0].contains("has a redrive policy"), "{found:?}");
    }

    #[test]
    fn the_six_are_the_template_s() {
        let template = include_str!("../../../infra/template.yaml");
        let (_, outputs) = template.split_once("\nOutputs:\n").expect("it has outputs");
        for queue in QUEUES {
            assert!(outputs.contains(&format!("  {}:\n", queue.output)), "{}", queue.output);
        }
        assert_eq!(template.matches("Type: AWS::SQS::Queue\n").count(), QUEUES.len());
        assert_eq!(template.matches("maxReceiveCount: 20 }").count(), 4);
    }
}
