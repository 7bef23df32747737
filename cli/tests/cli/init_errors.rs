//! The night: functions that cannot start, and a stack that is gone. Commands say so first, and once.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
};

use redial_testkit::proxy::FaultProxy;
use redial_tests::test_stack::{localstack, placeholders};
use rustix::process::{Pid, Signal, kill_process};

use crate::prelude::*;

const OWN_WORDS: &str = "Error: invalid configuration: the moon is missing";

/// The functions are placeholders, and dispatch exits at once.
async fn whose_dispatch_exits() -> TestStack {
    let bootstraps = placeholders();
    let dispatch = bootstraps.path().join("dispatch");
    fs::write(&dispatch, format!("#!/bin/sh\necho '{OWN_WORDS}' >&2\nexit 3\n"))
        .expect("the folder is writable");
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    TestStack::as_deployed_with(|options| options.bootstraps = Some(bootstraps.path().to_owned())).await
}

#[tokio::test]
async fn a_function_that_cannot_start_is_reported_first_in_its_own_words() {
    let stack = whose_dispatch_exits().await;
    steps! {
        doctor_finds_it_before_anything_was_sent(&stack);
        a_message_shows_it_in_every_command(&stack).await;
    }
}

fn doctor_finds_it_before_anything_was_sent(stack: &TestStack) {
    let doctor = stack.redial("doctor");
    let first = doctor.stdout.lines().next().expect("a line");
    assert!(first.starts_with("fault    starts         dispatch cannot start: "), "{}", doctor.stdout);
    assert!(first.contains(OWN_WORDS), "{first}");
    assert!(doctor.ends_with(1).contains("has 1 fault"));
}

async fn a_message_shows_it_in_every_command(stack: &TestStack) {
    stack.send_body(r#"{"tenant":"acme","id":"d1","to":{"subscription":"s1"}}"#).await;
    let found = stack
        .until("the summary has it", async || {
            let findings = stack.json("status --summary")["findings"].take();
            findings[0].as_str().map(str::to_owned)
        })
        .await;
    assert!(found.starts_with("dispatch cannot start: ") && found.contains(OWN_WORDS), "{found}");
    for (arguments, status) in [("status d1 --tenant acme", 1), ("tail --no-follow", 1)] {
        let said = stack.redial(arguments).ends_with(status);
        assert!(
            said.starts_with("dispatch cannot start: ") && said.contains(OWN_WORDS),
            "{arguments}: {said}"
        );
    }
    let doctor = stack.redial("doctor");
    assert!(doctor.stdout.lines().next().is_some_and(|line| line.contains(OWN_WORDS)), "{}", doctor.stdout);
    let done = doctor.ends_with(1);
    assert!(done.contains("has 1 fault"), "one cause is one finding: {done}");
}

#[tokio::test]
async fn a_watch_reports_the_loss_of_its_stack_once() {
    let stack = TestStack::idle().await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    let mut watching = started(&mut stack.command("status --summary --watch 1 --json"));
    let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let mut next = || parsed(&lines.next().expect("a line").expect("text"));
    assert_eq!(next()["ok"], true);
    drop(proxy);
    let lost = loop {
        let seen = next();
        if seen["ok"] == false && seen["untold"] == json!([]) {
            break seen;
        }
    };
    let found = lost["findings"][0].as_str().expect("words");
    let (beginning, words) = ("the stack does not answer: ", "nothing listens at http://127.0.0.1:");
    let beginning = if localstack().is_some() { beginning.to_owned() } else { format!("{beginning}{words}") };
    assert!(found.starts_with(&beginning) && found.contains(words), "{found}");
    // More than two refreshes.
    tokio::time::sleep(Duration::from_secs(5)).await;
    watching.kill().expect("it runs");
    watching.wait().expect("it ends");
    assert_eq!(lines.count(), 0, "it was reported once");
}

#[test]
fn a_stack_whose_emulator_was_killed_is_named_with_what_brings_it_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bootstraps = placeholders();
    let up = format!("local up --json --name lost --bootstraps {}", bootstraps.path().display());
    let up = run(&mut unregistered(up, folder.path()), "").json();
    let pid = up["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("an id"), Signal::KILL).expect("it runs");
    let ended = "the emulator of the stack lost has ended, and what was in it is gone: `redial local up --name lost --state-dir ";
    let listed = || run(&mut unregistered("local status", folder.path()), "").stderr;
    let has_ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        listed().contains(ended)
    });
    assert!(has_ended, "{}", listed());
    for arguments in
        ["doctor", "status --summary", "tail --no-follow", "doctor --local lost", "local env --name lost"]
    {
        let done = run(&mut unregistered(arguments, folder.path()), "");
        let said = done.ends_with(1);
        assert!(said.contains(ended), "{arguments}: {said}");
    }
}
