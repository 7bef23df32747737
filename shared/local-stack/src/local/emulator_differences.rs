//! Where the embedded emulator is not AWS, and what is done about it: all of it, and nowhere else.
//!
//! | difference | what is done |
//! |---|---|
//! | A mapping's `MaximumConcurrency` that is a `!Ref` arrives as text, and stops every mapping's poller | the parameter's value is written in its place |
//! | Its CloudFormation refuses alarms over metric math | those alarms are left out; none would ever fire, since embedded metrics are not read |
//! | `TimeToLiveSpecification` is ignored | `UpdateTimeToLive` after the deployment |
//! | A function's `RecursiveLoop` is ignored, and answered as `Terminate` | `PutFunctionRecursionConfig` after the deployment, for the functions whose template has it |
//! | Its process's `AWS_ENDPOINT_URL` overrides a function's own | functions are pointed elsewhere through the process ([`super::emulator_process`]) |
//! | A mapping's `Enabled: false` is followed, and its state is `Enabled` | `UpdateEventSourceMapping` after the deployment |
//! | A function's URL is one of AWS's, which leads nowhere | the emulator's own path to it is taken ([`api_url`]) |
//! | A failing poller is a line in its log and nothing else | [`poller_failure`] finds it |
//!
//! Further differences need nothing here: queue and bucket policies and roles are not enforced, generated secrets
//! hold punctuation although the template excludes it, a `!Ref` to a secret is its name instead of its ARN, anomaly detection does not
//! exist, the mappings poll once a second when idle, rounds of a loop are not counted (`RecursiveLoop` is ignored, and every function says
//! `Terminate`), and point-in-time recovery is accepted and stays off.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use aws_sdk_lambda::types::RecursiveLoop;

use super::{
    Tables,
    description::Functions,
    error::{LocalError, call},
    package::Template,
};

/// The attribute by which items expire, in every table that has one.
const EXPIRY_ATTRIBUTE: &str = "expires_at";

/// Rewrites what the emulator would take wrongly. `parameters` are those given to the stack.
pub(super) fn adapted(
    template: &Template,
    parameters: &BTreeMap<String, String>,
) -> Result<Template, LocalError> {
    let entries: Vec<&str> = template.entries().collect();
    let mut text = String::with_capacity(template.0.len());
    for entry in entries.iter().filter(|entry| !is_metric_math_alarm(entry)) {
        for line in entry.split_inclusive('\n') {
            text.push_str(&with_literal_concurrency(line, &entries, parameters)?);
        }
    }
    Ok(Template(text))
}

fn is_metric_math_alarm(entry: &str) -> bool {
    entry.contains("    Type: AWS::CloudWatch::Alarm\n") && entry.contains("\n      Metrics:\n")
}

fn with_literal_concurrency(
    line: &str,
    entries: &[&str],
    parameters: &BTreeMap<String, String>,
) -> Result<String, LocalError> {
    const REFERENCE: &str = "MaximumConcurrency: !Ref ";
    let Some((before, after)) = line.split_once(REFERENCE) else { return Ok(line.to_owned()) };
    let length = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
    let (name, after) = after.split_at(length);
    let value = parameters.get(name).map(String::as_str).or_else(|| default_of(name, entries));
    let number = value.and_then(|value| value.parse::<u32>().ok());
    let number = number
        .ok_or_else(|| LocalError::Template(format!("the parameter {name} has no number as its value")))?;
    Ok(format!("{before}MaximumConcurrency: {number}{after}"))
}

fn default_of<'a>(parameter: &str, entries: &[&'a str]) -> Option<&'a str> {
    let heading = format!("  {parameter}:\n");
    let entry = entries.iter().find(|entry| entry.starts_with(&heading))?;
    entry.lines().find_map(|line| line.strip_prefix("    Default: "))
}

/// Switches on what the emulator left out of the tables.
pub(super) async fn switch_on_expiry(
    dynamodb: &aws_sdk_dynamodb::Client,
    tables: &Tables,
) -> Result<(), LocalError> {
    let specification = TimeToLiveSpecification::builder()
        .attribute_name(EXPIRY_ATTRIBUTE)
        .enabled(true)
        .build()
        .expect("both of its fields are set");
    for table in
        [&tables.deliveries, &tables.subscriptions, &tables.audiences, &tables.dead_letters, &tables.control]
    {
        dynamodb
            .update_time_to_live()
            .table_name(table)
            .time_to_live_specification(specification.clone())
            .send()
            .await
            .map_err(call("UpdateTimeToLive"))?;
    }
    Ok(())
}

/// Gives the functions the recursion setting that the template has for them.
pub(super) async fn allow_recursion(
    lambda: &aws_sdk_lambda::Client,
    template: &Template,
    functions: &Functions,
) -> Result<(), LocalError> {
    for (resource, function) in [
        ("DispatchFunction", &functions.dispatch),
        ("CleanupFunction", &functions.cleanup),
        ("IngestFunction", &functions.ingest),
    ] {
        if allows_recursion(template, resource) {
            let put = lambda.put_function_recursion_config().function_name(function);
            let put = put.recursive_loop(RecursiveLoop::Allow).send().await;
            put.map_err(call("PutFunctionRecursionConfig"))?;
        }
    }
    Ok(())
}

fn allows_recursion(template: &Template, resource: &str) -> bool {
    let heading = format!("  {resource}:\n");
    template
        .entries()
        .any(|entry| entry.starts_with(&heading) && entry.contains("\n      RecursiveLoop: Allow\n"))
}

/// Has the mappings of dispatch say that they are disabled, on a stack that is on standby.
pub(super) async fn stand_by(
    lambda: &aws_sdk_lambda::Client,
    functions: &Functions,
    parameters: &BTreeMap<String, String>,
) -> Result<(), LocalError> {
    if parameters.get("Standby").is_none_or(|value| value != "true") {
        return Ok(());
    }
    let listed = lambda.list_event_source_mappings().function_name(&functions.dispatch).send().await;
    for mapping in listed.map_err(call("ListEventSourceMappings"))?.event_source_mappings() {
        let update = lambda.update_event_source_mapping().set_uuid(mapping.uuid.clone());
        update.enabled(false).send().await.map_err(call("UpdateEventSourceMapping"))?;
    }
    Ok(())
}

/// Where the HTTP API is, whose address the stack says is `url`. LocalStack's leads to it; the embedded emulator gives one of
/// AWS's, and has a path for its first label.
pub(super) fn api_url(endpoint: &str, url: &str) -> String {
    let label = url.strip_prefix("https://").and_then(|rest| rest.split_once(".lambda-url."));
    match label {
        Some((id, rest)) if rest.trim_end_matches('/').ends_with(".on.aws") => {
            format!("{endpoint}/_aws/lambda-url/{id}")
        }
        Some(_) | None => url.trim_end_matches('/').to_owned(),
    }
}

/// The line that says a mapping's poller failed, if the emulator's log has one: messages may then never have been
/// delivered, so nothing that was seen in such a run counts.
pub(super) fn poller_failure(log: &str) -> Option<&str> {
    log.lines().find(|line| line.contains("poller error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        Template(include_str!("../../../../infra/template.yaml").to_owned())
    }

    #[test]
    fn concurrencies_become_numbers_the_given_ones_first() {
        let given = BTreeMap::from([("IngestConcurrency".to_owned(), "7".to_owned())]);
        let adapted = adapted(&template(), &given).expect("the template's parameters").0;
        assert!(adapted.contains("ScalingConfig: { MaximumConcurrency: 7 }"));
        assert!(adapted.contains("ScalingConfig: { MaximumConcurrency: 5 }"));
        assert!(!adapted.contains("MaximumConcurrency: !Ref"));
    }

    #[test]
    fn only_alarms_over_metric_math_are_left_out() {
        let adapted = adapted(&template(), &BTreeMap::new()).expect("the template's parameters").0;
        assert!(!adapted.contains("      Metrics:\n"));
        assert!(adapted.contains("  QuarantineDepthAlarm:\n"));
        assert!(adapted.contains("\nOutputs:\n"));
    }

    #[test]
    fn a_function_s_recursion_setting_is_the_template_s() {
        let function = |name: &str, more: &str| {
            format!(
                "  {name}:\n    Type: AWS::Serverless::Function\n    Properties:\n{more}      Handler: bootstrap\n"
            )
        };
        let with = function("DispatchFunction", "      RecursiveLoop: Allow\n");
        let template = Template(format!("Resources:\n{with}{}", function("CleanupFunction", "")));
        assert!(allows_recursion(&template, "DispatchFunction"));
        assert!(
            !allows_recursion(&template, "CleanupFunction") && !allows_recursion(&template, "IngestFunction")
        );
    }

    #[test]
    fn a_url_of_aws_s_becomes_the_emulator_s_path_and_others_stay() {
        let of = |url: &str| api_url("http://127.0.0.1:4566", url);
        assert_eq!(
            of("https://abc.lambda-url.us-east-1.on.aws/"),
            "http://127.0.0.1:4566/_aws/lambda-url/abc"
        );
        for url in ["http://abc.lambda-url.us-east-1.localhost.localstack.cloud:4566", "https://x.example"] {
            let with_slash = format!("{url}/");
            assert_eq!(of(&with_slash), url);
        }
    }

    #[test]
    fn the_tables_switched_on_are_those_of_the_template() {
        let expiring: Vec<String> = template()
            .entries()
            .filter(|entry| {
                entry.contains(&format!(
                    "TimeToLiveSpecification: {{ AttributeName: {EXPIRY_ATTRIBUTE}, Enabled: true }}"
                ))
            })
            .filter_map(|entry| entry.trim_start().split(':').next().map(str::to_owned))
            .collect();
        assert_eq!(
            expiring,
            ["DeliveriesTable", "SubscriptionsTable", "AudiencesTable", "DeadLettersTable", "ControlTable"]
        );
    }
}
