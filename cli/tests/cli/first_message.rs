//! The README's first message, with the commands that stand there, and what else a receiver on this machine does.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    iter,
    path::Path,
    process::{ChildStderr, ChildStdout, Command},
};

use crate::prelude::*;

const README: &str = include_str!("../../../README.md");

/// Takes the stack down, however the test ends.
struct Up<'a>(&'a Path);

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let _ended = unregistered("local down", self.0).output();
    }
}

/// The commands of the section, without their comments.
fn commands() -> Vec<String> {
    let section = README.split("\n## Your first message\n").nth(1).expect("there is one");
    let section = section.split("\n## ").next().expect("it ends");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" # ").next().unwrap_or_default().trim());
    lines.filter_map(|line| line.strip_prefix("cargo redial ")).map(str::to_owned).collect()
}

fn listening(arguments: &str, state: &Path) -> (Running, BufReader<ChildStdout>) {
    let (mut child, _stderr) = run_until(&mut unregistered(arguments, state), "arrive here");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    (child, stdout)
}

fn next(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    assert_ne!(lines.read_line(&mut line).expect("text"), 0, "nothing more comes");
    parsed(&line)
}

fn succeeds(command: &mut Command) -> String {
    run(command, "").succeeds()
}

#[test]
fn the_first_message_of_the_readme_arrives_on_this_machine() {
    let commands = commands();
    let [up, listen, send, status, down] = commands.as_slice() else { panic!("{commands:?}") };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path();
    succeeds(&mut unregistered(up, state));
    let _up = Up(state);

    let (mut listener, mut arrived) = listening(&format!("{listen} --json"), state);
    let id = succeeds(&mut unregistered(send, state));
    let id = id.split_whitespace().nth(1).expect("tenant, id and MessageId").to_owned();
    let push = next(&mut arrived);
    let expected =
        json!({"kind": "push", "subscription": "s1", "answered": 201, "body": "hello", "problems": []});
    assert_fields(&push, expected);
    let shown = succeeds(&mut unregistered(format!("{} --wait 60", status.replace("hello-1", &id)), state));
    assert!(shown.contains(": sent"), "{shown}");

    // A webhook, whose signature is checked.
    succeeds(&mut unregistered(r#"send --tenant acme --to w1 --payload {"order":17}"#, state));
    let webhook = next(&mut arrived);
    let expected = json!({"kind": "webhook", "subscription": "w1", "answered": 200, "body": r#"{"order":17}"#, "problems": []});
    assert_fields(&webhook, expected);

    // Two cannot listen at once, and Ctrl-C ends one.
    let said = run(&mut unregistered("local listen", state), "").ends_with(1);
    assert!(said.contains("is taken") && said.contains("local listen"), "{said}");
    interrupt(&listener);
    assert_eq!(listener.wait().expect("it ends").code(), Some(0));

    // It answers as its options say; what was sent in between has not been lost.
    let (mut listener, mut arrived) =
        listening("local listen --json --answer 503,200 --retry-after 1", state);
    succeeds(&mut unregistered("send --tenant acme --to s1 --payload again --id again", state));
    let answered: Vec<Value> = (0..2).map(|_| next(&mut arrived)["answered"].take()).collect();
    assert_eq!(answered, [json!(503), json!(200)]);
    interrupt(&listener);
    listener.wait().expect("it ends");

    // Another's subscription is left alone.
    let document = json!({"endpoint": "https://push.example/x", "keys": {"p256dh": P256DH, "auth": AUTH}});
    let file = folder.path().join("subscription.json");
    std::fs::write(&file, document.to_string()).expect("writable");
    let put = format!("subscriptions put --tenant acme --id other {}", file.display());
    succeeds(&mut unregistered(put, state));
    let said = run(&mut unregistered("local listen --id other", state), "").ends_with(1);
    assert!(said.contains("acme/other") || said.contains("acme#other"), "{said}");
    assert!(said.contains("leads elsewhere") && said.contains("--id"), "{said}");
    succeeds(&mut unregistered(down, state));
}

/// A line of `local up --listen` without its time: what it is, the subscription, the answer, and the content.
fn arrival(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("text"), 0, "nothing more comes");
        // After the description of the stack.
        if let Some((_, arrival)) = line.trim_end().split_once(" push    ") {
            return arrival.to_owned();
        }
    }
}

/// Ends a receiver as Ctrl-C does; what it said then.
fn ended(listener: &mut Running, mut stderr: BufReader<ChildStderr>) -> String {
    interrupt(listener);
    assert_eq!(listener.wait().expect("it ends").code(), Some(0));
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("text");
    said
}

/// The reason of the first attempt, when it has one.
fn first_reason(id: &str, state: &Path) -> String {
    let status = || run(&mut unregistered(format!("status {id} --json"), state), "").json();
    let found = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        status()["attempts"][0]["reason"].as_str().map(str::to_owned)
    });
    found.unwrap_or_else(|| panic!("{}", status()))
}

#[test]
fn local_up_listens_and_answers_as_requested() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path();
    let as_tenant = |arguments: &str| {
        let mut command = unregistered(arguments, state);
        command.env("REDIAL_TENANT", "t1");
        command
    };
    let up = "local up --env SEND_TIMEOUT_SECONDS=3 --listen --answer 503,201 --retry-after 1 --id phone";
    let (mut listener, stderr) = run_until(&mut as_tenant(up), "arrive here");
    let _up = Up(state);
    let mut lines = BufReader::new(listener.stdout.take().expect("piped"));
    succeeds(&mut as_tenant("send --to phone --payload hello"));
    assert_eq!([arrival(&mut lines), arrival(&mut lines)], ["phone 503 hello", "phone 201 hello"]);
    let said = ended(&mut listener, stderr);
    assert!(said.contains("redial is still up: redial local down --name redial"), "{said}");

    // Longer than the sender waits, which is three seconds, and for ever.
    for (options, answered, id) in [("--delay 30s", json!(201), "late"), ("--hang", Value::Null, "never")] {
        let (mut listener, stderr) =
            run_until(&mut as_tenant(&format!("local listen --id phone --json {options}")), "arrive here");
        let mut lines = BufReader::new(listener.stdout.take().expect("piped"));
        succeeds(&mut as_tenant(&format!("send --to phone --payload {id} --id {id}")));
        // A retry of the one before may arrive first.
        let own = iter::repeat_with(|| next(&mut lines)).find(|arrival| arrival["body"] == id);
        assert_fields(&own.unwrap_or_default(), json!({"kind": "push", "answered": answered}));
        let status = format!("{id} --tenant t1");
        assert_eq!(first_reason(&status, state), "in_doubt", "{options}");
        ended(&mut listener, stderr);
    }
    succeeds(&mut unregistered("local down", state));
}

#[test]
fn only_a_local_up_that_listens_takes_the_options_of_a_receiver() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for options in ["--answer 503", "--delay 2s", "--hang", "--id phone", "--webhook-id hook"] {
        let up = format!("local up {options}");
        let said = run(&mut unregistered(up, folder.path()), "").refused_with(2);
        assert!(said.contains("--listen"), "{options}: {said}");
    }
    for options in ["--answer 99", "--answer 503 --hang", "--retry-after 1", "--delay 2h"] {
        let up = format!("local up --listen {options}");
        run(&mut unregistered(up, folder.path()), "").refused_with(2);
    }
}
