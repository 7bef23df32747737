//! For a caller without permissions the missing ones are reported, and that is no fault of the stack.

#[path = "../shared/refusing.rs"]
mod refusing;

use super::harness::{command, found, json, note, stderr, stdout};
use refusing::{description, refusing};

#[test]
fn a_refused_read_is_reported_with_its_permission_and_is_no_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    note(folder.path(), &description(&refusing()));
    let output = command(folder.path(), &["doctor"]).output().expect("it was built");
    let lines = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{lines}{}", stderr(&output));
    for permission in [
        "lambda:GetFunctionConfiguration",
        "lambda:GetAccountSettings",
        "lambda:GetFunctionRecursionConfig",
        "cloudformation:DescribeStacks",
        "cloudwatch:GetMetricData",
        "dynamodb:DescribeTable",
        "dynamodb:Query",
    ] {
        assert!(lines.contains(&format!("you have no permission {permission}")), "{permission}: {lines}");
    }
    assert!(lines.lines().all(|line| line.starts_with("skipped ")), "{lines}");
    let shown = json(&command(folder.path(), &["doctor", "--json"]).output().expect("it was built"));
    assert_eq!((found(&shown, "fault"), found(&shown, "warning")), (Vec::new(), Vec::new()));
}
