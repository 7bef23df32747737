//! The event source mappings: without one that is enabled, no function reads a queue. And the number of batches that they may run
//! at once, against the account's concurrent executions.
//!
//! Lambda throttles the rest, and each throttled batch uses up one of the twenty receives of its messages. A new account has ten
//! concurrent executions, and the six mappings run at least twelve.

use aws_sdk_lambda::{
    Client,
    types::{EventSourceMappingConfiguration, FunctionResponseType, ScalingConfig},
};
use futures_util::join;

use super::{
    queues::{Queue, queues},
    report::Report,
    stack::{Stack, output},
};
use crate::aws_error::{AwsError, classified};

/// Larger batches than this need a window (Lambda's rule for SQS).
const WITHOUT_A_WINDOW: i32 = 10;

pub(crate) type Mapping = EventSourceMappingConfiguration;

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let lambda = stack.target.lambda();
    let (dispatch, cleanup) =
        join!(mappings(&lambda, &stack.target.dispatch), mappings(&lambda, &stack.target.cleanup));
    let is_standby = stack.parameters.get("Standby").is_some_and(|value| value == "true");
    report.well("each queue has an enabled mapping that reports which messages of a batch failed");
    for (function, mappings) in [("dispatch", dispatch), ("cleanup", cleanup)] {
        let Some(mappings) = report.read(format!("the mappings of {function}"), mappings) else { continue };
        let queues = queues(outputs).filter(|queue| queue.function() == function);
        let of_queues: Vec<(&Queue, Option<&Mapping>)> = queues
            .filter_map(|queue| Some((queue, of_queue(&mappings, output(outputs, queue.output).ok()?))))
            .collect();
        let stands_by = function == "dispatch" && judge_standby(&of_queues, is_standby, report);
        for (queue, mapping) in of_queues {
            judge_mapping(queue, mapping, stands_by, report);
        }
    }
}

/// Whether the stack is on standby: none of these queues is read. A deployment writes what the parameter says wherever it changes a
/// mapping, so that the two should agree.
fn judge_standby(mappings: &[(&Queue, Option<&Mapping>)], is_standby: bool, report: &mut Report) -> bool {
    let is_off = |(_, mapping): &(&Queue, Option<&Mapping>)| mapping.is_some_and(is_disabled);
    let stands_by = !mappings.is_empty() && mappings.iter().all(is_off);
    match (stands_by, is_standby) {
        (true, true) => report.well(
            "the stack is on standby: dispatch reads none of its queues until `redial failover` starts it, and cleanup \
             reads both of its own",
        ),
        (true, false) => report.warning(
            "the stack is on standby, although its parameter Standby is false: dispatch reads none of its queues, and a \
             deployment that changes a mapping starts it",
            "deploy with Standby=true, or start it with `redial failover`",
        ),
        (false, true) if !mappings.iter().any(is_off) => report.warning(
            "dispatch reads its queues, although the parameter Standby is true: a deployment that changes a mapping \
             stops it",
            "deploy with Standby=false, or stop it with `redial failover`",
        ),
        (false, true | false) => {}
    }
    stands_by
}

/// Whether it takes no batch from its queue.
fn is_disabled(mapping: &Mapping) -> bool {
    matches!(mapping.state(), Some("Disabled" | "Disabling"))
}

/// All mappings to a function.
pub(crate) async fn mappings(lambda: &Client, deployed_as: &str) -> Result<Vec<Mapping>, AwsError> {
    let pages =
        lambda.list_event_source_mappings().function_name(deployed_as).into_paginator().items().send();
    classified("lambda:ListEventSourceMappings", pages.collect::<Result<Vec<Mapping>, _>>().await)
}

/// By the URL of a queue or its ARN, which both end in its name.
pub(crate) fn of_queue<'a>(mappings: &'a [Mapping], url: &str) -> Option<&'a Mapping> {
    let name = url.rsplit(['/', ':']).next()?;
    mappings.iter().find(|mapping| {
        mapping.event_source_arn().and_then(|arn| arn.rsplit(':').next()).is_some_and(|it| it == name)
    })
}

fn judge_mapping(queue: &Queue, mapping: Option<&Mapping>, stands_by: bool, report: &mut Report) {
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
        Some("Disabled" | "Disabling") if stands_by => {}
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

const RAISE_THE_QUOTA: &str = "ask AWS for a higher quota (Service Quotas, AWS Lambda, concurrent executions: L-B99A9384), or \
                               deploy with lower IngestConcurrency, RetryConcurrency, BulkConcurrency and RetryBulkConcurrency; \
                               the six mappings need at least 12";

/// What one function uses of the account's concurrent executions in this region.
struct Share {
    name: &'static str,
    deployed_as: String,
    /// The maxima of its mappings; `None` for a mapping without one.
    maxima: Vec<Option<i32>>,
    reserved: Option<i32>,
}

impl Share {
    fn most(&self) -> i32 {
        self.maxima.iter().flatten().sum()
    }
}

pub(super) async fn check_concurrency(stack: &Stack, report: &mut Report) {
    let client = stack.target.lambda();
    let target = &stack.target;
    let (account, dispatch, cleanup, ingest) = join!(
        account(&client),
        share(&client, "dispatch", &target.dispatch),
        share(&client, "cleanup", &target.cleanup),
        share(&client, "ingest", &target.ingest),
    );
    let shares = [("dispatch", dispatch), ("cleanup", cleanup), ("ingest", ingest)];
    let shares: Vec<Share> = shares
        .into_iter()
        .filter_map(|(name, share)| {
            report.read_if_present(format!("the concurrency of {name}"), share, "the function does not exist")
        })
        .collect();
    if let Some((all, unreserved)) = report.read("the account's concurrent executions", account) {
        judge_shares(&shares, all, unreserved, report);
    }
}

/// All concurrent executions, and those that no function reserves.
async fn account(client: &Client) -> Result<(i32, i32), AwsError> {
    let settings = classified("lambda:GetAccountSettings", client.get_account_settings().send().await)?;
    let limit = settings.account_limit.ok_or(AwsError::Absent)?;
    let all = limit.concurrent_executions;
    Ok((all, limit.unreserved_concurrent_executions.unwrap_or(all)))
}

async fn share(client: &Client, name: &'static str, deployed_as: &str) -> Result<Share, AwsError> {
    let reserved = client.get_function_concurrency().function_name(deployed_as).send().await;
    let reserved = classified("lambda:GetFunctionConcurrency", reserved)?.reserved_concurrent_executions;
    let mappings = mappings(client, deployed_as).await?;
    let maximum = |scaling: &ScalingConfig| scaling.maximum_concurrency();
    let maxima = mappings.iter().map(|mapping| mapping.scaling_config().and_then(maximum)).collect();
    Ok(Share { name, deployed_as: deployed_as.to_owned(), maxima, reserved })
}

fn judge_shares(shares: &[Share], all: i32, left: i32, report: &mut Report) {
    shares.iter().for_each(|share| judge_share(share, report));
    let unreserved = || shares.iter().filter(|share| share.reserved.is_none());
    let most: i32 = unreserved().map(Share::most).sum();
    let both = format!(
        "the mappings may run {most} batches at once, and {left} of the account's {all} concurrent executions are not \
         reserved"
    );
    if most > left {
        report.fault(format!("{both}: Lambda throttles the rest"), RAISE_THE_QUOTA);
    } else if most == left && unreserved().any(|share| share.name == "ingest") {
        report.warning(format!("{both}: none is left for the HTTP API"), RAISE_THE_QUOTA);
    }
    report.well(both);
}

fn judge_share(share: &Share, report: &mut Report) {
    let Share { name, deployed_as, maxima, reserved } = share;
    let unbounded = maxima.iter().filter(|maximum| maximum.is_none()).count();
    if unbounded > 0 {
        report.warning(
            format!("{unbounded} of {name}'s mappings have no maximum concurrency, and may use all of the account's"),
            "deploy the template again: it gives each one a maximum",
        );
    }
    let most = share.most();
    let delete = format!("aws lambda delete-function-concurrency --function-name {deployed_as}");
    match reserved {
        Some(0) => {
            report.fault(format!("{name} has a reserved concurrency of 0: Lambda does not run it"), delete);
        }
        Some(reserved) if most > *reserved => report.fault(
            format!(
                "the mappings of {name} may run {most} batches at once, and its reserved concurrency is {reserved}: \
                 Lambda throttles the rest"
            ),
            format!("{delete}; the mappings' maxima limit it without using up receives"),
        ),
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use redial_testkit::template::{Template, Value};

    use super::{
        super::{queues::QUEUES, report::tests::finds},
        *,
    };

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
            finds(expected, |report| judge_mapping(&QUEUES[1], mapping.as_ref(), false, report));
        }
    }

    #[test]
    fn a_stack_on_standby_is_no_fault_and_its_parameter_agrees() {
        let mapping = |state: &str| {
            let reports = FunctionResponseType::ReportBatchItemFailures;
            Mapping::builder().uuid("u1").state(state).batch_size(10).function_response_types(reports).build()
        };
        for (states, is_standby, stands_by, expected) in [
            (["Disabled"; 4], true, true, ""),
            (["Disabled", "Disabling", "Disabled", "Disabled"], true, true, ""),
            (["Disabled"; 4], false, true, "warning: the stack is on standby, although its parameter"),
            (["Enabled"; 4], true, false, "warning: dispatch reads its queues, although"),
            (["Enabled"; 4], false, false, ""),
            (
                ["Enabled", "Enabled", "Disabled", "Enabled"],
                true,
                false,
                "fault: the mapping from the retry queue to dispatch is disabled",
            ),
        ] {
            let mappings = states.map(mapping);
            let of_queues: Vec<_> = QUEUES.iter().zip(mappings.iter().map(Some)).collect();
            finds(expected, |report| {
                assert_eq!(judge_standby(&of_queues, is_standby, report), stands_by, "{states:?}");
                for (queue, mapping) in &of_queues {
                    judge_mapping(queue, *mapping, stands_by, report);
                }
            });
        }
    }

    #[test]
    fn the_maxima_fit_what_the_account_and_the_function_have() {
        let all = [Some(20), Some(10), Some(10), Some(5)];
        let too_many = "fault: the mappings may run 49 batches at once, and 10 of the account's 1000";
        let throttled =
            "fault: the mappings of dispatch may run 45 batches at once, and its reserved concurrency is 44";
        for (unreserved, dispatch, of_dispatch, of_ingest, expected) in [
            (50, &all[..], None, None, ""),
            (49, &all, None, None, "warning: the mappings may run 49 batches at once"),
            (49, &all, None, Some(20), ""),
            (10, &all, None, None, too_many),
            (10, &all, Some(45), None, ""),
            (10, &all, Some(44), None, throttled),
            (10, &[], Some(0), None, "fault: dispatch has a reserved concurrency of 0"),
            (1_000, &[Some(20), None], None, None, "warning: 1 of dispatch's mappings have no maximum"),
        ] {
            let share = |name: &'static str, maxima: &[Option<i32>], reserved| Share {
                name,
                deployed_as: format!("shop-{name}"),
                maxima: maxima.into(),
                reserved,
            };
            let shares = [
                share("dispatch", dispatch, of_dispatch),
                share("cleanup", &[Some(2), Some(2)], None),
                share("ingest", &[], of_ingest),
            ];
            finds(expected, |report| judge_shares(&shares, 1_000, unreserved, report));
        }
    }

    #[test]
    fn the_template_has_six_mappings_with_a_maximum() {
        let template = Template::read();
        let functions = template.resources("AWS::Serverless::Function");
        let events = functions.filter_map(|(_, function)| function["Events"].as_mapping());
        let has_maximum =
            |event: &&Value| event["Properties"]["ScalingConfig"].get("MaximumConcurrency").is_some();
        // Lambda's least maximum is 2, so six mappings need at least 12.
        assert_eq!(events.flat_map(|events| events.values()).filter(has_maximum).count(), 6);
    }
}
