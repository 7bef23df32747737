//! Limits, settings and keys of the account: what the emulator cannot have is answered by the proxy.

use aws_sdk_lambda::types::RecursiveLoop;
use aws_sdk_sqs::types::QueueAttributeName;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use redial_testkit::proxy::Fault;
use serde_json::json;

use super::world::{
    World, account_of, found, is_account_settings, is_metrics, is_recursion_setting, json, stderr, stdout,
};

const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d";

/// The words by which the faults are known, in the order of the checks.
const PLANTED: [&str; 6] = [
    "the deployed template has 500 resources, and CloudFormation takes 500",
    "the mappings may run 49 batches at once, and 10 of the account's 10 concurrent executions are not reserved",
    "the recursion setting of dispatch is Terminate",
    "dispatch cannot start: it runs on x86_64, and its program was built for another architecture",
    "dispatch could not use a KMS key: SendMessageBatch: KMS.AccessDeniedException (1 within the last hour)",
    "DynamoDB throttled 120 reads and 0 writes of the table of deliveries within the last hour, some of them within",
];

/// As emulators answer, each in its own words.
pub(crate) fn an_operation_that_is_not_available_is_neither_a_fault_nor_well(world: &World) {
    let pro = "API action for service 'lambda' not yet implemented or pro feature";
    let not_implemented = json!({"__type": "InternalFailure", "message": pro});
    world.answer(is_account_settings, 501, &not_implemented);
    world.answer(is_recursion_setting, 501, &not_implemented);
    // A map of two pairs of texts, each after its length.
    let unknown = b"\xa2\x66__type\x6dInvalidAction\x67message\x6eUnknown action";
    world.proxy.when(is_metrics, Fault::Cbor(400, unknown.to_vec()));
    let output = world.redial(&["doctor"]);
    let lines = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{lines}{}", stderr(&output));
    for (check, what) in [
        ("concurrency", "the account's concurrent executions"),
        ("recursion", "the recursion setting of dispatch"),
        ("recursion", "the recursion setting of cleanup"),
        ("throttling", "whether tables are throttled"),
    ] {
        let line = format!("not told {check:<15}{what} could not be checked: this is not available here: ");
        assert!(lines.contains(&line), "{line}: {lines}");
        assert!(!lines.contains(&format!("ok       {check}")), "{lines}");
    }
    assert!(stderr(&output).contains("has no fault; 4 things could not be checked"), "{}", stderr(&output));
    world.proxy.reset();
    // The emulator's own answer: no metrics of tables, which is not the same as no throttling.
    let output = world.redial(&["doctor", "--json"]);
    let unchecked = &json(&output)["checks"][12]["unchecked"];
    assert_eq!(unchecked[0]["why"], "this emulator has no metrics of tables", "{}", stdout(&output));
}

pub(crate) async fn each_planted_fault_is_named_alone(world: &World) {
    plant(world).await;
    let output = world.redial(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = json(&output);
    let faults = found(&shown, "fault");
    assert_eq!(faults.len(), PLANTED.len(), "{shown}");
    for (fault, planted) in faults.iter().zip(PLANTED) {
        assert!(fault.contains(planted), "{planted}: {fault}");
    }
    let warnings = found(&shown, "warning");
    assert!(
        warnings.len() == 1 && warnings[0].contains(&format!("{KEY} of the ingest queue")),
        "{warnings:?}"
    );
    assert_eq!(shown["unchecked"], 0, "{shown}");
}

async fn plant(world: &World) {
    world.answer(is_account_settings, 200, &account_of(10));
    world.throttled(120).await;
    let resources: serde_json::Map<String, _> = (0..500).map(|at| (format!("R{at}"), json!(1))).collect();
    let template = json!({"Resources": resources}).to_string();
    let template = format!(
        "<GetTemplateResponse><GetTemplateResult><TemplateBody>{template}</TemplateBody></GetTemplateResult></GetTemplateResponse>"
    );
    let is_get_template = |call: &redial_testkit::proxy::Call| {
        String::from_utf8_lossy(&call.body).contains("Action=GetTemplate&")
    };
    world.proxy.when(is_get_template, Fault::Status(200, template));
    let description = world.stack.description();
    world.set_recursion(&description.functions.dispatch, RecursiveLoop::Terminate).await;
    let sqs = aws_sdk_sqs::Client::new(&world.stack.sdk_config());
    let encrypt = sqs.set_queue_attributes().queue_url(&description.queues.ingest);
    encrypt.attributes(QueueAttributeName::KmsMasterKeyId, KEY).send().await.expect("it takes it");
    let refused = json!({"event": "infrastructure", "operation": "SendMessageBatch", "code": "KMS.AccessDeniedException"});
    log(
        world,
        "RequestId: 1 Error: fork/exec /var/task/bootstrap: exec format error\nRuntime.InvalidEntrypoint",
    )
    .await;
    log(world, &refused.to_string()).await;
}

/// A line in dispatch's log.
async fn log(world: &World, line: &str) {
    let sdk = world.stack.sdk_config();
    let dispatch = &world.stack.description().functions.dispatch;
    let lambda = aws_sdk_lambda::Client::new(&sdk);
    let read = lambda.get_function_configuration().function_name(dispatch).send().await.expect("deployed");
    let group =
        read.logging_config().and_then(|logging| logging.log_group()).expect("the template names one");
    let logs = aws_sdk_cloudwatchlogs::Client::new(&sdk);
    let at = System.now().as_ms();
    let stream = format!("planted-{at}-{}", line.len());
    logs.create_log_stream().log_group_name(group).log_stream_name(&stream).send().await.expect("a group");
    let event = aws_sdk_cloudwatchlogs::types::InputLogEvent::builder().timestamp(at).message(line);
    let put = logs.put_log_events().log_group_name(group).log_stream_name(stream);
    put.log_events(event.build().expect("both are set")).send().await.expect("it takes it");
}
