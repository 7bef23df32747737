//! The functions' environments: complete, valid, and naming the stack's own queues, tables and keys.
//!
//! The functions' own parser decides what is valid. It reads no secret, only the name of one in Secrets Manager.

use redial_adapters::config;

use super::{
    report::Report,
    stack::{Function, Stack},
};

/// The variables that name parts of the stack, with the template's outputs that name the same parts.
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

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    report.well("all functions' environments are complete and name the stack's own queues, tables and keys");
    for (name, function) in stack.functions() {
        let read = function.as_ref().map_err(Clone::clone);
        let Some(function) = report.read(format!("the configuration of {name}"), read) else { continue };
        is_valid(function, report);
        if let Ok(outputs) = &stack.outputs {
            names_own_parts(function, |output| outputs.get(output).map(String::as_str), report);
        }
    }
    if stack.dispatch.is_ok() {
        report.read("the stack in CloudFormation", stack.outputs.as_ref().map_err(Clone::clone));
    }
}

fn is_valid(function: &Function, report: &mut Report) {
    let lookup = |name: &str| function.lookup(name);
    let parsed = match function.name {
        "dispatch" => config::dispatch(lookup).map(|_| ()),
        "ingest" => config::ingest(lookup).map(|_| ()),
        _ => config::cleanup(lookup).map(|_| ()),
    };
    if let Err(error) = parsed {
        report.fault(format!("{} cannot start: {error}", function.name), DEPLOY_AGAIN);
    }
}

/// Skips variables that are missing, which [`is_valid`] reports.
fn names_own_parts<'a>(function: &Function, output: impl Fn(&str) -> Option<&'a str>, report: &mut Report) {
    for (variable, own) in PARTS {
        let (Some(named), Some(own)) = (function.variable(variable), output(own)) else { continue };
        if named != own {
            let found = format!("{}: {variable} is {named}, but the stack's own is {own}", function.name);
            report.fault(found, DEPLOY_AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_testkit::template::Template;

    use super::{
        super::{report::tests::found, stack::tests::deployed},
        *,
    };

    #[test]
    fn the_parts_are_the_template_s_variables_and_outputs() {
        let template = Template::read();
        let variables = &template["Globals"]["Function"]["Environment"]["Variables"];
        let own = template.resources("AWS::Serverless::Function");
        let own: Vec<_> = own.map(|(_, function)| &function["Environment"]["Variables"]).collect();
        for (variable, output) in PARTS {
            let is_set =
                variables.get(variable).is_some() || own.iter().any(|own| own.get(variable).is_some());
            assert!(is_set, "{variable}");
            assert!(template["Outputs"].get(output).is_some(), "{output}");
        }
    }

    #[test]
    fn all_invalid_variables_of_a_function_are_one_finding() {
        let dispatch = deployed("dispatch", 30, &[("VAPID_SUBJECT", "no-address")]);
        let found = found(|report| is_valid(&dispatch, report));
        assert!(found.len() == 1 && found[0].starts_with("fault: dispatch cannot start: "), "{found:?}");
        assert!(found[0].contains("DLQ_URL is missing") && found[0].contains("VAPID_SUBJECT"));
    }

    #[test]
    fn a_part_of_another_stack_is_a_fault() {
        let function = deployed("cleanup", 30, &[("CONTROL_TABLE", "other"), ("DLQ_URL", "dlq")]);
        let output = |name: &str| match name {
            "ControlTableName" => Some("own"),
            "DeadLetterQueueUrl" => Some("dlq"),
            _ => None,
        };
        assert_eq!(
            found(|report| names_own_parts(&function, output, report)),
            ["fault: cleanup: CONTROL_TABLE is other, but the stack's own is own"]
        );
    }
}
