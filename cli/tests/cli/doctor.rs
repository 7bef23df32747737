//! `redial doctor` on healthy stacks and on stacks with planted faults.

use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_lambda::types::RecursiveLoop;
use aws_sdk_sqs::types::QueueAttributeName;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::{endpoint::Origin, rate::Rate};
use redial_engine::ports::Limited;
use redial_testkit::proxy::{Call, Fault, FaultProxy};

use crate::prelude::*;

#[tokio::test]
async fn doctor_names_each_fault_of_a_stack_and_no_other() {
    let (stack, proxy) = up().await;
    // Calls that the emulator answers otherwise, or not at all, as AWS answers them for a healthy stack.
    plant_answer(&proxy, "/account-settings", 200, &account_with(1_000));
    throttle(&stack, 0).await;
    steps! {
        a_healthy_stack_has_no_findings(&stack).await;
        five_faults_are_named_and_nothing_else(&stack).await;
        mended_faults_are_gone_and_a_warning_is_no_fault(&stack).await;
    }
}

#[tokio::test]
async fn doctor_finds_limits_settings_and_keys_of_the_account() {
    if left_out_on_localstack("functions that run on this machine have settings that no call changes") {
        return;
    }
    let (stack, proxy) = up().await;
    steps! {
        an_unavailable_operation_is_unchecked(&stack, &proxy).await;
        each_planted_fault_is_named_alone(&stack, &proxy).await;
    }
}

/// A stack with the real functions, since it is examined whether they start, and a proxy behind which the command finds it.
async fn up() -> (TestStack, FaultProxy) {
    let stack = TestStack::as_deployed_with(|_| {}).await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    (stack, proxy)
}

/// Has the proxy answer calls of this path instead of the emulator.
fn plant_answer(proxy: &FaultProxy, path: &'static str, status: u16, answer: &Value) {
    proxy.when(move |call| call.operation.contains(path), Fault::Status(status, answer.to_string()));
}

fn account_with(executions: u32) -> Value {
    json!({"AccountLimit": {
        "ConcurrentExecutions": executions, "UnreservedConcurrentExecutions": executions,
    }})
}

/// Gives CloudWatch a number of throttled reads of the table of deliveries.
async fn throttle(stack: &TestStack, reads: u32) {
    let table = Dimension::builder().name("TableName").value(&stack.tables().deliveries);
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

/// A text in the VAPID secret that is not a key, and must not be shown.
const RUBBISH: &str = "rubbish-that-is-secret";

/// Words of the faults, in the order of the checks.
const PLANTED: [&str; 5] = [
    "the visibility timeout of the ingest queue is 20 s, and dispatch may run for 30 s",
    "the retry queue has no redrive policy",
    "the mapping from the bulk queue to dispatch is disabled",
    "dispatch may run for 30 s, and an attempt may take 43 s",
    "the VAPID key is not valid",
];

const CHECKS: &str = "starts configuration template queues mappings concurrency functions recursion architecture keys encryption \
                      clock tables throttling waits relay alarms breakers limits";

async fn a_healthy_stack_has_no_findings(stack: &TestStack) {
    let done = stack.redial("doctor");
    assert!(done.stderr.contains("has no faults"), "{}", done.stderr);
    let lines = done.succeeds();
    let well = |line: &str| {
        line.strip_prefix("ok       ").and_then(|line| line.split(' ').next().map(str::to_owned))
    };
    let checks: Option<Vec<String>> = lines.lines().map(well).collect();
    assert_eq!(checks.unwrap_or_default().join(" "), CHECKS, "{lines}");
    let report = stack.json("doctor");
    assert_fields(&report, json!({"faults": 0, "warnings": 0, "unchecked": 0}));
    let checks = report["checks"].as_array().expect("checks").iter();
    assert_eq!(checks.filter_map(|it| it["check"].as_str()).collect::<Vec<_>>().join(" "), CHECKS);
}

async fn five_faults_are_named_and_nothing_else(stack: &TestStack) {
    let queues = stack.queues();
    set_attribute(stack, &queues.ingest, QueueAttributeName::VisibilityTimeout, "20").await;
    set_attribute(stack, &queues.retry, QueueAttributeName::RedrivePolicy, "").await;
    stack.set_mappings(Some(&queues.bulk), false).await;
    stack.put_secret("VapidSecretArn", RUBBISH).await;
    let short = ("SEND_TIMEOUT_SECONDS".to_owned(), "20".to_owned());
    stack.change_dispatch(|variables| variables.extend([short])).await;
    // It would find the key, too: as if it had started before that was changed.
    stack.write_log(&[r#"{"event":"successes"}"#], System.now().as_ms()).await;

    let done = stack.redial("doctor");
    let lines = done.stdout.clone();
    let faults: Vec<_> = lines.lines().filter(|line| line.starts_with("fault ")).collect();
    assert_each_contains(&faults, &PLANTED);
    assert!(!lines.contains("warning ") && !lines.contains("skipped "), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.trim_start().starts_with("do: ")).count(), 5, "{lines}");
    let said = done.ends_with(1);
    assert!(said.contains("has 5 faults"), "{said}");

    let done = stack.redial("doctor --json");
    assert_eq!(done.status, Some(1));
    let report = done.json();
    assert_fields(&report, json!({"faults": 5, "warnings": 0}));
    assert_each_contains(&found(&report, "fault"), &PLANTED);
    assert!(!format!("{lines}{report}").contains(RUBBISH));
    for arguments in ["doctor", "doctor --json"] {
        let unread = run_closed(&mut stack.command(arguments)).ends_with(1);
        assert!(!unread.contains("panicked"), "{unread}");
    }
}

async fn set_attribute(stack: &TestStack, queue: &str, name: QueueAttributeName, value: &str) {
    let set = stack.sqs.set_queue_attributes().queue_url(queue).attributes(name, value);
    set.send().await.expect("SQS takes it");
}

/// The faults are mended as doctor says. A key without its public half and an open breaker come instead, and a limit.
async fn mended_faults_are_gone_and_a_warning_is_no_fault(stack: &TestStack) {
    let queues = stack.queues();
    set_attribute(stack, &queues.ingest, QueueAttributeName::VisibilityTimeout, "180").await;
    let of_bulk = stack.sqs.get_queue_attributes().queue_url(&queues.bulk);
    let of_bulk = of_bulk.attribute_names(QueueAttributeName::RedrivePolicy).send().await;
    let of_bulk = of_bulk.expect("SQS answers");
    let policy = &of_bulk.attributes.expect("attributes")[&QueueAttributeName::RedrivePolicy];
    set_attribute(stack, &queues.retry, QueueAttributeName::RedrivePolicy, policy).await;
    stack.set_mappings(Some(&queues.bulk), true).await;
    // The least scalar that is a key.
    stack.put_secret("VapidSecretArn", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE").await;
    stack.change_dispatch(|variables| drop(variables.remove("SEND_TIMEOUT_SECONDS"))).await;

    let origin = "https://out.example";
    stack.shown(format!("breakers open {origin} --for 10m"));
    let tables = stack.tables();
    let protection = DynamoProtection::new(stack.dynamodb.clone(), tables.control.clone());
    let limited = Limited::Origin(Origin::parse(origin).expect("an origin"));
    protection.set_limit(&limited, Rate::parse("5/s").expect("a rate")).await.expect("the table takes it");

    let report = stack.json("doctor");
    assert_eq!(found(&report, "fault"), [""; 0]);
    let warnings = ["lists other VAPID keys than those in the secret", "https://out.example is open until"];
    assert_each_contains(&found(&report, "warning"), &warnings);

    // Stored subscriptions of a key that is not in the secret.
    for (id, key) in [("s1", "2024"), ("s2", "default")] {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = stack.dynamodb.put_item().table_name(&tables.subscriptions);
        let put = put.item("pk", text(&format!("acme#{id}"))).item("kind", text("web_push"));
        put.item("vapid_key_id", text(key)).send().await.expect("the table takes it");
    }
    let done = stack.redial("doctor --json");
    assert_eq!(done.status, Some(1));
    let faults = found(&done.json(), "fault");
    assert_each_contains(&faults, &["sample of 2"]);
    assert!(faults[0].ends_with("2024 (1)"), "{faults:?}");
}

const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d";

/// Words of the faults, in the order of the checks.
const OF_THE_ACCOUNT: [&str; 6] = [
    "the deployed template has 500 resources; CloudFormation allows 500",
    "the mappings may run 49 batches at once, and 10 of the account's 10 concurrent executions are not reserved",
    "the recursion setting of dispatch is Terminate",
    "dispatch cannot start: it runs on x86_64, and its program was built for another architecture",
    "dispatch could not use a KMS key: SendMessageBatch: KMS.AccessDeniedException (1 within the last hour)",
    "DynamoDB throttled 120 reads and 0 writes of the table of deliveries within the last hour, some of them within",
];

/// As emulators answer, each in its own words.
async fn an_unavailable_operation_is_unchecked(stack: &TestStack, proxy: &FaultProxy) {
    let pro = "API action for service 'lambda' not yet implemented or pro feature";
    let not_implemented = json!({"__type": "InternalFailure", "message": pro});
    plant_answer(proxy, "/account-settings", 501, &not_implemented);
    plant_answer(proxy, "/recursion-config", 501, &not_implemented);
    // A map of two pairs of texts, each after its length.
    let unknown = b"\xa2\x66__type\x6dInvalidAction\x67message\x6eUnknown action";
    proxy.when(|call| call.operation.ends_with("/GetMetricData"), Fault::Cbor(400, unknown.to_vec()));
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
    let unchecked = &report["checks"][13]["unchecked"];
    assert_eq!(unchecked[0]["why"], "this emulator has no metrics of tables", "{report}");
}

async fn each_planted_fault_is_named_alone(stack: &TestStack, proxy: &FaultProxy) {
    plant(stack, proxy).await;
    let done = stack.redial("doctor --json");
    assert_eq!(done.status, Some(1));
    let report = done.json();
    assert_each_contains(&found(&report, "fault"), &OF_THE_ACCOUNT);
    assert_each_contains(&found(&report, "warning"), &[&format!("{KEY} of the ingest queue")]);
    assert_eq!(report["unchecked"], 0, "{report}");
}

async fn plant(stack: &TestStack, proxy: &FaultProxy) {
    plant_answer(proxy, "/account-settings", 200, &account_with(10));
    throttle(stack, 120).await;
    let resources: serde_json::Map<String, _> = (0..500).map(|at| (format!("R{at}"), json!(1))).collect();
    let template = json!({"Resources": resources});
    let template = format!(
        "<GetTemplateResponse><GetTemplateResult><TemplateBody>{template}</TemplateBody></GetTemplateResult></GetTemplateResponse>"
    );
    let is_get_template = |call: &Call| String::from_utf8_lossy(&call.body).contains("Action=GetTemplate&");
    proxy.when(is_get_template, Fault::Status(200, template));
    let (dispatch, ingest) = (&stack.description().functions.dispatch, &stack.queues().ingest);
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
