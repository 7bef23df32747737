//! The stack's alarms: all present, each with an action, none firing.
//!
//! CloudFormation lists them. On an emulator alarms may be missing or never fire, so only those that exist are examined.

use aws_sdk_cloudformation::types::{ResourceStatus, StackResourceSummary};

use super::{report::Report, stack::Stack};
use crate::{
    asked::{Trouble, asked},
    cloudwatch::{self, Alarm},
};

/// The most alarms that a finding names.
const NAMED: usize = 5;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let deployed = deployed(stack).await;
    let why = "the stack is unknown to CloudFormation";
    let Some(deployed) = report.read_if_present("the list of the stack's alarms", deployed, why) else {
        return;
    };
    let names: Vec<String> = deployed.iter().map(|(_, name)| name.clone()).collect();
    let alarms = cloudwatch::alarms(&stack.target.sdk, &names).await;
    if let Some(alarms) = report.read("the stack's alarms", alarms) {
        judge(&deployed, &alarms, stack.target.is_emulated(), report);
    }
}

/// The alarms by their names in the template, with their names in CloudWatch.
async fn deployed(stack: &Stack) -> Result<Vec<(String, String)>, Trouble> {
    stack.outputs.as_ref().map_err(Clone::clone)?;
    let client = aws_sdk_cloudformation::Client::new(&stack.target.sdk);
    let listed = client.list_stack_resources().stack_name(&stack.name).into_paginator().items().send();
    let listed = listed.collect::<Result<Vec<StackResourceSummary>, _>>().await;
    let resources = asked("cloudformation:ListStackResources", listed)?;
    let is_alarm = |it: &StackResourceSummary| {
        use ResourceStatus::{DeleteComplete, DeleteSkipped};
        matches!(it.resource_type(), Some("AWS::CloudWatch::Alarm" | "AWS::CloudWatch::CompositeAlarm"))
            && !matches!(it.resource_status(), Some(DeleteComplete | DeleteSkipped))
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
                silent.extend(Some(name.as_str()).filter(|_| !alarm.notifies));
                firing.extend(Some(name.as_str()).filter(|_| alarm.is_firing));
            }
        }
    }
    let all = deployed.len();
    if !missing.is_empty() {
        report.fault(
            format!("alarms were deleted: {}", listed(&missing)),
            "deploy the template with another value of one of their parameters, such as RunbookUrl: CloudFormation \
             creates them again",
        );
    }
    if !firing.is_empty() {
        report.fault(
            format!("alarms are firing: {}", listed(&firing)),
            "follow the link in each one's description to the runbook",
        );
    }
    if is_emulated {
        return report.well(format!(
            "{all} alarms exist; their actions were not checked, since none fires on an emulator"
        ));
    }
    if !silent.is_empty() {
        report.warning(
            format!("{} of {all} alarms notify no one: {}", silent.len(), listed(&silent)),
            "deploy with AlarmTopicArn, an SNS topic with subscribers; if it is set, enable the alarms' actions",
        );
    }
    report.well(format!("{all} alarms exist, each has an action, and none is firing"));
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
    use super::{super::report::tests::finds, *};

    #[test]
    fn missing_silent_and_firing_alarms_are_named_as_in_the_template() {
        let deployed = ["A", "B"].map(|name| (format!("{name}Alarm"), format!("shop-{name}")));
        let alarm =
            |name: &str, is_firing, notifies| Alarm { name: format!("shop-{name}"), is_firing, notifies };
        let healthy = [alarm("A", false, true), alarm("B", false, true)];
        let silent = [alarm("A", false, false), alarm("B", false, false)];
        for (alarms, is_emulated, expected) in [
            (&healthy[..], false, ""),
            (&healthy[..1], false, "fault: alarms were deleted: BAlarm"),
            (&[alarm("A", false, true), alarm("B", true, true)], false, "fault: alarms are firing: BAlarm"),
            (&silent, false, "warning: 2 of 2 alarms notify no one: AAlarm, BAlarm"),
            (&silent, true, ""),
        ] {
            finds(expected, |report| judge(&deployed, alarms, is_emulated, report));
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(listed(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }
}
