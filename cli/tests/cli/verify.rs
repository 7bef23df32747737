//! `redial verify` on a healthy stack, and on one into which fault after fault is planted: each is found, and nothing else.
//!
//! On a LocalStack, functions are processes of this machine, so that the settings of functions, and most of mappings and schedules, are
//! nowhere that a fault could be planted.

use aws_sdk_lambda::types::{FunctionResponseType, RecursiveLoop, ScalingConfig};
use aws_sdk_sqs::types::QueueAttributeName::{self, DelaySeconds, Policy, RedrivePolicy, VisibilityTimeout};
use redial_testkit::{
    https_front::HttpsFront,
    proxy::{Fault, FaultProxy},
};

use redial_tests::test_stack::localstack;

use crate::prelude::*;

#[tokio::test]
async fn verify_finds_each_planted_fault_and_nothing_else() {
    // With the real functions: it is examined whether they start.
    let stack = TestStack::as_deployed_with(|_| {}).await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    steps! {
        a_healthy_stack_has_no_finding(&stack);
        what_roles_may_do(&stack).await;
        who_assumes_a_role(&stack).await;
        a_disabled_mapping(&stack).await;
        queues(&stack).await;
        tables(&stack).await;
        waits(&stack, &proxy).await;
        log_groups(&stack).await;
        alarms(&stack).await;
    }
    if localstack().is_none() {
        steps! {
            mappings(&stack).await;
            functions(&stack).await;
            schedules(&stack).await;
        }
    }
    a_healthy_stack_has_no_finding(&stack);
}

/// The checks, and for each whether the embedded emulator can answer all of it, and whether LocalStack can.
const CHECKS: [(&str, [bool; 2]); 10] = [
    ("parts", [false, false]),
    ("roles", [false, false]),
    ("runtime", [false, true]),
    ("polling", [true, true]),
    ("schedules", [true, false]),
    ("queue setup", [true, true]),
    ("table setup", [false, false]),
    ("machine", [true, true]),
    ("alarm rules", [true, true]),
    ("logs", [true, false]),
];

/// What an emulator cannot answer is unchecked with its reason, and is not reported as well.
fn a_healthy_stack_has_no_finding(stack: &TestStack) {
    assert_eq!(found(stack), [""; 0]);
    let done = stack.redial("verify");
    assert!(done.stderr.contains("has no faults; "), "{}", done.stderr);
    let lines = done.succeeds();
    for (check, is_whole) in CHECKS {
        let has = |label: &str| lines.lines().any(|line| line.starts_with(&format!("{label:<9}{check:<15}")));
        let is_whole = is_whole[usize::from(localstack().is_some())];
        assert_eq!((has("ok"), has("skipped")), (is_whole, !is_whole), "{check}: {lines}");
    }
    let of_functions = if localstack().is_some() { "are not in EventBridge here" } else { "reserves none" };
    for reason in ["an emulator enforces no boundary", "keeps no continuous backups", of_functions] {
        assert!(lines.contains(reason), "{reason}: {lines}");
    }
}

/// What is found, with its severity.
fn found(stack: &TestStack) -> Vec<String> {
    let report = stack.redial("verify --json").json();
    let checks = report["checks"].as_array().expect("checks").iter();
    let findings = checks.flat_map(|check| check["findings"].as_array().expect("findings"));
    let shown = findings.map(|finding| {
        assert!(finding["do"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{finding}");
        format!("{}: {}", finding["severity"].as_str().unwrap_or(""), finding["found"].as_str().unwrap_or(""))
    });
    shown.collect()
}

#[track_caller]
fn finds_alone(stack: &TestStack, words: &str) {
    let found = found(stack);
    assert!(matches!(&found[..], [only] if only.contains(words)), "expected {words:?}, found {found:#?}");
}

/// The resource's name in the account, by its name in the template.
pub(crate) async fn deployed_as(stack: &TestStack, resource: &str) -> String {
    let client = aws_sdk_cloudformation::Client::new(&stack.stack().sdk_config());
    let name = stack.variables(&stack.description().functions.dispatch).await["REDIAL_STACK"].clone();
    let listed = client.describe_stack_resource().stack_name(name).logical_resource_id(resource).send().await;
    let detail = listed.expect("CloudFormation answers").stack_resource_detail.expect("a resource");
    detail.physical_resource_id.expect("its name")
}

fn iam(stack: &TestStack) -> aws_sdk_iam::Client {
    aws_sdk_iam::Client::new(&stack.stack().sdk_config())
}

async fn what_roles_may_do(stack: &TestStack) {
    let iam = iam(stack);
    let dispatch = deployed_as(stack, "DispatchRole").await;
    let put = async |policy: &str, document: &str| {
        let put = iam.put_role_policy().role_name(&dispatch).policy_name(policy).policy_document(document);
        put.send().await.expect("IAM takes it");
    };
    let read = iam.get_role_policy().role_name(&dispatch).policy_name("dispatch").send().await;
    let healthy = decoded(read.expect("the template's policy").policy_document());
    let mut less: Value = serde_json::from_str(&healthy).expect("JSON");
    let statements = less["Statement"].as_array_mut().expect("statements");
    statements.retain(|statement| statement["Sid"] != "StartWait");
    put("dispatch", &less.to_string()).await;
    finds_alone(stack, "fault: DispatchRole may not states:StartExecution on stateMachine:");

    let mut narrower: Value = serde_json::from_str(&healthy).expect("JSON");
    let statements = narrower["Statement"].as_array_mut().expect("statements");
    let ledger = statements.iter_mut().find(|it| it["Sid"] == "Ledger").expect("the template's statement");
    ledger["Action"] = json!(["dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"]);
    put("dispatch", &narrower.to_string()).await;
    finds_alone(stack, "fault: DispatchRole may not dynamodb:UpdateItem on table/");
    put("dispatch", &healthy).await;

    let allow = |effect: &str| {
        json!({"Version": "2012-10-17", "Statement": [
            {"Effect": effect, "Action": "secretsmanager:PutSecretValue", "Resource": "*"},
        ]})
    };
    put("more", &allow("Allow").to_string()).await;
    finds_alone(stack, "warning: DispatchRole may secretsmanager:PutSecretValue on *");
    put("more", &allow("Deny").to_string()).await;
    finds_alone(stack, "fault: DispatchRole is denied secretsmanager:PutSecretValue on *");
    let delete = iam.delete_role_policy().role_name(&dispatch).policy_name("more");
    delete.send().await.expect("IAM takes it");
}

/// IAM returns documents encoded for a URL.
fn decoded(text: &str) -> String {
    let url = reqwest::Url::parse(&format!("http://x/?d={}", text.replace('+', "%2B"))).expect("a URL");
    url.query_pairs().next().expect("a document").1.into_owned()
}

async fn who_assumes_a_role(stack: &TestStack) {
    let iam = iam(stack);
    let role = deployed_as(stack, "CleanupRole").await;
    let trust = |principal: &Value| {
        let statement = json!({"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"});
        json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
    };
    let update = async |document: String| {
        let update = iam.update_assume_role_policy().role_name(&role).policy_document(document);
        update.send().await.expect("IAM takes it");
    };
    update(trust(&json!("*"))).await;
    finds_alone(stack, "fault: the trust policy of CleanupRole is not the template's");
    update(trust(&json!({"Service": "lambda.amazonaws.com"}))).await;
}

async fn a_disabled_mapping(stack: &TestStack) {
    let queues = stack.queues();
    stack.set_mappings(Some(&queues.retry), false).await;
    finds_alone(stack, "fault: the mapping from the retry queue to dispatch is disabled");
    stack.set_mappings(Some(&queues.retry), true).await;
}

async fn mappings(stack: &TestStack) {
    let queues = stack.queues();
    let all = stack.lambda.list_event_source_mappings().send().await.expect("Lambda answers");
    let name = queues.ingest.rsplit('/').next().expect("a name");
    let of_ingest = |arn: &str| arn.ends_with(&format!(":{name}"));
    let mapping = all.event_source_mappings().iter().find(|it| it.event_source_arn().is_some_and(of_ingest));
    let uuid = mapping.and_then(|it| it.uuid()).expect("the ingest queue's mapping");
    let update = || stack.lambda.update_event_source_mapping().uuid(uuid);
    update().set_function_response_types(Some(Vec::new())).send().await.expect("Lambda takes it");
    finds_alone(
        stack,
        "fault: the mapping from the ingest queue to dispatch does not report batch item failures",
    );
    let reports = update().function_response_types(FunctionResponseType::ReportBatchItemFailures);
    reports.send().await.expect("Lambda takes it");

    update().batch_size(1).send().await.expect("Lambda takes it");
    finds_alone(
        stack,
        "fault: BatchSize of the mapping Ingest of DispatchFunction is 1; the template has 10",
    );
    update().batch_size(10).send().await.expect("Lambda takes it");

    let scaled = |maximum| ScalingConfig::builder().maximum_concurrency(maximum).build();
    update().scaling_config(scaled(2)).send().await.expect("Lambda takes it");
    finds_alone(
        stack,
        "fault: MaximumConcurrency of the mapping Ingest of DispatchFunction is 2; the template has 20",
    );
    update().scaling_config(scaled(20)).send().await.expect("Lambda takes it");
}

async fn functions(stack: &TestStack) {
    let dispatch = &stack.description().functions.dispatch;
    let update = || stack.lambda.update_function_configuration().function_name(dispatch);
    update().timeout(28).send().await.expect("Lambda takes it");
    stack.until_dispatch_is_updated().await;
    finds_alone(stack, "fault: Timeout of DispatchFunction is 28; the template has 30");
    update().timeout(30).memory_size(128).send().await.expect("Lambda takes it");
    stack.until_dispatch_is_updated().await;
    finds_alone(stack, "warning: MemorySize of DispatchFunction is 128; the template has 256");
    update().memory_size(256).send().await.expect("Lambda takes it");
    stack.until_dispatch_is_updated().await;

    let put = async |setting| {
        let put = stack.lambda.put_function_recursion_config().function_name(dispatch);
        put.recursive_loop(setting).send().await.expect("Lambda takes it");
    };
    put(RecursiveLoop::Terminate).await;
    finds_alone(stack, "fault: the recursion setting of dispatch is Terminate");
    put(RecursiveLoop::Allow).await;
}

async fn queues(stack: &TestStack) {
    let ingest = &stack.queues().ingest;
    let read = stack.sqs.get_queue_attributes().queue_url(ingest).attribute_names(QueueAttributeName::All);
    let healthy = read.send().await.expect("SQS answers").attributes.expect("attributes");
    for (name, value, words) in [
        (VisibilityTimeout, "20", "fault: the visibility timeout of the ingest queue is 20 s"),
        (RedrivePolicy, "", "fault: the ingest queue has no redrive policy"),
        (DelaySeconds, "60", "fault: DelaySeconds of IngestQueue is 60; the template has 0"),
        (Policy, "", "fault: the policy of IngestQueue does not require TLS"),
    ] {
        for (value, is_planted) in [(value, true), (&healthy[&name], false)] {
            let set = stack.sqs.set_queue_attributes().queue_url(ingest).attributes(name.clone(), value);
            set.send().await.expect("SQS takes it");
            if is_planted {
                finds_alone(stack, words);
            }
        }
    }
}

async fn tables(stack: &TestStack) {
    let set = async |enabled| {
        let expiry = aws_sdk_dynamodb::types::TimeToLiveSpecification::builder();
        let expiry = expiry.attribute_name("expires_at").enabled(enabled).build().expect("complete");
        let update = stack.dynamodb.update_time_to_live().table_name(&stack.tables().deliveries);
        update.time_to_live_specification(expiry).send().await.expect("DynamoDB takes it");
    };
    set(false).await;
    finds_alone(stack, "fault: items of the table of deliveries do not expire");
    set(true).await;
}

async fn waits(stack: &TestStack, proxy: &FaultProxy) {
    let arn = &stack.description().state_machine;
    let described =
        stack.sfn.describe_state_machine().state_machine_arn(arn).send().await.expect("it is there");
    let healthy = described.definition();
    let hasty = healthy.replace("\"MaxAttempts\": 10", "\"MaxAttempts\": 1");
    let update = async |definition: &str| {
        let update = stack.sfn.update_state_machine().state_machine_arn(arn).definition(definition);
        update.send().await.expect("Step Functions takes it");
    };
    update(&hasty).await;
    finds_alone(stack, "fault: the definition of WaitStateMachine is not infra/wait.asl.json");
    update(healthy).await;

    // Its type cannot be changed, so that AWS's answer for another machine stands in for it.
    let express = json!({
        "stateMachineArn": arn, "name": "w", "status": "ACTIVE", "definition": healthy,
        "roleArn": described.role_arn(), "type": "EXPRESS", "creationDate": 1_700_000_000.0,
    });
    let is_described = |call: &redial_testkit::proxy::Call| call.operation == "DescribeStateMachine";
    proxy.when(is_described, Fault::Status(200, express.to_string()));
    finds_alone(stack, "fault: Type of WaitStateMachine is EXPRESS; the template has STANDARD");
    proxy.reset();
}

async fn schedules(stack: &TestStack) {
    let rule = deployed_as(stack, "CleanupFunctionSweepWaits").await;
    let events = aws_sdk_eventbridge::Client::new(&stack.stack().sdk_config());
    events.disable_rule().name(&rule).send().await.expect("EventBridge takes it");
    finds_alone(
        stack,
        "fault: State of the schedule CleanupFunctionSweepWaits is DISABLED; the template has ENABLED",
    );
    events.enable_rule().name(&rule).send().await.expect("EventBridge takes it");
}

async fn log_groups(stack: &TestStack) {
    let group = deployed_as(stack, "DispatchLogs").await;
    for (days, is_planted) in [(1, true), (30, false)] {
        let put = stack.logs.put_retention_policy().log_group_name(&group).retention_in_days(days);
        put.send().await.expect("CloudWatch Logs takes it");
        if is_planted {
            finds_alone(stack, "warning: RetentionInDays of DispatchLogs is 1; the template has 30");
        }
    }
}

async fn alarms(stack: &TestStack) {
    let cloudwatch = aws_sdk_cloudwatch::Client::new(&stack.stack().sdk_config());
    let name = deployed_as(stack, "QuarantineDepthAlarm").await;
    let described = cloudwatch.describe_alarms().alarm_names(&name).send().await.expect("CloudWatch answers");
    let alarm = described.metric_alarms.unwrap_or_default().pop().expect("the alarm");
    let put = async |threshold| {
        let put = cloudwatch.put_metric_alarm().alarm_name(&name);
        let put = put.set_alarm_description(alarm.alarm_description.clone());
        let put = put.set_namespace(alarm.namespace.clone()).set_metric_name(alarm.metric_name.clone());
        let put = put.set_dimensions(alarm.dimensions.clone()).set_statistic(alarm.statistic.clone());
        let put = put.set_period(alarm.period).set_evaluation_periods(alarm.evaluation_periods);
        let put = put.set_datapoints_to_alarm(alarm.datapoints_to_alarm);
        let put = put.set_comparison_operator(alarm.comparison_operator.clone());
        let put = put.set_treat_missing_data(alarm.treat_missing_data.clone());
        put.threshold(threshold).send().await.expect("CloudWatch takes it");
    };
    put(1_000_000.0).await;
    finds_alone(stack, "fault: Threshold of QuarantineDepthAlarm is 1000000; the template has ");
    cloudwatch.delete_alarms().alarm_names(&name).send().await.expect("CloudWatch takes it");
    finds_alone(stack, "fault: alarms were deleted: QuarantineDepthAlarm");
    put(alarm.threshold.expect("a threshold")).await;
}

/// No server is there.
const NOWHERE: &str = "https://localhost:1";

/// Where a server can listen that another process starts.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// A stack that reaches the receiver over TLS, as it is deployed: with its breakers and its own waits. The receiver is at a function URL of
/// the emulator, or at this port if functions run on this machine.
async fn stack_that_reaches_the_receiver(port: u16) -> (TestStack, HttpsFront, tempfile::TempDir) {
    let front = HttpsFront::start().expect("a free port");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, front.ca_pem()).expect("the folder is writable");
    let stack = TestStack::as_deployed_with(|options| {
        options.egress_allow = vec![front.origin().to_owned(), NOWHERE.to_owned()];
        // Each worker reads it when it starts.
        options.egress_ca = Some(ca);
    });
    let stack = stack.await;
    let emulator = stack.description().endpoint.trim_start_matches("http://").parse();
    let is_hosted = stack.description().function_host.is_some();
    front.lead_to(if is_hosted { ([127, 0, 0, 1], port).into() } else { emulator.expect("an address") });
    (stack, front, folder)
}

fn of_roads(document: &Value) -> Value {
    let checks = document["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["check"] == "roads").cloned().expect("roads")
}

#[tokio::test]
async fn every_road_ends_as_it_has_to_and_the_receiver_is_removed() {
    let port = free_port();
    let (stack, front, _ca) = stack_that_reaches_the_receiver(port).await;
    let is_hosted = stack.description().function_host.is_some();
    let file = stack.folder().join("verified.json");
    let roads = |at: &str, port: u16, report: &str| {
        let port = if is_hosted { format!("--receiver-port {port}") } else { String::new() };
        let mut command = stack
            .command(format!("verify --roads --metrics --yes --json --receiver-at {at} {port} {report}"));
        tokio::task::spawn_blocking(move || run(&mut command, ""))
    };
    let report = format!("--report {}", file.display());
    let (well, ill) = tokio::join!(roads(front.origin(), port, &report), roads(NOWHERE, free_port(), ""));
    let (well, ill) = (well.expect("no panic"), ill.expect("no panic"));

    assert!(well.stderr.contains("10 messages will be sent through"), "{}", well.stderr);
    assert!(well.stderr.contains(" USD at list prices"), "{}", well.stderr);
    assert!(well.stderr.contains("CloudWatch's metrics of them cost 0.0040 USD at most"), "{}", well.stderr);
    let document = well.json();
    let report = of_roads(&document);
    assert_eq!(report["well"], "all 10 messages ended as they have to", "{report} {}", well.stderr);
    assert_eq!((well.status, ill.status), (Some(0), Some(1)), "{}", well.stderr);
    assert_fields(&document, json!({"faults": 0, "on": "emulator", "region": "us-east-1"}));
    let ends: Vec<_> = document["roads"].as_array().expect("roads").iter().collect();
    let pushes = ends.iter().filter(|it| it["road"].as_str().is_some_and(|it| it.starts_with("push")));
    assert_eq!((ends.len(), pushes.count()), (10, 3));
    assert!(ends.iter().all(|it| it["ok"] == true && it["found"] == it["expected"]), "{ends:?}");
    let written = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(parsed(&written), document);
    let metrics = document["checks"].as_array().expect("checks").last().expect("the last check");
    assert_eq!(metrics["unchecked"][0]["why"], "an emulator has no metrics of AWS's services");

    let report = of_roads(&ill.json());
    let findings = report["findings"].as_array().expect("findings");
    // The message that is to fail for good does so without a receiver, too.
    assert_eq!(findings.len(), 9, "{report}");
    let delivered =
        "the road delivered: failed (retries_exhausted), attempt 2, dead letter; expected sent, attempt 1";
    assert!(
        findings.iter().any(|it| it["found"].as_str().is_some_and(|it| it.contains(delivered))),
        "{report}"
    );

    let client = aws_sdk_cloudformation::Client::new(&stack.stack().sdk_config());
    let stacks =
        client.describe_stacks().send().await.expect("CloudFormation answers").stacks.unwrap_or_default();
    let own = stack.variables(&stack.description().functions.dispatch).await["REDIAL_STACK"].clone();
    // A LocalStack has those of other tests, too.
    let names: Vec<_> =
        stacks.iter().filter_map(|it| it.stack_name()).filter(|it| it.starts_with(&own)).collect();
    assert_eq!(names, [own.as_str()]);
    // Elsewhere it was not used, and may be another test's by now.
    let is_open = is_hosted && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(!is_open, "no receiver is left");
    assert!(!stack.redial("dead-letters list").stdout.contains("redial-verify-"), "none is left");
}

#[test]
fn the_receiver_believes_no_message_that_is_not_the_stack_s() {
    const TEMPLATE: &str = include_str!("../../../infra/verify.yaml");
    let code = TEMPLATE.split_once("ZipFile: |\n").expect("inline code").1;
    let code = code.lines().take_while(|line| line.is_empty() || line.starts_with("          "));
    let code: Vec<&str> = code.collect();
    let ran = std::process::Command::new("node")
        .args(["-e", include_str!("receiver.js"), &code.join("\n")])
        .output();
    let Ok(ran) = ran else {
        assert!(std::env::var_os("CI").is_none(), "Node.js is missing: CI must run the receiver");
        println!("not run: there is no Node.js on this machine");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let statuses = parsed(std::str::from_utf8(&ran.stdout).expect("text"));
    for (name, status) in statuses.as_object().expect("statuses") {
        let expected = match name.as_str() {
            "a push" => 201,
            "a push that is to be refused" => 503,
            "a webhook" => 200,
            name if name.contains("push") => 403,
            _ => 401,
        };
        assert_eq!(*status, expected, "{name}");
    }
    assert_eq!(statuses.as_object().map(serde_json::Map::len), Some(15));
}

#[tokio::test]
async fn roads_are_not_walked_without_confirmation_or_a_way_to_the_receiver() {
    let stack = TestStack::shared_idle().await;
    let said = run(&mut stack.command("verify --roads"), "").ends_with(2);
    assert!(said.contains("pass --yes to send messages without confirmation"), "{said}");
    let said = run(&mut stack.command("verify --roads --yes"), "").ends_with(2);
    let advice = if localstack().is_some() { "give --receiver-port" } else { "give --receiver-at" };
    assert!(said.contains(advice) && said.contains("--receiver-at"), "{said}");
}
