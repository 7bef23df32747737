//! The functions, their event source mappings, their schedules and their logs.
//!
//! A mapping that is off, or reports no failures, is `doctor`'s finding; here are the numbers, and a filter, which would delete
//! what it does not let through.

use aws_sdk_lambda::types::EventSourceMappingConfiguration as Mapping;
use futures_util::{future::join_all, join};
use serde_json::{Value, json};

use super::{
    release::{Part, Release},
    settings::{Check, Settings},
};
use crate::{
    aws_error::{AwsError, classified},
    doctor::{Report, Resource, Stack, mappings, of_queue},
    stack::Configuration,
};

const FUNCTION: &str = "AWS::Serverless::Function";
const MAPPING: &str = "AWS::Lambda::EventSourceMapping";

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let client = stack.target.lambda();
    let functions = release.parts_of(FUNCTION).filter_map(|part| Some((part.deployed_as?.to_owned(), part)));
    let read = functions.map(async |(name, part)| {
        let configuration = stack.target.configuration(&name);
        let reserved = client.get_function_concurrency().function_name(&name).send();
        let (configuration, reserved) = join!(configuration, reserved);
        let reserved = classified("lambda:GetFunctionConcurrency", reserved);
        (name, part, configuration, reserved.map(|it| it.reserved_concurrent_executions))
    });
    report.well("each function has the template's time, memory, role, log group and reserved concurrency");
    for (name, part, configuration, reserved) in join_all(read).await {
        let remedy = format!(
            "set it as the template has it: aws lambda update-function-configuration --function-name {name}"
        );
        let is_absent = matches!(configuration, Err(AwsError::Absent));
        Check { release, report: &mut *report }.compare(
            &part,
            configuration.map(|it| settings(&it)),
            &remedy,
        );
        if !is_absent && part.name == "IngestFunction" {
            judge_reserved(stack, &name, &part, reserved, release, report);
        }
    }
}

/// Of the function behind the HTTP API. For the others, as for a function that may not run at all, `doctor` has findings.
fn judge_reserved(
    stack: &Stack,
    function: &str,
    part: &Part<'_>,
    reserved: Result<Option<i32>, AwsError>,
    release: &Release,
    report: &mut Report,
) {
    let setting = "ReservedConcurrentExecutions";
    let what = format!("{setting} of {}", part.name);
    let Some(reserved) = report.read(what.clone(), reserved).filter(|it| *it != Some(0)) else { return };
    if reserved.is_none() && stack.target.is_emulated() {
        return report.unchecked(what, "this emulator reserves none");
    }
    let found = reserved.map_or(Value::Null, Value::from);
    let expected = release.property(part, setting);
    let remedy = format!("aws lambda put-function-concurrency --function-name {function}");
    Check { release, report }.judge(part.name, setting, expected.as_ref(), &found, &remedy);
}

fn settings(configuration: &Configuration) -> Settings {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let number = |number: Option<i32>| number.map_or(Value::Null, Value::from);
    let mut settings = vec![
        ("Timeout", number(configuration.timeout())),
        ("MemorySize", number(configuration.memory_size())),
        ("Runtime", text(configuration.runtime().map(|it| it.as_str()))),
        ("Role", text(configuration.role())),
    ];
    if let Some(group) = configuration.logging_config().and_then(|it| it.log_group()) {
        settings.push(("LoggingConfig", json!({"LogGroup": group})));
    }
    settings
}

pub(super) async fn check_mappings(stack: &Stack, release: &Release, report: &mut Report) {
    let client = stack.target.lambda();
    report.well("each mapping has the template's batch size, window and maximum concurrency, and no filter");
    for function in release.parts_of(FUNCTION) {
        let Some(deployed_as) = function.deployed_as else { continue };
        let what = format!("the mappings of {}", function.name);
        let why = "another check reports that it does not exist";
        let Some(mappings) = report.read_if_present(what, mappings(&client, deployed_as).await, why) else {
            continue;
        };
        let own = events(&function, "SQS").map(|(event, properties)| (event, properties, "Queue"));
        // Mappings with a condition of their own.
        let apart = release
            .parts_of(MAPPING)
            .filter(|mapping| mapping.properties["FunctionName"]["Ref"] == function.name);
        let apart = apart.map(|mapping| (mapping.name, mapping.properties, "EventSourceArn"));
        for (event, properties, queue) in own.chain(apart) {
            let queue = release.resolve(&properties[queue]);
            // `doctor` reports a queue without a mapping.
            let Some(mapping) =
                queue.as_ref().and_then(Value::as_str).and_then(|arn| of_queue(&mappings, arn))
            else {
                continue;
            };
            judge_mapping(&function, event, properties, mapping, release, report);
        }
    }
}

fn judge_mapping(
    function: &Part<'_>,
    event: &str,
    properties: &Value,
    mapping: &Mapping,
    release: &Release,
    report: &mut Report,
) {
    let number = |number: Option<i32>| number.map_or(Value::Null, Value::from);
    let maximum = mapping.scaling_config().and_then(|it| it.maximum_concurrency());
    let filters = mapping.filter_criteria().map(|it| it.filters().len()).filter(|count| *count > 0);
    let name = format!("the mapping {event} of {}", function.name);
    let remedy =
        format!("aws lambda update-event-source-mapping --uuid {}", mapping.uuid().unwrap_or("UUID"));
    let mut check = Check { release, report };
    let mut judge = |setting: &str, expected: &Value, found: Value| {
        check.judge(&name, setting, release.resolve(expected).as_ref(), &found, &remedy);
    };
    judge("BatchSize", &properties["BatchSize"], number(mapping.batch_size()));
    let window = "MaximumBatchingWindowInSeconds";
    judge(window, &properties[window], number(mapping.maximum_batching_window_in_seconds()));
    // `doctor` reports a mapping without a maximum.
    if maximum.is_some() {
        judge("MaximumConcurrency", &properties["ScalingConfig"]["MaximumConcurrency"], number(maximum));
    }
    judge(
        "FilterCriteria",
        &properties["FilterCriteria"],
        filters.map_or(Value::Null, |it| json!({"Filters": it})),
    );
}

/// The function's events of a type, with their properties.
fn events<'a>(function: &Part<'a>, kind: &'static str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let events = function.properties["Events"].as_object().into_iter().flatten();
    events
        .filter(move |(_, event)| event["Type"] == kind)
        .map(|(name, event)| (name.as_str(), &event["Properties"]))
}

/// The rules that call functions by the clock. SAM names a rule after its function and its event.
pub(super) async fn check_schedules(
    stack: &Stack,
    release: &Release,
    resources: &[Resource],
    report: &mut Report,
) {
    let client = aws_sdk_eventbridge::Client::new(&stack.target.sdk);
    report.well("the schedules are enabled, with the template's rates and what they hand to the functions");
    for function in release.parts_of(FUNCTION) {
        for (event, properties) in events(&function, "Schedule") {
            let name = format!("{}{event}", function.name);
            let Some(rule) = resources.iter().find(|it| it.name == name) else {
                no_rule(stack, &name, report);
                continue;
            };
            // A rule of the default bus is known by its name.
            let rule = rule.deployed_as.as_str();
            let described = client.describe_rule().name(rule).send().await;
            let described = classified("events:DescribeRule", described);
            let targets = client.list_targets_by_rule().rule(rule).send().await;
            let targets = classified("events:ListTargetsByRule", targets);
            let read = described.and_then(|described| Ok((described, targets?)));
            let Some((described, targets)) = report.read(format!("the schedule {name}"), read) else {
                continue;
            };
            let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
            let input = targets.targets().first().and_then(|target| target.input());
            let remedy = format!("aws events put-rule --name {rule}, or enable-rule");
            let mut check = Check { release, report: &mut *report };
            for (setting, expected, found) in [
                ("State", &Value::Null, text(described.state().map(|it| it.as_str()))),
                ("Schedule", &properties["Schedule"], text(described.schedule_expression())),
                ("Input", &properties["Input"], text(input)),
            ] {
                let of = format!("the schedule {name}");
                check.judge(&of, setting, release.resolve(expected).as_ref(), &found, &remedy);
            }
        }
    }
}

fn no_rule(stack: &Stack, name: &str, report: &mut Report) {
    if stack.target.is_emulated() {
        report.unchecked(format!("the schedule {name}"), "the stack's schedules are not in EventBridge here");
    } else {
        report.fault(
            format!("the stack has no schedule {name}: what it does every few minutes is not done"),
            "deploy this release's template",
        );
    }
}

/// The log groups, whose lines are kept as long as the template says.
pub(super) async fn check_logs(stack: &Stack, release: &Release, report: &mut Report) {
    let client = aws_sdk_cloudwatchlogs::Client::new(&stack.target.sdk);
    report.well("the functions' logs are kept as long as the template says");
    for part in release.parts_of("AWS::Logs::LogGroup") {
        let Some(name) = part.deployed_as else { continue };
        let groups = client.describe_log_groups().log_group_name_prefix(name).send().await;
        let group = classified("logs:DescribeLogGroups", groups).and_then(|groups| {
            let mut groups = groups.log_groups.into_iter().flatten();
            groups.find(|it| it.log_group_name() == Some(name)).ok_or(AwsError::Absent)
        });
        let found = group
            .map(|it| vec![("RetentionInDays", it.retention_in_days().map_or(Value::Null, Value::from))]);
        let remedy = format!("aws logs put-retention-policy --log-group-name {name}");
        if matches!(found, Err(AwsError::Absent)) {
            let found = format!("the log group {} does not exist: the function's lines are lost", part.name);
            report.fault(found, format!("aws logs create-log-group --log-group-name {name}"));
            continue;
        }
        let is_unset = found.as_ref().is_ok_and(|found| found.iter().all(|(_, days)| days.is_null()));
        if is_unset && stack.target.lambda_endpoint.is_some() {
            let why = "LocalStack's CloudFormation does not set it";
            report.unchecked(format!("RetentionInDays of {}", part.name), why);
            continue;
        }
        Check { release, report: &mut *report }.compare(&part, found, &remedy);
    }
}
