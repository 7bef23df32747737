//! The event source mappings: without one that is enabled, a queue fills and nobody works.

use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionResponseType};
use futures_util::join;

use super::{
    aws_error::{AwsError, classified},
    queues::{QUEUES, Queue, unfound},
    report::Report,
    stack::Stack,
};

/// Larger batches than this need a window (a rule of Lambda's for SQS).
const WITHOUT_A_WINDOW: i32 = 10;

type Mappings = Vec<EventSourceMappingConfiguration>;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("mappings");
    if let Err(trouble) = stack.outputs() {
        unfound(trouble, &mut report);
        return report;
    }
    let lambda = aws_sdk_lambda::Client::new(&stack.target.sdk);
    let (dispatch, cleanup) = join!(
        mappings(&lambda, Ok(&stack.target.dispatch)),
        mappings(&lambda, stack.output("CleanupFunctionName"))
    );
    for (name, of_dispatch, mappings) in [("dispatch", true, dispatch), ("cleanup", false, cleanup)] {
        match mappings {
            Ok(mappings) => {
                report.well("all six queues lead to their functions, which report what failed of a batch");
                for queue in QUEUES.iter().filter(|queue| queue.of_dispatch == of_dispatch) {
                    if let Ok(url) = stack.output(queue.output) {
                        judge(queue, name, of_queue(&mappings, url), &mut report);
                    }
                }
            }
            Err(trouble) => report.trouble(&format!("what leads to {name}"), &trouble),
        }
    }
    report
}

async fn mappings(
    lambda: &aws_sdk_lambda::Client,
    function: Result<&str, AwsError>,
) -> Result<Mappings, AwsError> {
    let listed = lambda.list_event_source_mappings().function_name(function?).into_paginator().items().send();
    classified("lambda:ListEventSourceMappings", listed.collect::<Result<Mappings, _>>().await)
}

/// A queue's ARN and its URL end in its name.
fn of_queue<'a>(mappings: &'a Mappings, url: &str) -> Option<&'a EventSourceMappingConfiguration> {
    let name = url.rsplit('/').next()?;
    mappings.iter().find(|mapping| {
        mapping.event_source_arn().and_then(|arn| arn.rsplit(':').next()).is_some_and(|it| it == name)
    })
}

fn judge(
    queue: &Queue,
    function: &str,
    mapping: Option<&EventSourceMappingConfiguration>,
    report: &mut Report,
) {
    let name = queue.name;
    let Some(mapping) = mapping else {
        report.fault(
            format!("nothing leads from the {name} queue to {function}: its messages wait"),
            "deploy the template again, or create the event source mapping as it has it",
        );
        return;
    };
    let uuid = mapping.uuid().unwrap_or("UUID");
    match mapping.state() {
        Some("Enabled") => {}
        Some("Disabled" | "Disabling") => report.fault(
            format!("the mapping from the {name} queue to {function} is disabled: its messages wait"),
            format!("aws lambda update-event-source-mapping --uuid {uuid} --enabled"),
        ),
        state => report.warning(
            format!("the mapping from the {name} queue to {function} is {}", state.unwrap_or("in no state")),
            "look again in a minute",
        ),
    }
    if !mapping.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures) {
        report.fault(
            format!(
                "the mapping from the {name} queue to {function} does not report batch item \
             failures: a message that is to come back is deleted"
            ),
            format!(
                "aws lambda update-event-source-mapping --uuid {uuid} --function-response-types \
             ReportBatchItemFailures"
            ),
        );
    }
    let window = mapping.maximum_batching_window_in_seconds().unwrap_or(0);
    if let Some(size) = mapping.batch_size().filter(|size| *size > WITHOUT_A_WINDOW && window < 1) {
        report.fault(
            format!(
                "the mapping from the {name} queue to {function} takes batches of {size} without a \
             window to fill them"
            ),
            format!(
                "aws lambda update-event-source-mapping --uuid {uuid} \
             --maximum-batching-window-in-seconds 1"
            ),
        );
    }
    if let Some(result) = mapping.last_processing_result().filter(|result| result.starts_with("PROBLEM")) {
        report.warning(
            format!("the mapping from the {name} queue to {function} says: {result}"),
            format!("look at the permissions of {function}'s role, and at the queue's policy"),
        );
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::types::builders::EventSourceMappingConfigurationBuilder;

    use super::*;

    fn healthy() -> EventSourceMappingConfigurationBuilder {
        EventSourceMappingConfiguration::builder()
            .uuid("u1")
            .event_source_arn("arn:aws:sqs:eu-central-1:1:shop-bulk")
            .state("Enabled")
            .batch_size(10)
            .function_response_types(FunctionResponseType::ReportBatchItemFailures)
    }

    fn findings(mapping: Option<EventSourceMappingConfigurationBuilder>) -> Vec<String> {
        let mut report = Report::new("mappings");
        let mapping = mapping.map(EventSourceMappingConfigurationBuilder::build);
        judge(&QUEUES[1], "dispatch", mapping.as_ref(), &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[track_caller]
    fn finds(mapping: Option<EventSourceMappingConfigurationBuilder>, words: &str) {
        let found = findings(mapping);
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    }

    #[test]
    fn a_mapping_is_found_by_its_queue_s_name() {
        let mappings = vec![healthy().build()];
        assert!(of_queue(&mappings, "https://sqs.eu-central-1.amazonaws.com/1/shop-bulk").is_some());
        assert!(of_queue(&mappings, "https://sqs.eu-central-1.amazonaws.com/1/bulk").is_none());
    }

    #[test]
    fn each_thing_that_is_off_is_one_finding() {
        assert_eq!(findings(Some(healthy())), [""; 0]);
        assert_eq!(findings(Some(healthy().batch_size(64).maximum_batching_window_in_seconds(1))), [""; 0]);
        finds(None, "nothing leads from the bulk queue to dispatch");
        finds(Some(healthy().state("Disabled")), "is disabled");
        finds(Some(healthy().state("Updating")), "is Updating");
        finds(Some(healthy().set_function_response_types(None)), "does not report batch item failures");
        finds(Some(healthy().batch_size(64)), "batches of 64 without a window");
        let problem = healthy().last_processing_result("PROBLEM: Function call failed");
        finds(Some(problem), "PROBLEM: Function call failed");
    }
}
