//! The deployed template against CloudFormation's quotas: a template beyond them cannot be deployed again.

use aws_sdk_cloudformation::{Client, types::TemplateStage};
use futures_util::join;
use serde_json::Value;

use super::{
    report::{Report, Severity},
    stack::Stack,
};
use crate::asked::{Trouble, asked};

/// The longest template from a bucket, and the longest one in the call itself, in bytes (CloudFormation quotas: 1 MB and 51,200
/// bytes). They hold for the template as written, and for the one after the transform.
const FROM_A_BUCKET: usize = 1_000_000;
const INLINE: usize = 51_200;

/// The most resources of a template (CloudFormation quotas).
const RESOURCES: usize = 500;

/// From this percentage of a quota on, a warning.
const NEAR: usize = 90;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
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
        judge(&written, &processed, report);
    }
}

async fn template(client: &Client, stack: &str, stage: TemplateStage) -> Result<String, Trouble> {
    let template = client.get_template().stack_name(stack).template_stage(stage).send().await;
    Ok(asked("cloudformation:GetTemplate", template)?.template_body.unwrap_or_default())
}

/// `processed` is the transform's output, which is always JSON.
fn judge(written: &str, processed: &str, report: &mut Report) {
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
            finds(expected, |report| judge(&" ".repeat(bytes), &processed, report));
        }
        finds("unchecked: ", |report| judge("Resources: {}", "Resources: {}", report));
    }
}
