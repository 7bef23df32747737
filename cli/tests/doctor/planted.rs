//! Faults that are planted on a healthy stack.

use std::{io::Read as _, process::Stdio, time::Duration};

use aws_sdk_lambda::types::{Environment, LastUpdateStatus, State};
use aws_sdk_sqs::types::QueueAttributeName;
use redial_core::{endpoint::Origin, rate::Rate};
use redial_engine::ports::Limited;

use super::harness::{Harness, found, json, stderr, stdout};

/// The VAPID secret's content: no key, and not to be printed.
const RUBBISH: &str = "rubbish-that-must-not-be-printed";

/// How long an update of a function may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A part of each fault, in the order of the checks.
const PLANTED: [&str; 5] = [
    "the visibility timeout of the ingest queue is 20 s, and dispatch may run for 30 s",
    "the retry queue has no redrive policy",
    "the mapping from the bulk queue to dispatch is disabled",
    "dispatch may run for 30 s, and an attempt may take 43 s",
    "the VAPID key is not valid",
];

const CHECKS: [&str; 17] = [
    "configuration",
    "template",
    "queues",
    "mappings",
    "concurrency",
    "functions",
    "recursion",
    "architecture",
    "keys",
    "encryption",
    "clock",
    "tables",
    "throttling",
    "waits",
    "alarms",
    "breakers",
    "limits",
];

pub(crate) fn nothing_is_found_on_a_healthy_stack(harness: &Harness) {
    let output = harness.redial(&["doctor"]);
    let lines = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{lines}{}", stderr(&output));
    for (line, check) in lines.lines().zip(CHECKS) {
        assert!(line.starts_with(&format!("ok       {check} ")), "{line}");
    }
    assert_eq!(lines.lines().count(), CHECKS.len(), "{lines}");
    assert!(stderr(&output).contains("has no faults"), "{}", stderr(&output));
    let shown = json(&harness.redial(&["doctor", "--json"]));
    for (count, of) in [(0, "faults"), (0, "warnings"), (0, "unchecked")] {
        assert_eq!(shown[of], count, "{shown}");
    }
    let checks: Vec<&str> =
        shown["checks"].as_array().expect("checks").iter().filter_map(|it| it["check"].as_str()).collect();
    assert_eq!(checks, CHECKS);
}

pub(crate) async fn five_planted_faults_are_found_and_nothing_else(harness: &Harness) {
    plant(harness).await;
    let output = harness.redial(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let lines = stdout(&output);
    let faults: Vec<&str> = lines.lines().filter(|line| line.starts_with("fault ")).collect();
    assert_eq!(faults.len(), PLANTED.len(), "{lines}");
    for (fault, planted) in faults.iter().zip(PLANTED) {
        assert!(fault.contains(planted), "{planted}: {fault}");
    }
    assert!(!lines.contains("warning ") && !lines.contains("skipped "), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.trim_start().starts_with("do: ")).count(), 5, "{lines}");
    assert!(stderr(&output).contains("has 5 faults"), "{}", stderr(&output));

    let output = harness.redial(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = json(&output);
    assert_eq!((&shown["faults"], &shown["warnings"]), (&5.into(), &0.into()), "{shown}");
    let faults = found(&shown, "fault");
    for (fault, planted) in faults.iter().zip(PLANTED) {
        assert!(fault.contains(planted), "{planted}: {fault}");
    }
    assert!(!format!("{lines}{shown}").contains(RUBBISH));
}

async fn plant(harness: &Harness) {
    let (sdk, queues) = (harness.stack.sdk_config(), &harness.stack.description().queues);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let lower = sqs.set_queue_attributes().queue_url(&queues.ingest);
    lower.attributes(QueueAttributeName::VisibilityTimeout, "20").send().await.expect("it takes it");
    let remove = sqs.set_queue_attributes().queue_url(&queues.retry);
    remove.attributes(QueueAttributeName::RedrivePolicy, "").send().await.expect("it takes it");
    enable_bulk(harness, false).await;
    set_vapid_secret(harness, RUBBISH).await;
    set_send_timeout(harness, Some("20")).await;
}

async fn enable_bulk(harness: &Harness, enabled: bool) {
    let lambda = aws_sdk_lambda::Client::new(&harness.stack.sdk_config());
    let mappings = lambda.list_event_source_mappings().send().await.expect("deployed");
    let queue = harness.stack.description().queues.bulk.rsplit('/').next().expect("a name").to_owned();
    let of_bulk = mappings
        .event_source_mappings()
        .iter()
        .find(|it| it.event_source_arn().is_some_and(|arn| arn.ends_with(&format!(":{queue}"))))
        .expect("it is deployed");
    let update = lambda.update_event_source_mapping().uuid(of_bulk.uuid().expect("an id")).enabled(enabled);
    update.send().await.expect("it is there");
}

/// Returns the previous content.
async fn set_vapid_secret(harness: &Harness, text: &str) -> String {
    let secrets = aws_sdk_secretsmanager::Client::new(&harness.stack.sdk_config());
    let id = harness.stack.output("VapidSecretArn").expect("an output");
    let before = secrets.get_secret_value().secret_id(id).send().await.expect("it is there").secret_string;
    secrets.put_secret_value().secret_id(id).secret_string(text).send().await.expect("it takes it");
    before.expect("a text")
}

async fn set_send_timeout(harness: &Harness, seconds: Option<&str>) {
    let lambda = aws_sdk_lambda::Client::new(&harness.stack.sdk_config());
    let dispatch = &harness.stack.description().functions.dispatch;
    let read = lambda.get_function_configuration().function_name(dispatch).send().await.expect("deployed");
    let mut variables = read.environment.and_then(|it| it.variables).expect("an environment");
    match seconds {
        Some(seconds) => variables.insert("SEND_TIMEOUT_SECONDS".to_owned(), seconds.to_owned()),
        None => variables.remove("SEND_TIMEOUT_SECONDS"),
    };
    let environment = Environment::builder().set_variables(Some(variables)).build();
    let update = lambda.update_function_configuration().function_name(dispatch).environment(environment);
    update.send().await.expect("it takes it");
    // Until the update has ended, it is a finding of its own.
    let is_updated = async {
        loop {
            let read = lambda.get_function_configuration().function_name(dispatch).send().await;
            let read = read.expect("deployed");
            let is_active = read.state() == Some(&State::Active);
            if is_active && read.last_update_status() == Some(&LastUpdateStatus::Successful) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_updated).await.expect("the function is updated");
}

pub(crate) fn a_closed_pipe_does_not_panic(harness: &Harness) {
    for arguments in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = harness.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        drop(child.stdout.take());
        let mut printed = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut printed).expect("text");
        let status = child.wait().expect("it ends");
        assert!(!printed.contains("panicked"), "{printed}");
        assert_eq!(status.code(), Some(1), "{printed}");
    }
}

/// The faults are repaired as the remedies say; a subscription's key, a limit and a breaker come instead.
pub(crate) async fn repaired_faults_are_gone_and_a_warning_is_no_fault(harness: &Harness) {
    let (sdk, queues) = (harness.stack.sdk_config(), &harness.stack.description().queues);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let raise = sqs.set_queue_attributes().queue_url(&queues.ingest);
    raise.attributes(QueueAttributeName::VisibilityTimeout, "180").send().await.expect("it takes it");
    let of_bulk = sqs.get_queue_attributes().queue_url(&queues.bulk);
    let of_bulk =
        of_bulk.attribute_names(QueueAttributeName::RedrivePolicy).send().await.expect("it is there");
    let policy = &of_bulk.attributes.expect("attributes")[&QueueAttributeName::RedrivePolicy];
    let back = sqs.set_queue_attributes().queue_url(&queues.retry);
    back.attributes(QueueAttributeName::RedrivePolicy, policy).send().await.expect("it takes it");
    enable_bulk(harness, true).await;
    // The least scalar that is a key.
    set_vapid_secret(harness, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE").await;
    set_send_timeout(harness, None).await;

    let origin = "https://out.example";
    let opened = harness.redial(&["breakers", "open", origin, "--for", "10m"]);
    assert!(opened.status.success(), "{}", stderr(&opened));
    let table = harness.stack.description().tables.control.clone();
    let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
    let protection = redial_adapters::protection_dynamo::DynamoProtection::new(dynamodb.clone(), table);
    let limited = Limited::Origin(Origin::parse(origin).expect("an origin"));
    protection.set_limit(&limited, Rate::parse("5/s").expect("a rate")).await.expect("it takes it");

    let output = harness.redial(&["doctor", "--json"]);
    let shown = json(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert_eq!(found(&shown, "fault"), [""; 0]);
    let warnings = found(&shown, "warning");
    // The public half of the key that was put there by hand was not published.
    let expected = ["lists other VAPID keys than those in the secret", "https://out.example is open until"];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    assert!(warnings.iter().zip(expected).all(|(warning, of)| warning.contains(of)), "{warnings:?}");

    // Stored subscriptions of a key that is not there.
    let subscriptions = &harness.stack.description().tables.subscriptions;
    for (id, key) in [("s1", "2024"), ("s2", "default")] {
        let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let item = dynamodb.put_item().table_name(subscriptions).item("pk", text(&format!("acme#{id}")));
        let item = item.item("kind", text("web_push")).item("vapid_key_id", text(key));
        item.send().await.expect("the table takes it");
    }
    let output = harness.redial(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let faults = found(&json(&output), "fault");
    assert!(
        faults.len() == 1 && faults[0].contains("sample of 2") && faults[0].ends_with("2024 (1)"),
        "{faults:?}"
    );
}
