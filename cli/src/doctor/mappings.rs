//! The event source mappings: without one that is enabled, no function reads a queue.

use aws_sdk_lambda::{
    Client,
    types::{EventSourceMappingConfiguration, FunctionResponseType},
};
use futures_util::join;

use super::{
    queues::{QUEUES, Queue},
    report::Report,
    stack::{Stack, output},
};
use crate::asked::{Trouble, asked};

/// Larger batches than this need a window (Lambda's rule for SQS).
const WITHOUT_A_WINDOW: i32 = 10;

type Mapping = EventSourceMappingConfiguration;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let lambda = Client::new(&stack.target.sdk);
    let (dispatch, cleanup) =
        join!(mappings(&lambda, &stack.target.dispatch), mappings(&lambda, &stack.target.cleanup));
    report
        .well("each of the six queues has an enabled mapping that reports which messages of a batch failed");
    for (function, mappings) in [("dispatch", dispatch), ("cleanup", cleanup)] {
        let Some(mappings) = report.read(format!("the mappings of {function}"), mappings) else { continue };
        for queue in QUEUES.iter().filter(|queue| queue.function() == function) {
            if let Ok(url) = output(outputs, queue.output) {
                judge(queue, of_queue(&mappings, url), report);
            }
        }
    }
}

/// All mappings to a function.
pub(super) async fn mappings(lambda: &Client, deployed_as: &str) -> Result<Vec<Mapping>, Trouble> {
    let pages =
        lambda.list_event_source_mappings().function_name(deployed_as).into_paginator().items().send();
    asked("lambda:ListEventSourceMappings", pages.collect::<Result<Vec<Mapping>, _>>().await)
}

/// A queue's ARN and its URL end in its name.
fn of_queue<'a>(mappings: &'a [Mapping], url: &str) -> Option<&'a Mapping> {
    let name = url.rsplit('/').next()?;
    mappings.iter().find(|mapping| {
        mapping.event_source_arn().and_then(|arn| arn.rsplit(':').next()).is_some_and(|it| it == name)
    })
}

fn judge(queue: &Queue, mapping: Option<&Mapping>, report: &mut Report) {
    let (name, function) = (queue.name, queue.function());
    let Some(mapping) = mapping else {
        return report.fault(
            format!("the {name} queue has no mapping to {function}: its messages wait"),
            "deploy the template again, or create the event source mapping as the template has it",
        );
    };
    let this = format!("the mapping from the {name} queue to {function}");
    let uuid = mapping.uuid().unwrap_or("UUID");
    let update = |options: &str| format!("aws lambda update-event-source-mapping --uuid {uuid} {options}");
    match mapping.state() {
        Some("Enabled") => {}
        Some("Disabled" | "Disabling") => {
            report.fault(format!("{this} is disabled: its messages wait"), update("--enabled"));
        }
        state => {
            report.warning(format!("{this} is {}", state.unwrap_or("in no state")), "look again in a minute");
        }
    }
    if !mapping.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures) {
        report.fault(
            format!("{this} does not report batch item failures: messages that should come back are deleted"),
            update("--function-response-types ReportBatchItemFailures"),
        );
    }
    let window = mapping.maximum_batching_window_in_seconds().unwrap_or(0);
    if let Some(size) = mapping.batch_size().filter(|size| *size > WITHOUT_A_WINDOW && window < 1) {
        report.fault(
            format!("{this} has batches of {size} without a window to fill them"),
            update("--maximum-batching-window-in-seconds 1"),
        );
    }
    if let Some(result) = mapping.last_processing_result().filter(|result| result.starts_with("PROBLEM")) {
        report.warning(
            format!("{this} reports: {result}"),
            format!("check the permissions of {function}'s role, and the queue's policy"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    #[test]
    fn a_mapping_is_found_by_its_queue_s_name() {
        let mappings = [Mapping::builder().event_source_arn("arn:aws:sqs:eu-central-1:1:shop-bulk").build()];
        assert!(of_queue(&mappings, "https://sqs.eu-central-1.amazonaws.com/1/shop-bulk").is_some());
        assert!(of_queue(&mappings, "https://sqs.eu-central-1.amazonaws.com/1/bulk").is_none());
    }

    #[test]
    fn each_wrong_setting_of_a_mapping_is_one_finding() {
        let healthy = Mapping::builder()
            .uuid("u1")
            .state("Enabled")
            .batch_size(10)
            .function_response_types(FunctionResponseType::ReportBatchItemFailures);
        let healthy = || healthy.clone();
        for (mapping, expected) in [
            (Some(healthy()), ""),
            (Some(healthy().batch_size(64).maximum_batching_window_in_seconds(1)), ""),
            (None, "fault: the bulk queue has no mapping to dispatch"),
            (
                Some(healthy().state("Disabled")),
                "fault: the mapping from the bulk queue to dispatch is disabled",
            ),
            (Some(healthy().state("Updating")), "is Updating"),
            (Some(healthy().set_function_response_types(None)), "does not report batch item failures"),
            (Some(healthy().batch_size(64)), "batches of 64 without a window"),
            (
                Some(healthy().last_processing_result("PROBLEM: Function call failed")),
                "PROBLEM: Function call failed",
            ),
        ] {
            let mapping = mapping.map(|mapping| mapping.build());
            finds(expected, |report| judge(&QUEUES[1], mapping.as_ref(), report));
        }
    }
}
