//! The functions' environments: complete, valid, and both about the stack's own queues, tables and keys.
//!
//! What is valid is said by the very code that the functions read their environment with. It reads no secret: where one
//! stands in Secrets Manager, it takes its name.

use redial_adapters::config;

use super::{
    report::Report,
    stack::{Function, Stack},
};

/// The variables that name parts of the stack, with the template's outputs that name them too.
const PARTS: [(&str, &str); 17] = [
    ("INGEST_QUEUE_URL", "IngestQueueUrl"),
    ("BULK_QUEUE_URL", "BulkQueueUrl"),
    ("RETRY_QUEUE_URL", "RetryQueueUrl"),
    ("RETRY_BULK_QUEUE_URL", "RetryBulkQueueUrl"),
    ("DLQ_URL", "DeadLetterQueueUrl"),
    ("QUARANTINE_URL", "QuarantineQueueUrl"),
    ("DELIVERIES_TABLE", "DeliveriesTableName"),
    ("SUBSCRIPTIONS_TABLE", "SubscriptionsTableName"),
    ("AUDIENCES_TABLE", "AudiencesTableName"),
    ("PARKED_TABLE", "ParkedTableName"),
    ("DEAD_LETTERS_TABLE", "DeadLettersTableName"),
    ("CONTROL_TABLE", "ControlTableName"),
    ("WAIT_STATE_MACHINE_ARN", "WaitStateMachineArn"),
    ("VAPID_SECRET_ID", "VapidSecretArn"),
    ("WEBHOOK_KEY_SECRET_ID", "WebhookKeySecretId"),
    ("TOKEN_KEY_SECRET_ID", "TokenKeySecretId"),
    ("ENDPOINT_HASH_SECRET_ID", "EndpointHashSecretArn"),
];

const DEPLOY_AGAIN: &str =
    "deploy the template again with the values that you want; it sets all functions' environments";

pub(super) fn check(stack: &Stack) -> Report {
    let mut report = Report::new("configuration");
    report.well("all functions' environments are complete, and name the stack's own queues, tables and keys");
    for (name, function) in stack.functions() {
        match function {
            Ok(function) => {
                valid(function, &mut report);
                if let Ok(outputs) = stack.outputs() {
                    own_parts(function, |output| outputs.get(output).map(String::as_str), &mut report);
                }
            }
            Err(trouble) => report.trouble(&format!("the configuration of {name}"), trouble),
        }
    }
    if let (Ok(_), Err(trouble)) = (&stack.dispatch, stack.outputs()) {
        report.trouble("the stack in CloudFormation", trouble);
    }
    report
}

/// Whether it could start.
fn valid(function: &Function, report: &mut Report) {
    let lookup = |name: &str| function.lookup(name);
    let read = match function.name {
        "dispatch" => config::dispatch(lookup).map(|_| ()),
        "ingest" => config::ingest(lookup).map(|_| ()),
        _ => config::cleanup(lookup).map(|_| ()),
    };
    if let Err(error) = read {
        report.fault(format!("{} cannot start: {error}", function.name), DEPLOY_AGAIN);
    }
}

/// Whether it works on what is the stack's. What is missing is told elsewhere.
fn own_parts<'a>(function: &Function, output: impl Fn(&str) -> Option<&'a str>, report: &mut Report) {
    for (variable, own) in PARTS {
        let (Some(named), Some(own)) = (function.variable(variable), output(own)) else { continue };
        if named != own {
            let found = format!("{}: {variable} names {named}, and the stack's is {own}", function.name);
            report.fault(found, DEPLOY_AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::stack::tests::deployed, *};

    const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

    #[test]
    fn the_parts_are_the_template_s_variables_and_outputs() {
        for (variable, output) in PARTS {
            assert!(TEMPLATE.contains(&format!("        {variable}: ")), "{variable}");
            assert!(TEMPLATE.contains(&format!("\n  {output}:\n    Description:")), "{output}");
        }
    }

    #[test]
    fn everything_that_is_missing_is_one_finding_a_function() {
        let mut report = Report::new("configuration");
        valid(&deployed("dispatch", 30, &[("VAPID_SUBJECT", "nobody")]), &mut report);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert!(finding.found.starts_with("dispatch cannot start: "), "{}", finding.found);
        assert!(finding.found.contains("DLQ_URL is missing") && finding.found.contains("VAPID_SUBJECT"));
    }

    #[test]
    fn a_part_of_another_stack_is_named_with_the_own_one() {
        let mut report = Report::new("configuration");
        let function = deployed("cleanup", 30, &[("CONTROL_TABLE", "other"), ("DLQ_URL", "dlq")]);
        let output = |name: &str| match name {
            "ControlTableName" => Some("own"),
            "DeadLetterQueueUrl" => Some("dlq"),
            _ => None,
        };
        own_parts(&function, output, &mut report);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!(finding.found, "cleanup: CONTROL_TABLE names other, and the stack's is own");
    }
}
