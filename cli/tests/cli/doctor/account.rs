//! Limits, settings and keys of the account. The proxy answers for what the emulator does not have.

use aws_sdk_lambda::types::RecursiveLoop;
use aws_sdk_sqs::types::QueueAttributeName;

use super::*;

const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d";

/// Words of the faults, in the order of the checks.
const PLANTED: [&str; 6] = [
    "the deployed template has 500 resources; CloudFormation allows 500",
    "the mappings may run 49 batches at once, and 10 of the account's 10 concurrent executions are not reserved",
    "the recursion setting of dispatch is Terminate",
    "dispatch cannot start: it runs on x86_64, and its program was built for another architecture",
    "dispatch could not use a KMS key: SendMessageBatch: KMS.AccessDeniedException (1 within the last hour)",
    "DynamoDB throttled 120 reads and 0 writes of the table of deliveries within the last hour, some of them within",
];

/// As emulators answer, each in its own words.
pub(super) async fn an_unavailable_operation_is_unchecked(stack: &TestStack, proxy: &FaultProxy) {
    let pro = "API action for service 'lambda' not yet implemented or pro feature";
    let not_implemented = json!({"__type": "InternalFailure", "message": pro});
    plant_answer(proxy, is_account_settings, 501, &not_implemented);
    plant_answer(proxy, is_recursion_setting, 501, &not_implemented);
    // A map of two pairs of texts, each after its length.
    let unknown = b"\xa2\x66__type\x6dInvalidAction\x67message\x6eUnknown action";
    proxy.when(is_metrics, Fault::Cbor(400, unknown.to_vec()));
    let done = stack.redial("doctor");
    assert!(done.stderr.contains("has no faults; 4 things could not be checked"), "{}", done.stderr);
    let lines = done.succeeds();
    for (check, what) in [
        ("concurrency", "the account's concurrent executions"),
        ("recursion", "the recursion setting of dispatch"),
        ("recursion", "the recursion setting of cleanup"),
        ("throttling", "whether tables are throttled"),
    ] {
        let line =
            format!("skipped  {check:<15}{what} could not be checked: the operation is not available here: ");
        assert!(lines.contains(&line), "{line}: {lines}");
        assert!(!lines.contains(&format!("ok       {check}")), "{lines}");
    }
    proxy.reset();
    // The emulator's own answer: it has no metrics of tables, which does not mean that nothing is throttled.
    let report = stack.redial("doctor --json").json();
    let unchecked = &report["checks"][12]["unchecked"];
    assert_eq!(unchecked[0]["why"], "this emulator has no metrics of tables", "{report}");
}

pub(super) async fn each_planted_fault_is_named_alone(stack: &TestStack, proxy: &FaultProxy) {
    plant(stack, proxy).await;
    let done = stack.redial("doctor --json");
    assert_eq!(done.status, Some(1));
    let report = done.json();
    assert_each_contains(&found(&report, "fault"), &PLANTED);
    assert_each_contains(&found(&report, "warning"), &[&format!("{KEY} of the ingest queue")]);
    assert_eq!(report["unchecked"], 0, "{report}");
}

async fn plant(stack: &TestStack, proxy: &FaultProxy) {
    plant_answer(proxy, is_account_settings, 200, &account_with(10));
    throttle(stack, 120).await;
    let resources: serde_json::Map<String, _> = (0..500).map(|at| (format!("R{at}"), json!(1))).collect();
    let template = json!({"Resources": resources});
    let template = format!(
        "<GetTemplateResponse><GetTemplateResult><TemplateBody>{template}</TemplateBody></GetTemplateResult></GetTemplateResponse>"
    );
    let is_get_template = |call: &Call| String::from_utf8_lossy(&call.body).contains("Action=GetTemplate&");
    proxy.when(is_get_template, Fault::Status(200, template));
    let (dispatch, ingest) = (&stack.description().functions.dispatch, &stack.description().queues.ingest);
    let terminate = stack.lambda.put_function_recursion_config().function_name(dispatch);
    terminate.recursive_loop(RecursiveLoop::Terminate).send().await.expect("Lambda takes it");
    let encrypt = stack.sqs.set_queue_attributes().queue_url(ingest);
    encrypt.attributes(QueueAttributeName::KmsMasterKeyId, KEY).send().await.expect("SQS takes it");
    let start =
        "RequestId: 1 Error: fork/exec /var/task/bootstrap: exec format error\nRuntime.InvalidEntrypoint";
    let denied =
        r#"{"event":"infrastructure","operation":"SendMessageBatch","code":"KMS.AccessDeniedException"}"#;
    for line in [start, denied] {
        stack.write_log(&[line], System.now().as_ms()).await;
    }
}
