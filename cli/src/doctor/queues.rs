//! The queues' attributes, without which messages are lost.
//!
//! If a visibility timeout is too short, a message is received again while it is in work, and each receive is one of the twenty
//! after which it moves to the quarantine. Without a redrive policy a message that crashes its worker comes back until its
//! retention ends. With a shorter retention than the template's, messages are deleted in an outage of some days.

use std::{cmp::Ordering, collections::HashMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName::{
    self, MessageRetentionPeriod, QueueArn, RedrivePolicy, VisibilityTimeout,
};
use futures_util::future::join_all;
use redial_adapters::config;
use serde_json::Value;

use super::{
    report::Report,
    stack::{Function, Outputs, Stack, output},
};
use crate::aws_error::{AwsError, classified};

/// The template's `maxReceiveCount`.
const RECEIVES: u64 = 20;

/// The template's `MessageRetentionPeriod` of the queues that dispatch reads, and of those that cleanup reads, in seconds.
const RETENTION_DISPATCH: u64 = 10 * 86_400;
const RETENTION_CLEANUP: u64 = 14 * 86_400;

/// A visibility timeout is at least this multiple of the function's timeout (AWS Lambda developer guide, SQS).
const TIMEOUTS: u32 = 6;

/// Unless the environment has another (`LEASE_MARGIN_SECONDS`).
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// A queue of the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Queue {
    pub(super) name: &'static str,
    /// The output with its URL.
    pub(super) output: &'static str,
    of_dispatch: bool,
}

impl Queue {
    /// The function that reads it.
    pub(super) fn function(&self) -> &'static str {
        if self.of_dispatch { "dispatch" } else { "cleanup" }
    }
}

/// The queues of every stack. A stack that relays events also has [`RELAY`].
pub(super) const QUEUES: [Queue; 6] = [
    Queue { name: "ingest", output: "IngestQueueUrl", of_dispatch: true },
    Queue { name: "bulk", output: "BulkQueueUrl", of_dispatch: true },
    Queue { name: "retry", output: "RetryQueueUrl", of_dispatch: true },
    Queue { name: "bulk retry", output: "RetryBulkQueueUrl", of_dispatch: true },
    Queue { name: "dead-letter", output: "DeadLetterQueueUrl", of_dispatch: false },
    Queue { name: "quarantine", output: "QuarantineQueueUrl", of_dispatch: false },
];

pub(super) const RELAY: Queue =
    Queue { name: "events relay", output: "EventsRelayQueueUrl", of_dispatch: false };

/// The queues of a stack with these outputs.
pub(super) fn queues(outputs: &Outputs) -> impl Iterator<Item = &'static Queue> {
    QUEUES.iter().chain(Some(&RELAY).filter(|relay| outputs.contains_key(relay.output)))
}

pub(crate) type Attributes = HashMap<QueueAttributeName, String>;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let sqs = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let read = queues(outputs).map(async |queue| attributes(&sqs, output(outputs, queue.output)?).await);
    let read = join_all(read).await;
    let quarantine = read[QUEUES.len() - 1].as_ref().ok().and_then(|read| read.get(&QueueArn).cloned());
    let margin = stack.dispatch.as_ref().ok().and_then(lease_margin).unwrap_or(LEASE_MARGIN);
    report.well("the queues have the template's redrive and retention, and time for their functions");
    for (queue, read) in queues(outputs).zip(read) {
        let Some(attributes) = report.read(format!("the {} queue", queue.name), read) else { continue };
        let function = if queue.of_dispatch { &stack.dispatch } else { &stack.cleanup };
        if let Some(timeout) = function.as_ref().ok().and_then(Function::timeout) {
            judge_visibility(queue, timeout, margin, &attributes, report);
        }
        judge_redrive(queue, quarantine.as_deref(), &attributes, report);
        judge_retention(queue, &attributes, report);
    }
}

fn lease_margin(dispatch: &Function) -> Option<Duration> {
    let parsed = config::dispatch(|name| dispatch.lookup(name)).ok().map(|config| config.lease_margin);
    parsed.or_else(|| dispatch.variable("LEASE_MARGIN_SECONDS")?.parse().ok().map(Duration::from_secs))
}

pub(crate) async fn attributes(sqs: &aws_sdk_sqs::Client, url: &str) -> Result<Attributes, AwsError> {
    let read = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    Ok(classified("sqs:GetQueueAttributes", read.send().await)?.attributes.unwrap_or_default())
}

fn number(attributes: &Attributes, name: &QueueAttributeName) -> Option<u64> {
    attributes.get(name)?.parse().ok()
}

fn judge_visibility(
    queue: &Queue,
    timeout: Duration,
    margin: Duration,
    attributes: &Attributes,
    report: &mut Report,
) {
    let Some(seconds) = number(attributes, &VisibilityTimeout) else { return };
    // A message that comes back must find that the claim of the previous invocation has ended.
    let claimed = timeout + margin * 2;
    let least = (timeout * TIMEOUTS).max(claimed + Duration::from_secs(1)).as_secs();
    let (name, function, timeout) = (queue.name, queue.function(), timeout.as_secs());
    if seconds < least {
        report.fault(
            format!("the visibility timeout of the {name} queue is {seconds} s, and {function} may run for {timeout} s"),
            format!("set it to {least} s, six times the function's timeout (the template's VisibilityTimeout)"),
        );
    }
}

/// The template has redrive to the quarantine for the queues that dispatch reads, and none for the others.
fn judge_redrive(queue: &Queue, quarantine: Option<&str>, attributes: &Attributes, report: &mut Report) {
    let name = queue.name;
    let policy = attributes.get(&RedrivePolicy).filter(|policy| !policy.is_empty());
    let policy: Value = match (queue.of_dispatch, policy) {
        (true, Some(policy)) => serde_json::from_str(policy).unwrap_or_default(),
        (false, None) => return,
        (false, Some(_)) => {
            let found =
                format!("the {name} queue has a redrive policy: no function reads what it moves away");
            return report.fault(found, "remove it");
        }
        (true, None) => {
            let found = "has no redrive policy: a message that crashes its worker comes back until its retention ends";
            let remedy =
                "set one to the quarantine queue with a maxReceiveCount of 20, or deploy the template again";
            return report.fault(format!("the {name} queue {found}"), remedy);
        }
    };
    let target = policy["deadLetterTargetArn"].as_str();
    if quarantine.is_some() && target != quarantine {
        let target = target.unwrap_or("nowhere");
        report.fault(
            format!("the {name} queue moves messages to {target}, which cleanup does not read"),
            "set its redrive policy to the quarantine queue",
        );
    }
    let receives = &policy["maxReceiveCount"];
    let receives = receives.as_u64().or_else(|| receives.as_str()?.parse().ok());
    if receives != Some(RECEIVES) {
        let found = receives.map_or("no number of".to_owned(), |receives| receives.to_string());
        report.fault(
            format!("the {name} queue moves messages to quarantine after {found} receives; the template has {RECEIVES}"),
            format!(
                "set its maxReceiveCount to {RECEIVES}: messages that came back because their batch ran out of time \
                 must not count as poison"
            ),
        );
    }
}

fn judge_retention(queue: &Queue, attributes: &Attributes, report: &mut Report) {
    let Some(seconds) = number(attributes, &MessageRetentionPeriod) else { return };
    let expected = if queue.of_dispatch { RETENTION_DISPATCH } else { RETENTION_CLEANUP };
    let found =
        format!("the {} queue keeps messages for {seconds} s; the template has {expected} s", queue.name);
    let remedy = format!("set its retention to {expected} s");
    match seconds.cmp(&expected) {
        Ordering::Equal => {}
        Ordering::Less => report.fault(found, format!("{remedy}: older messages are deleted unread")),
        Ordering::Greater => {
            report.warning(
                found,
                format!("{remedy}: a message keeps its age in the quarantine, and needs time there"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_testkit::template::Template;

    use super::{super::report::tests::finds, *};

    const QUARANTINE: &str = "arn:aws:sqs:eu-central-1:1:quarantine";

    fn redrive(to: &str, count: &str) -> String {
        format!(r#"{{"deadLetterTargetArn":"{to}","maxReceiveCount":{count}}}"#)
    }

    #[test]
    fn each_wrong_attribute_is_one_finding() {
        let (ingest, quarantine) = (&QUEUES[0], &QUEUES[5]);
        let healthy = redrive(QUARANTINE, "20");
        let attributes = |queue: &Queue| {
            let [days, policy] = if queue.of_dispatch { ["864000", &healthy] } else { ["1209600", ""] };
            [(VisibilityTimeout, "180"), (MessageRetentionPeriod, days), (RedrivePolicy, policy)]
        };
        for (queue, name, value, expected) in [
            (ingest, VisibilityTimeout, "180", ""),
            (quarantine, VisibilityTimeout, "180", ""),
            (
                ingest,
                VisibilityTimeout,
                "179",
                "fault: the visibility timeout of {} is 179 s, and dispatch may run for 30 s",
            ),
            (ingest, RedrivePolicy, "", "fault: {} has no redrive policy"),
            (
                ingest,
                RedrivePolicy,
                &redrive(QUARANTINE, "3"),
                "fault: {} moves messages to quarantine after 3 receives",
            ),
            (ingest, RedrivePolicy, &redrive("arn:other", "\"20\""), "fault: {} moves messages to arn:other"),
            (quarantine, RedrivePolicy, &healthy, "fault: {} has a redrive policy"),
            (ingest, MessageRetentionPeriod, "345600", "fault: {} keeps messages for 345600 s"),
            (ingest, MessageRetentionPeriod, "1209600", "warning: {} keeps messages for 1209600 s"),
        ] {
            let mut attributes: Attributes =
                HashMap::from(attributes(queue).map(|(name, it)| (name, it.to_owned())));
            attributes.insert(name, value.to_owned());
            let expected = expected.replace("{}", &format!("the {} queue", queue.name));
            finds(&expected, |report| {
                judge_visibility(queue, Duration::from_secs(30), LEASE_MARGIN, &attributes, report);
                judge_redrive(queue, Some(QUARANTINE), &attributes, report);
                judge_retention(queue, &attributes, report);
            });
        }
    }

    #[test]
    fn the_queues_are_the_template_s() {
        let template = Template::read();
        for queue in QUEUES.iter().chain([&RELAY]) {
            assert!(template["Outputs"].get(queue.output).is_some(), "{}", queue.output);
        }
        let all: Vec<_> = template.resources("AWS::SQS::Queue").map(|(_, queue)| queue).collect();
        let receives =
            |queue: &&redial_testkit::template::Value| queue["RedrivePolicy"]["maxReceiveCount"] == RECEIVES;
        assert_eq!((all.len(), all.into_iter().filter(receives).count()), (QUEUES.len() + 1, 4));
        let outputs = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        assert_eq!(queues(&outputs(&[])).count(), 6);
        assert_eq!(queues(&outputs(&["EventsRelayQueueUrl"])).last(), Some(&RELAY));
    }
}
