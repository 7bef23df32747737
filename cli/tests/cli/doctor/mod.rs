//! `redial doctor` on healthy stacks and on stacks with planted faults.
//!
//! | file | what |
//! |---|---|
//! | `account` | what the account, its quotas and its keys do to a stack |
//! | `planted` | five faults on one stack: it names the five and nothing else |

mod account;
mod planted;

use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use redial_testkit::proxy::{Call, Fault, FaultProxy};

use crate::prelude::*;

#[tokio::test]
async fn doctor_names_each_fault_of_a_stack_and_no_other() {
    let (stack, proxy) = up().await;
    // Calls that the emulator answers otherwise, or not at all, as AWS answers them for a healthy stack.
    plant_answer(&proxy, is_account_settings, 200, &account_with(1_000));
    throttle(&stack, 0).await;
    steps! {
        planted::a_healthy_stack_has_no_findings(&stack);
        planted::five_faults_are_named_and_nothing_else(&stack);
        planted::a_reader_that_leaves_is_no_error(&stack);
        planted::mended_faults_are_gone_and_a_warning_is_no_fault(&stack);
    }
}

#[tokio::test]
async fn doctor_finds_limits_settings_and_keys_of_the_account() {
    let (stack, proxy) = up().await;
    steps! {
        account::an_unavailable_operation_is_unchecked(&stack, &proxy);
        account::each_planted_fault_is_named_alone(&stack, &proxy);
    }
}

/// A stack whose functions are placeholders, because nothing is sent, and a proxy behind which the command finds it.
async fn up() -> (TestStack, FaultProxy) {
    let stack = TestStack::with_placeholders().await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    (stack, proxy)
}

/// Has the proxy answer these calls instead of the emulator.
fn plant_answer(
    proxy: &FaultProxy,
    fits: impl Fn(&Call) -> bool + Send + Sync + 'static,
    status: u16,
    answer: &Value,
) {
    proxy.when(fits, Fault::Status(status, answer.to_string()));
}

fn is_account_settings(call: &Call) -> bool {
    call.operation.contains("/account-settings")
}

fn is_recursion_setting(call: &Call) -> bool {
    call.operation.contains("/recursion-config")
}

fn is_metrics(call: &Call) -> bool {
    call.operation.ends_with("/GetMetricData")
}

/// The settings of an account with this many concurrent executions.
fn account_with(executions: u32) -> Value {
    json!({"AccountLimit": {
        "ConcurrentExecutions": executions, "UnreservedConcurrentExecutions": executions,
    }})
}

/// Gives CloudWatch a number of throttled reads of the table of deliveries.
async fn throttle(stack: &TestStack, reads: u32) {
    let table = Dimension::builder().name("TableName").value(&stack.description().tables.deliveries);
    let datum = MetricDatum::builder().metric_name("ReadThrottleEvents").value(reads.into());
    let cloudwatch = aws_sdk_cloudwatch::Client::new(&stack.stack().sdk_config());
    let put = cloudwatch.put_metric_data().namespace("AWS/DynamoDB");
    put.metric_data(datum.dimensions(table.build()).build()).send().await.expect("CloudWatch takes it");
}

/// What all findings of a severity say. Each also says what to do.
fn found(report: &Value, severity: &str) -> Vec<String> {
    let checks = report["checks"].as_array().expect("checks").iter();
    let findings = checks.flat_map(|check| check["findings"].as_array().expect("findings"));
    let of_severity = findings.filter(|finding| finding["severity"] == severity);
    let words = of_severity.map(|finding| {
        assert!(finding["do"].as_str().is_some_and(|advice| !advice.is_empty()), "{finding}");
        finding["found"].as_str().expect("words").to_owned()
    });
    words.collect()
}

/// Each finding contains the words in the same place, and there is no other.
#[track_caller]
fn assert_each_contains<T: AsRef<str> + std::fmt::Debug>(findings: &[T], words: &[&str]) {
    assert_eq!(findings.len(), words.len(), "{findings:#?}");
    for (finding, words) in findings.iter().zip(words) {
        assert!(finding.as_ref().contains(words), "{words}: {finding:?}");
    }
}
