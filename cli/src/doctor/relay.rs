//! Events on their way to several targets: the queue of the stack's own for them, the bus of EventBridge, and callbacks.
//!
//! An event waits there until each of its targets has taken it, for up to 14 days. Deliveries go on meanwhile. SQS leaves an event that was
//! received three times out of the age of the queue's oldest message, so what the bus refused is read from the log of cleanup. That a
//! callback's webhook fails shows at its deliveries; whether it is there and switched on, `callbacks` examines.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_iam::types::PolicyEvaluationDecisionType;
use futures_util::join;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::Value;

use super::{
    callbacks,
    report::Report,
    stack::{Function, Stack},
};
use crate::{
    aws_error::{AwsError, classified},
    status::{Backlog, relay_backlog},
};

const PUT: &str = "events:PutEvents";

/// CloudWatch's pattern for what cleanup could not put on a bus; [`judge_refusals`] checks its result.
const REFUSALS: &str = "{ $.operation = \"PutEvents\" }";

/// An event that was refused is put again every three minutes, so a bus that still refuses events did so within this time.
const RECENT: Duration = Duration::from_secs(15 * 60);

/// What EventBridge answers when it had no time for an event (PutEventsResultEntry): the event is put again.
const PASSING: [&str; 2] = ["ThrottlingException", "InternalFailure"];

/// Where an ARN says that something is: `arn:aws:events:REGION:ACCOUNT:event-bus/NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place<'a> {
    region: &'a str,
    account: &'a str,
    resource: &'a str,
}

impl<'a> Place<'a> {
    fn of(arn: &'a str) -> Option<Self> {
        let mut parts = arn.splitn(6, ':').skip(3);
        Some(Self { region: parts.next()?, account: parts.next()?, resource: parts.next()? })
    }

    /// Without `event-bus/`.
    fn name(&self) -> &'a str {
        self.resource.split_once('/').map_or(self.resource, |(_, name)| name)
    }
}

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Ok(cleanup) = &stack.cleanup else {
        return report.unchecked("where events go", "cleanup's configuration is unknown");
    };
    let bus = cleanup.variable("EVENT_BUS_ARN");
    let are_posted = cleanup.variable("CALLBACKS") == Some("on");
    report.well(match (bus, are_posted) {
        (None, false) => "events go to no bus and no callback, so that none are relayed",
        (Some(_), false) => "the bus is there, cleanup's role may put events to it, and it refuses none",
        (None, true) => "events are posted to callbacks, which are set, and go to no bus",
        (Some(_), true) => {
            "the bus is there, cleanup's role may put events to it, it refuses none, and callbacks are set"
        }
    });
    if let Some(arn) = bus {
        check_bus(stack, cleanup, arn, report).await;
    }
    let (backlog, ()) =
        join!(relay_backlog(&stack.target, System.now()), callbacks::check(stack, are_posted, report));
    // The check of the queues reports that it does not exist.
    let why = "another check reports that it does not exist";
    if let Some(backlog) = report.read_if_present("what waits on the events relay queue", backlog, why) {
        judge_backlog(backlog, report);
    }
}

async fn check_bus(stack: &Stack, cleanup: &Function, arn: &str, report: &mut Report) {
    // The check of the configuration reports an ARN that is none.
    let Some(bus) = Place::of(arn) else { return };
    let own = cleanup.configuration.function_arn().and_then(Place::of);
    if let Some(own) = own
        && own.region != bus.region
    {
        return report.fault(
            format!("the bus {} is in {}, and cleanup puts events in {} alone", bus.name(), bus.region, own.region),
            "deploy with the EventBusArn of a bus in the stack's region; a rule of it can send events to another one",
        );
    }
    if own.is_some_and(|own| own.account != bus.account) {
        let what = format!("whether the bus {} of the account {} takes events", bus.name(), bus.account);
        report.unchecked(what, "only that account shows it; what cleanup logged is examined instead");
    } else {
        let client = aws_sdk_eventbridge::Client::new(&stack.target.sdk);
        let described = client.describe_event_bus().name(bus.name()).send().await;
        judge_bus(bus, classified("events:DescribeEventBus", described).map(drop), report);
    }
    let lines = stack.log(cleanup, REFUSALS, System.now().minus(RECENT)).await;
    if let Some((lines, all)) = report.read("the log of cleanup", lines) {
        judge_refusals(bus, lines.iter().map(|(_, line)| line.as_str()), report);
        if !all {
            report.unchecked("the whole log of cleanup of the last quarter of an hour", "it is too long");
        }
    }
    if !stack.compares_roles {
        check_role(stack, cleanup, arn, report).await;
    }
}

fn judge_bus(bus: Place<'_>, described: Result<(), AwsError>, report: &mut Report) {
    let name = bus.name();
    if described == Err(AwsError::Absent) {
        return report.fault(
            format!("the bus {name} of EventBusArn does not exist: events wait for it, and are deleted after 14 days"),
            format!("create it (aws events create-event-bus --name {name}), or deploy with another EventBusArn"),
        );
    }
    report.read(format!("the bus {name}"), described);
}

fn judge_refusals<'a>(bus: Place<'_>, lines: impl Iterator<Item = &'a str>, report: &mut Report) {
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["operation"] == "PutEvents"
            && let Some(code) = line["code"].as_str().filter(|code| !PASSING.contains(code))
        {
            *codes.entry(code.to_owned()).or_default() += 1;
        }
    }
    if codes.is_empty() {
        return;
    }
    let codes: Vec<String> = codes.iter().map(|(code, n)| format!("{code} ({n})")).collect();
    report.fault(
        format!("the bus {} refused events within the last quarter of an hour: {}", bus.name(), codes.join(", ")),
        format!(
            "let the bus's policy in the account {} allow this account {PUT}; `Cleanup fails` in the runbook has other causes",
            bus.account
        ),
    );
}

/// Whether IAM lets the role put events to the bus: its own policies, its boundary and those of the organisation.
async fn check_role(stack: &Stack, cleanup: &Function, bus: &str, report: &mut Report) {
    let what = "whether cleanup's role may put events to the bus";
    let Some(role) = cleanup.configuration.role() else { return report.unchecked(what, "it has none") };
    let client = aws_sdk_iam::Client::new(&stack.target.sdk);
    let simulated = client.simulate_principal_policy().policy_source_arn(role).action_names(PUT);
    let simulated = classified("iam:SimulatePrincipalPolicy", simulated.resource_arns(bus).send().await);
    if let Some(simulated) = report.read(what, simulated) {
        let results = simulated.evaluation_results();
        judge_role(results.iter().map(|result| result.eval_decision()), report);
    }
}

fn judge_role<'a>(
    mut decisions: impl Iterator<Item = &'a PolicyEvaluationDecisionType>,
    report: &mut Report,
) {
    if decisions.any(|decision| *decision != PolicyEvaluationDecisionType::Allowed) {
        report.fault(
            format!("cleanup's role may not {PUT} on the bus of EventBusArn: events wait, and are deleted after 14 days"),
            "deploy the template again, which allows it; if it stays so, look for a permissions boundary, or a policy of \
             your organisation, that does not",
        );
    }
}

fn judge_backlog(backlog: Backlog, report: &mut Report) {
    let remedy = "each event waits until all of its targets have taken it: `Events are not relayed` in the runbook finds the \
                  one that does not";
    if let Some(found) = backlog.too_old {
        report.fault(format!("{found}: a target does not take it"), remedy);
    }
    if let Some(found) = backlog.too_many {
        report.warning(found, remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    const BUS: Place<'static> =
        Place { region: "eu-central-1", account: "210987654321", resource: "event-bus/app" };

    #[test]
    fn a_place_is_read_from_an_arn() {
        assert_eq!(Place::of("arn:aws:events:eu-central-1:210987654321:event-bus/app"), Some(BUS));
        assert_eq!(BUS.name(), "app");
        assert_eq!(Place::of("app"), None);
    }

    #[test]
    fn a_bus_that_does_not_exist_is_a_fault() {
        let refused = AwsError::Refused { permission: "events:DescribeEventBus".to_owned() };
        for (described, expected) in [
            (Ok(()), ""),
            (Err(AwsError::Absent), "fault: the bus app of EventBusArn does not exist"),
            (Err(refused), "unchecked: the bus app"),
        ] {
            finds(expected, |report| judge_bus(BUS, described, report));
        }
    }

    #[test]
    fn refusals_of_the_bus_are_counted_by_code() {
        let refused = r#"{"event":"infrastructure","operation":"PutEvents","code":"AccessDeniedException"}"#;
        let other = r#"{"event":"infrastructure","operation":"SendMessageBatch","code":"KmsAccessDenied"}"#;
        let passing = r#"{"event":"infrastructure","operation":"PutEvents","code":"ThrottlingException"}"#;
        let expected =
            "fault: the bus app refused events within the last quarter of an hour: AccessDeniedException (2)";
        finds(expected, |report| {
            judge_refusals(BUS, [refused, other, "PutEvents", passing, refused].into_iter(), report)
        });
        finds("", |report| judge_refusals(BUS, [other, passing].into_iter(), report));
    }

    #[test]
    fn a_role_that_iam_denies_the_bus_is_a_fault() {
        use PolicyEvaluationDecisionType::{Allowed, ExplicitDeny, ImplicitDeny};
        let denied = "fault: cleanup's role may not events:PutEvents on the bus";
        for (decision, expected) in [(Allowed, ""), (ImplicitDeny, denied), (ExplicitDeny, denied)] {
            finds(expected, |report| judge_role([&decision].into_iter(), report));
        }
    }

    #[test]
    fn an_old_event_is_a_fault_and_many_are_a_warning() {
        let text = |text: &str| Some(text.to_owned());
        let old = Backlog { too_old: text("the oldest is 20m old"), too_many: None };
        finds("fault: the oldest is 20m old: a target does not take it", |report| judge_backlog(old, report));
        let many = Backlog { too_old: None, too_many: text("10001 messages wait") };
        finds("warning: 10001 messages wait", |report| judge_backlog(many, report));
        finds("", |report| judge_backlog(Backlog::default(), report));
    }
}
