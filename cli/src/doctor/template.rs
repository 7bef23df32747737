//! The deployed template against CloudFormation's quotas: what is over them cannot be deployed again.

use aws_sdk_cloudformation::{Client, types::TemplateStage};
use futures_util::join;
use serde_json::Value;

use super::{
    aws_error::{AwsError, classified},
    queues::unfound,
    report::{Report, Severity},
    stack::Stack,
};

/// The longest template that comes from a bucket, and the longest that is passed in the call itself, in bytes (CloudFormation
/// quotas: 1 MB and 51,200 bytes). They hold for the template as written, and as it is after the transform.
const FROM_A_BUCKET: usize = 1_000_000;
const INLINE: usize = 51_200;

/// The most resources of a template (CloudFormation quotas).
const RESOURCES: usize = 500;

/// From this share of a quota on, in percent, it is worth a look.
const NEAR: usize = 90;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("template");
    if let Err(trouble) = stack.outputs() {
        unfound(trouble, &mut report);
        return report;
    }
    let client = Client::new(&stack.target.sdk);
    let (written, processed) = join!(
        template(&client, stack.name(), TemplateStage::Original),
        template(&client, stack.name(), TemplateStage::Processed),
    );
    match written.and_then(|written| Ok((written, processed?))) {
        Ok((written, processed)) => judge(&written, &processed, &mut report),
        Err(trouble) => report.trouble("the deployed template", &trouble),
    }
    report
}

async fn template(client: &Client, stack: &str, stage: TemplateStage) -> Result<String, AwsError> {
    let template = client.get_template().stack_name(stack).template_stage(stage).send().await;
    Ok(classified("cloudformation:GetTemplate", template)?.template_body.unwrap_or_default())
}

/// `processed` is what the transform made of it, which is always JSON.
fn judge(written: &str, processed: &str, report: &mut Report) {
    let bytes = written.len().max(processed.len());
    let processed: Value = serde_json::from_str(processed).unwrap_or_default();
    let Some(resources) = processed["Resources"].as_object().map(serde_json::Map::len) else {
        report.unchecked("the number of resources", "the processed template cannot be read");
        return;
    };
    quota(bytes, FROM_A_BUCKET, "bytes", report);
    quota(resources, RESOURCES, "resources", report);
    let inline = if bytes > INLINE { ", too long to be deployed without a bucket" } else { "" };
    report.well(format!(
        "it has {bytes} of the {FROM_A_BUCKET} bytes that CloudFormation takes{inline}, and {resources} of {RESOURCES} \
         resources"
    ));
}

fn quota(count: usize, quota: usize, unit: &str, report: &mut Report) {
    if count * 100 < quota * NEAR {
        return;
    }
    let severity = if count >= quota { Severity::Fault } else { Severity::Warning };
    report.finding(
        severity,
        format!("the deployed template has {count} {unit}, and CloudFormation takes {quota}"),
        "move what you added to the template into a stack of its own: CloudFormation refuses a template over its quota, \
         and with it every later release",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(written: usize, resources: usize) -> Report {
        let mut report = Report::new("template");
        judge(&" ".repeat(written), &processed(resources), &mut report);
        report
    }

    fn processed(resources: usize) -> String {
        let resources: serde_json::Map<String, Value> =
            (0..resources).map(|at| (format!("R{at}"), Value::Null)).collect();
        serde_json::json!({"Resources": resources}).to_string()
    }

    #[test]
    fn a_template_near_or_over_a_quota_is_found() {
        let found = |written, resources| {
            let report = report(written, resources);
            let found = report.findings.iter().map(|finding| finding.found.clone()).collect::<Vec<_>>();
            (found, report.has_faults())
        };
        assert_eq!(found(899_999, 449), (Vec::new(), false));
        let of_resources =
            |count| format!("the deployed template has {count} resources, and CloudFormation takes 500");
        assert_eq!(found(0, 450), (vec![of_resources(450)], false));
        assert_eq!(found(0, 500), (vec![of_resources(500)], true));
        let of_bytes =
            |count| format!("the deployed template has {count} bytes, and CloudFormation takes 1000000");
        assert_eq!(found(900_000, 100), (vec![of_bytes(900_000)], false));
        assert_eq!(found(1_000_000, 100), (vec![of_bytes(1_000_000)], true));
    }

    #[test]
    fn a_template_that_cannot_be_read_is_not_called_well() {
        let mut report = Report::new("template");
        judge("Resources: {}", "Resources: {}", &mut report);
        assert!(!report.is_ok() && report.findings.is_empty());
    }
}
