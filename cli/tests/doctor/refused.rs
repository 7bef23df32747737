//! A caller who may read nothing is told which permissions are missing, and that is no fault of the stack.

#[path = "../shared/refusing.rs"]
mod refusing;

use super::world::{command, found, json, note, stderr, stdout};
use refusing::{description, refusing};

#[test]
fn what_may_not_be_read_is_told_with_the_permission_and_is_no_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    note(folder.path(), &description(&refusing()));
    let told = command(folder.path(), &["doctor"]).output().expect("it was built");
    let lines = stdout(&told);
    assert_eq!(told.status.code(), Some(0), "{lines}{}", stderr(&told));
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
    assert!(lines.lines().all(|line| line.starts_with("not told ")), "{lines}");
    let shown = json(&command(folder.path(), &["doctor", "--json"]).output().expect("it was built"));
    assert_eq!((found(&shown, "fault"), found(&shown, "warning")), (Vec::new(), Vec::new()));
}
