//! The stack's alarms: all there, each telling someone, none firing.
//!
//! Which there are, CloudFormation says. On an emulator alarms may be missing or never fire, so only those that are there
//! are looked at.

use aws_sdk_cloudformation::types::{ResourceStatus, StackResourceSummary};

use super::{
    asked::{Trouble, asked},
    cloudwatch::{self, Alarm},
    report::Report,
    stack::Stack,
};

/// So many are named; of more, how many there are.
const NAMED: usize = 5;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("alarms");
    let deployed = match deployed(stack).await {
        Ok(deployed) => deployed,
        // That the stack itself is absent is told by the check of the configuration.
        Err(Trouble::Absent) => {
            report.unchecked("all of this", "the stack's alarms are not known");
            return report;
        }
        Err(trouble) => {
            report.trouble("the list of the stack's alarms", &trouble);
            return report;
        }
    };
    let names: Vec<String> = deployed.iter().map(|(_, name)| name.clone()).collect();
    match cloudwatch::alarms(&stack.target.sdk, &names).await {
        Ok(alarms) => judge(&deployed, &alarms, stack.is_emulated(), &mut report),
        Err(trouble) => report.trouble("the stack's alarms", &trouble),
    }
    report
}

/// The alarms as the template names them, with their names in CloudWatch.
async fn deployed(stack: &Stack) -> Result<Vec<(String, String)>, Trouble> {
    if let Err(trouble) = stack.outputs() {
        return Err(trouble.clone());
    }
    let client = aws_sdk_cloudformation::Client::new(&stack.target.sdk);
    let listed = client.list_stack_resources().stack_name(stack.name()).into_paginator().items().send();
    let listed = listed.collect::<Result<Vec<StackResourceSummary>, _>>().await;
    let resources = asked("cloudformation:ListStackResources", listed)?;
    let is_gone = |it: &StackResourceSummary| {
        matches!(it.resource_status(), Some(ResourceStatus::DeleteComplete | ResourceStatus::DeleteSkipped))
    };
    let is_alarm = |it: &StackResourceSummary| {
        matches!(it.resource_type(), Some("AWS::CloudWatch::Alarm" | "AWS::CloudWatch::CompositeAlarm"))
            && !is_gone(it)
    };
    let names = |it: StackResourceSummary| Some((it.logical_resource_id?, it.physical_resource_id?));
    Ok(resources.into_iter().filter(is_alarm).filter_map(names).collect())
}

fn judge(deployed: &[(String, String)], alarms: &[Alarm], is_emulated: bool, report: &mut Report) {
    let (mut missing, mut silent, mut firing) = (Vec::new(), Vec::new(), Vec::new());
    for (name, deployed_as) in deployed {
        match alarms.iter().find(|alarm| alarm.name == *deployed_as) {
            None => missing.push(name.as_str()),
            Some(alarm) => {
                if !alarm.notifies {
                    silent.push(name.as_str());
                }
                if alarm.is_firing {
                    firing.push(name.as_str());
                }
            }
        }
    }
    if !missing.is_empty() {
        report.fault(
            format!("alarms were deleted: {}", listed(&missing)),
            "deploy the template with another value of a parameter of theirs, such as RunbookUrl: \
             CloudFormation makes them anew",
        );
    }
    if !firing.is_empty() {
        report.fault(
            format!("alarms are firing: {}", listed(&firing)),
            "follow the link in each one's description to the runbook",
        );
    }
    if is_emulated {
        report.well(format!(
            "{} alarms are there; whether they tell anyone was not looked at, since none fires on an emulator",
            deployed.len()
        ));
        return;
    }
    if !silent.is_empty() {
        report.warning(
            format!("{} of {} alarms tell nobody: {}", silent.len(), deployed.len(), listed(&silent)),
            "deploy with AlarmTopicArn, an SNS topic that someone reads; where it is set, switch the \
             alarms' actions on",
        );
    }
    report.well(format!("{} alarms are there, each tells someone, and none is firing", deployed.len()));
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(alarms: &[Alarm], is_emulated: bool) -> Vec<String> {
        let deployed = ["A", "B"].map(|name| (format!("{name}Alarm"), format!("shop-{name}")));
        let mut report = Report::new("alarms");
        judge(&deployed, alarms, is_emulated, &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    fn alarm(name: &str, is_firing: bool, notifies: bool) -> Alarm {
        Alarm { name: name.to_owned(), is_firing, notifies }
    }

    #[test]
    fn those_that_are_missing_silent_or_firing_are_named_as_in_the_template() {
        let healthy = [alarm("shop-A", false, true), alarm("shop-B", false, true)];
        assert_eq!(found(&healthy, false), [""; 0]);
        assert_eq!(found(&healthy[..1], false), ["alarms were deleted: BAlarm"]);
        let firing = [healthy[0].clone(), alarm("shop-B", true, true)];
        assert_eq!(found(&firing, false), ["alarms are firing: BAlarm"]);
        let silent = [alarm("shop-A", false, false), alarm("shop-B", false, false)];
        assert_eq!(found(&silent, false), ["2 of 2 alarms tell nobody: AAlarm, BAlarm"]);
        assert_eq!(found(&silent, true), [""; 0]);
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(listed(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }
}
