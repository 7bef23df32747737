//! A caller without permissions, and arguments that are refused before any call.

#[path = "../shared/refusing.rs"]
mod refusing;

use serde_json::Value;

use super::harness::{command, document, note, stderr, stdout};
use refusing::{description, refusing};

#[test]
fn refused_reads_are_reported_and_every_json_field_is_present() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    note(folder.path(), &description(&refusing()));
    let output = command(folder.path(), &["status", "--summary"]).output().expect("it was built");
    let words = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "nothing could be read: {words}");
    for permission in ["sqs:GetQueueAttributes", "cloudwatch:GetMetricData", "dynamodb:Query"] {
        assert!(words.contains(&format!("you have no permission {permission}")), "{permission}: {words}");
    }
    let output = command(folder.path(), &["status", "--summary", "--json"]).output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let shown = document(&stdout(&output));
    assert_eq!((&shown["ok"], &shown["findings"]), (&Value::Bool(false), &Value::Array(Vec::new())));
    assert_eq!(shown["queues"].as_array().map(Vec::len), Some(6));
    for queue in shown["queues"].as_array().expect("a list") {
        assert_eq!((&queue["waiting"], &queue["oldest_seconds"]), (&Value::Null, &Value::Null));
        assert_eq!(queue["trouble"], "you have no permission sqs:GetQueueAttributes");
    }
    assert_eq!(shown["parked"]["trouble"], "you have no permission dynamodb:Query");
    assert_eq!(shown["origins_trouble"], "you have no permission dynamodb:Query");
    assert_eq!(shown["last_minutes"]["trouble"], "you have no permission cloudwatch:GetMetricData");
}

#[test]
fn contradictory_arguments_exit_with_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [
        &["status"][..],
        &["status", "d1"],
        &["status", "--tenant", "acme"],
        &["status", "d1", "--tenant", "acme", "--summary"],
        &["status", "--summary", "--wait", "5"],
        &["status", "--summary", "--watch", "0"],
        &["status", "d1", "--tenant", "acme", "--watch", "5"],
        &["status", "d1", "--tenant", "acme", "--all"],
    ] {
        let done = command(folder.path(), arguments).output().expect("it was built");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
    }
    let done = command(folder.path(), &["status", "--summary"]).output().expect("it was built");
    assert_eq!(done.status.code(), Some(1), "no stack is up");
}
