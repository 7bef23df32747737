//! What CloudFormation deployed: the template against its quotas, beyond which it cannot be deployed again; and the stack's alarms: all
//! present, each with an action, none firing. On an emulator alarms may be missing or never fire, so only those that exist are
//! examined.

use aws_sdk_cloudformation::{Client, types::TemplateStage};
use futures_util::join;
use serde_json::Value;

use super::{
    report::{Report, Severity, listed},
    stack::{Resource, Stack},
};
use crate::{
    aws_error::{AwsError, classified},
    cloudwatch::{self, Alarm},
};

/// The longest template from a bucket, and the longest one in the call itself, in bytes (CloudFormation quotas: 1 MB and 51,200
/// bytes). They hold for the template as written, and for the one after the transform.
const FROM_A_BUCKET: usize = 1_000_000;
const INLINE: usize = 51_200;

/// The most resources of a template (CloudFormation quotas).
const RESOURCES: usize = 500;

/// From this percentage of a quota on, a warning.
const NEAR: usize = 90;

pub(super) async fn check_size(stack: &Stack, report: &mut Report) {
    if stack.outputs_for(report).is_none() {
        return;
    }
    let client = Client::new(&stack.target.sdk);
    let (written, processed) = join!(
        template(&client, &stack.name, TemplateStage::Original),
        template(&client, &stack.name, TemplateStage::Processed),
    );
    let templates = written.and_then(|written| Ok((written, processed?)));
    if let Some((written, processed)) = report.read("the deployed template", templates) {
        judge_size(&written, &processed, report);
    }
}

async fn template(client: &Client, stack: &str, stage: TemplateStage) -> Result<String, AwsError> {
    let template = client.get_template().stack_name(stack).template_stage(stage).send().await;
    Ok(classified("cloudformation:GetTemplate", template)?.template_body.unwrap_or_default())
}

/// `processed` is the transform's output, which is always JSON.
fn judge_size(written: &str, processed: &str, report: &mut Report) {
    let bytes = written.len().max(processed.len());
    let processed: Value = serde_json::from_str(processed).unwrap_or_default();
    let Some(resources) = processed["Resources"].as_object().map(serde_json::Map::len) else {
        report.unchecked("the number of resources", "the processed template is not JSON");
        return;
    };
    for (count, quota, unit) in [(bytes, FROM_A_BUCKET, "bytes"), (resources, RESOURCES, "resources")] {
        if count * 100 >= quota * NEAR {
            report.finding(
                if count >= quota { Severity::Fault } else { Severity::Warning },
                format!("the deployed template has {count} {unit}; CloudFormation allows {quota}"),
                "move what you added to the template into a stack of its own: CloudFormation refuses a template beyond \
                 its quotas, and every later release with it",
            );
        }
    }
    let inline = if bytes > INLINE { ", too many to deploy without a bucket" } else { "" };
    report.well(format!(
        "it has {bytes} of the {FROM_A_BUCKET} bytes that CloudFormation allows{inline}, and {resources} of \
         {RESOURCES} resources"
    ));
}

pub(super) async fn check_alarms(stack: &Stack, report: &mut Report) {
    let deployed = deployed(stack).await;
    let why = "the stack is unknown to CloudFormation";
    let Some(deployed) = report.read_if_present("the list of the stack's alarms", deployed, why) else {
        return;
    };
    let names: Vec<String> = deployed.iter().map(|(_, name)| name.clone()).collect();
    let alarms = cloudwatch::alarms(&stack.target.sdk, &names).await;
    if let Some(alarms) = report.read("the stack's alarms", alarms) {
        judge_alarms(&deployed, &alarms, stack.target.is_emulated(), report);
    }
}

/// The alarms by their names in the template, with their names in CloudWatch.
async fn deployed(stack: &Stack) -> Result<Vec<(String, String)>, AwsError> {
    let is_alarm = |it: &Resource| {
        matches!(it.kind.as_str(), "AWS::CloudWatch::Alarm" | "AWS::CloudWatch::CompositeAlarm")
    };
    let alarms = stack.resources().await?.into_iter().filter(is_alarm);
    Ok(alarms.map(|alarm| (alarm.name, alarm.deployed_as)).collect())
}

fn judge_alarms(deployed: &[(String, String)], alarms: &[Alarm], is_emulated: bool, report: &mut Report) {
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

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    #[test]
    fn a_template_near_a_quota_is_a_warning_and_one_at_it_a_fault() {
        for (bytes, resources, expected) in [
            (899_999, 449, ""),
            (0, 450, "warning: the deployed template has 450 resources; CloudFormation allows 500"),
            (0, 500, "fault: the deployed template has 500 resources; CloudFormation allows 500"),
            (900_000, 100, "warning: the deployed template has 900000 bytes; CloudFormation allows 1000000"),
            (1_000_000, 100, "fault: the deployed template has 1000000 bytes; CloudFormation allows 1000000"),
        ] {
            let resources: serde_json::Map<String, Value> =
                (0..resources).map(|at| (format!("R{at}"), Value::Null)).collect();
            let processed = serde_json::json!({"Resources": resources}).to_string();
            finds(expected, |report| judge_size(&" ".repeat(bytes), &processed, report));
        }
        finds("unchecked: ", |report| judge_size("Resources: {}", "Resources: {}", report));
    }

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
            finds(expected, |report| judge_alarms(&deployed, alarms, is_emulated, report));
        }
    }
}
