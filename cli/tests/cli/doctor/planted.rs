//! Faults that are planted on a stack that was well.

use std::io::Read as _;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::{endpoint::Origin, rate::Rate};
use redial_engine::ports::Limited;

use super::*;

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

pub(super) async fn a_healthy_stack_has_no_findings(stack: &TestStack) {
    let done = stack.redial("doctor");
    assert!(done.stderr.contains("has no faults"), "{}", done.stderr);
    let lines = done.succeeds();
    for (line, check) in lines.lines().zip(CHECKS) {
        assert!(line.starts_with(&format!("ok       {check} ")), "{line}");
    }
    assert_eq!(lines.lines().count(), CHECKS.len(), "{lines}");
    let report = stack.json("doctor");
    for severity in ["faults", "warnings", "unchecked"] {
        assert_eq!(report[severity], 0, "{report}");
    }
    let checks = report["checks"].as_array().expect("checks").iter();
    assert_eq!(checks.filter_map(|it| it["check"].as_str()).collect::<Vec<_>>(), CHECKS);
}

pub(super) async fn five_faults_are_named_and_nothing_else(stack: &TestStack) {
    let queues = &stack.description().queues;
    set_attribute(stack, &queues.ingest, QueueAttributeName::VisibilityTimeout, "20").await;
    set_attribute(stack, &queues.retry, QueueAttributeName::RedrivePolicy, "").await;
    stack.set_mappings(Some(&queues.bulk), false).await;
    stack.put_secret("VapidSecretArn", RUBBISH).await;
    let short = ("SEND_TIMEOUT_SECONDS".to_owned(), "20".to_owned());
    stack.change_dispatch(|variables| variables.extend([short])).await;

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
    assert_eq!((&report["faults"], &report["warnings"]), (&json!(5), &json!(0)), "{report}");
    assert_each_contains(&found(&report, "fault"), &PLANTED);
    assert!(!format!("{lines}{report}").contains(RUBBISH));
}

async fn set_attribute(stack: &TestStack, queue: &str, name: QueueAttributeName, value: &str) {
    let set = stack.sqs.set_queue_attributes().queue_url(queue).attributes(name, value);
    set.send().await.expect("SQS takes it");
}

pub(super) async fn a_reader_that_leaves_is_no_error(stack: &TestStack) {
    for arguments in ["doctor", "doctor --json"] {
        let mut child = started(&mut stack.command(arguments));
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{said}");
    }
}

/// The faults are mended as doctor says. A key without its public half and an open breaker come instead, and a limit.
pub(super) async fn mended_faults_are_gone_and_a_warning_is_no_fault(stack: &TestStack) {
    let queues = &stack.description().queues;
    set_attribute(stack, &queues.ingest, QueueAttributeName::VisibilityTimeout, "180").await;
    let of_bulk = stack.sqs.get_queue_attributes().queue_url(&queues.bulk);
    let of_bulk =
        of_bulk.attribute_names(QueueAttributeName::RedrivePolicy).send().await.expect("SQS answers");
    let policy = &of_bulk.attributes.expect("attributes")[&QueueAttributeName::RedrivePolicy];
    set_attribute(stack, &queues.retry, QueueAttributeName::RedrivePolicy, policy).await;
    stack.set_mappings(Some(&queues.bulk), true).await;
    // The least scalar that is a key.
    stack.put_secret("VapidSecretArn", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE").await;
    stack.change_dispatch(|variables| drop(variables.remove("SEND_TIMEOUT_SECONDS"))).await;

    let origin = "https://out.example";
    stack.shown(["breakers", "open", origin, "--for", "10m"]);
    let tables = &stack.description().tables;
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
