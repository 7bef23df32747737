//! The demo, as a user runs it: every road, every message accounted for, and nothing left running.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.arg("demo").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The folders of the stacks that a process owns.
fn stacks_of(pid: u32) -> Vec<PathBuf> {
    let stacks = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/redial/stacks");
    let own = format!("redial-{pid}-");
    let folders = std::fs::read_dir(stacks).into_iter().flatten().filter_map(Result::ok);
    folders.filter(|it| it.file_name().to_string_lossy().starts_with(&own)).map(|it| it.path()).collect()
}

#[test]
fn every_road_ends_as_expected_and_every_message_is_accounted_for() {
    let running = demo(&["--json", "--messages", "30"]).spawn().expect("it starts");
    let pid = running.id();
    let done = running.wait_with_output().expect("it ends");
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{said}");
    let report: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert_eq!(report["ok"], true);
    assert_eq!(report["messages"], 30);
    assert_eq!(report["unaccounted"], 0);
    let roads = report["roads"].as_array().expect("rows");
    assert!(roads.iter().all(|row| row["expected"] == row["seen"]), "{roads:?}");
    let messages: u64 = roads.iter().filter_map(|row| row["messages"].as_u64()).sum();
    assert_eq!(messages, 30);
    let ends: BTreeMap<&str, &str> =
        roads.iter().filter_map(|row| Some((row["road"].as_str()?, row["seen"].as_str()?))).collect();
    assert_eq!(ends.len(), 19);
    assert_eq!(ends["410"], "gone, subscription off, 1 post");
    assert_eq!(ends["wait in Step Functions"], "parked, sent, 2 posts");
    for road in ["webhook", "webhook: 500 then sent", "webhook: 410", "webhook: redirected"] {
        assert!(ends.contains_key(road), "{road}: {ends:?}");
    }
    assert_eq!(stacks_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn too_few_messages_are_told_with_the_least_number_and_nothing_is_started() {
    let done = demo(&["--messages", "19"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("at least 20"), "{said}");
    assert!(done.stdout.is_empty());
}

#[test]
fn an_interrupted_demo_takes_its_stack_along() {
    let mut running = demo(&["--messages", "60"]).spawn().expect("it starts");
    let pid = running.id();
    let mut said = BufReader::new(running.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("sending") {
        line.clear();
        assert!(said.read_line(&mut line).expect("text") > 0, "it ended before it sent anything");
    }
    assert_eq!(stacks_of(pid).len(), 1);
    let interrupt = Command::new("kill").args(["-INT", &pid.to_string()]).status();
    assert!(interrupt.expect("kill is there").success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    let status = running.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    assert_eq!(stacks_of(pid), Vec::<PathBuf>::new());
}
