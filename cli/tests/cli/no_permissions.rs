//! A caller without permissions: each missing one is named, and none is a fault of the stack.

use redial::local::{Description, StackKey};
use redial_testkit::proxy::{Call, Fault, FaultProxy};
use redial_tests::test_stack::register;

use crate::prelude::*;

/// A service that denies every call, in the words of the protocol that the call is in.
fn denying() -> FaultProxy {
    let proxy = FaultProxy::start("http://127.0.0.1:9").expect("a free port");
    let is_query = |call: &Call| String::from_utf8_lossy(&call.body).contains("Action=");
    let xml = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>";
    // A map of two pairs of texts, each after its length.
    let cbor = b"\xa2\x66__type\x75AccessDeniedException\x67message\x67not you";
    let json = json!({"__type": "AccessDeniedException", "message": "not you"});
    proxy.when(is_query, Fault::Status(403, xml.to_owned()));
    proxy.when(|call| call.operation.contains("/service/"), Fault::Cbor(403, cbor.to_vec()));
    proxy.when(|_| true, Fault::Status(403, json.to_string()));
    proxy
}

fn description(endpoint: &str) -> Description {
    let url = |queue: &str| format!("{endpoint}/000000000000/{queue}");
    let description = json!({
        "endpoint": endpoint, "region": "us-east-1", "vapid_public_key": "", "webhook_key_secret": "webhook-key",
        "queues": {
            "ingest": url("ingest"), "bulk": url("bulk"), "retry": url("retry"), "retry_bulk": url("retry-bulk"),
            "dead_letter": url("dlq"), "quarantine": url("quarantine"),
        },
        "tables": {
            "deliveries": "deliveries", "subscriptions": "subscriptions", "audiences": "audiences",
            "parked": "parked", "dead_letters": "dead_letters", "control": "control",
        },
        "state_machine": "arn:aws:states:us-east-1:000000000000:stateMachine:wait",
        "functions": {"dispatch": "dispatch", "cleanup": "cleanup", "ingest": "ingest"},
    });
    serde_json::from_value(description).expect("a description")
}

/// Runs a command of which every call is denied.
fn denied(arguments: &str) -> Done {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let denying = denying();
    register(folder.path(), description(denying.url()), &StackKey::of_localstack());
    run(&mut unregistered(arguments, folder.path()), "")
}

fn assert_named(permissions: &str, shown: &str) {
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for permission in permissions.split(' ') {
        assert!(words.contains(&format!("you have no permission {permission}")), "{permission}: {shown}");
    }
}

#[test]
fn doctor_names_missing_permissions_and_finds_no_fault() {
    let lines = denied("doctor").succeeds();
    let of_lambda =
        "lambda:GetFunctionConfiguration lambda:GetAccountSettings lambda:GetFunctionRecursionConfig";
    assert_named(of_lambda, &lines);
    let others =
        "cloudformation:DescribeStacks cloudwatch:GetMetricData dynamodb:DescribeTable dynamodb:Query";
    assert_named(others, &lines);
    // The page has each, for those who write a policy.
    let page = include_str!("../../../infra/docs/operate.md");
    for line in lines.lines().filter(|line| line.contains("you have no permission ")) {
        let (_, rest) = line.split_once("you have no permission ").expect("it is there");
        let permission = rest.split([' ', ',', ';']).next().unwrap_or_default();
        assert!(page.contains(&format!("`{permission}`")), "{permission}");
    }
    // The time is in every answer, also in a refusal.
    let is_unchecked = |line: &str| line.starts_with("skipped ") || line.starts_with("ok       clock ");
    assert!(lines.lines().all(is_unchecked), "{lines}");
    let report = denied("doctor --json").json();
    let findings = report["checks"].as_array().expect("checks").iter().map(|check| &check["findings"]);
    let severities = findings.flat_map(|it| it.as_array().expect("findings")).map(|it| &it["severity"]);
    assert!(severities.clone().all(|it| *it != "fault" && *it != "warning"), "{report}");
}

#[test]
fn verify_names_missing_permissions_and_finds_no_fault() {
    let lines = denied("verify").succeeds();
    let of_stack = "the list of the stack's resources could not be checked";
    assert!(
        lines.lines().any(|line| line.starts_with("skipped  parts ") && line.contains(of_stack)),
        "{lines}"
    );
}

#[test]
fn the_summary_names_missing_permissions_and_keeps_its_fields() {
    let words = denied("status --summary");
    assert_eq!(words.status, Some(1), "nothing could be read: {words:?}");
    assert_named("sqs:GetQueueAttributes cloudwatch:GetMetricData dynamodb:Query", &words.stdout);
    let document = denied("status --summary --json");
    assert_eq!(document.status, Some(1));
    let document = document.json();
    assert_fields(&document, json!({"ok": false, "findings": []}));
    let queues = document["queues"].as_array().expect("a list");
    assert_eq!(queues.len(), 6);
    for queue in queues {
        let trouble = "you have no permission sqs:GetQueueAttributes";
        assert_fields(queue, json!({"waiting": null, "oldest_seconds": null, "trouble": trouble}));
    }
    assert_eq!(document["parked"]["trouble"], "you have no permission dynamodb:Query");
    assert_eq!(document["origins_trouble"], "you have no permission dynamodb:Query");
    assert_eq!(document["last_minutes"]["trouble"], "you have no permission cloudwatch:GetMetricData");
}
