//! What the commands refuse before they ask any stack.

use std::process::{Command, Stdio};

/// How a command ends that finds no stack, and what it said.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments).arg("--state").arg(folder.path()).stdin(Stdio::null());
    let done = command.output().expect("it was built");
    assert!(done.stdout.is_empty(), "{arguments:?}");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn an_endpoint_is_no_origin_and_nothing_of_its_path_is_repeated() {
    for command in [&["breakers", "open"][..], &["breakers", "close"], &["limits", "unset", "origin"]] {
        let given = [command, &["https://push.example:8443/wpush/s3cret?token=s3cret"]].concat();
        let (status, said) = run(&given);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("expected an origin, https://host or https://host:port, found"), "{said}");
        assert!(
            said.contains("its origin is https://push.example:8443\n") && !said.contains("s3cret"),
            "{said}"
        );
    }
    let (status, said) = run(&["limits", "set", "origin", "https://s3cret@push.example", "50/s"]);
    assert_eq!((status, said.contains("s3cret")), (Some(2), false), "{said}");
}

#[test]
fn what_cannot_be_done_is_refused() {
    const ORIGIN: &str = "https://push.example";
    for arguments in [
        &["breakers"][..],
        &["breakers", "open"],
        &["breakers", "open", "push.example"],
        &["breakers", "open", "http://push.example"],
        &["breakers", "open", ORIGIN, "--for", "0s"],
        &["breakers", "open", ORIGIN, "--for", "25h"],
        &["breakers", "open", ORIGIN, "--for", "soon"],
        &["breakers", "close", ORIGIN, "--for", "1m"],
        &["limits"],
        &["limits", "set", "origin", ORIGIN],
        &["limits", "set", "origin", ORIGIN, "0/s"],
        &["limits", "set", "origin", ORIGIN, "50/d"],
        &["limits", "set", "origin", "acme", "50/s"],
        &["limits", "set", "tenant", ORIGIN, "50/s"],
        &["limits", "set", "endpoint", ORIGIN, "50/s"],
        &["limits", "unset", "tenant"],
    ] {
        let (status, said) = run(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {said}");
    }
}

#[test]
fn a_stack_that_is_not_there_is_told() {
    for arguments in [
        &["breakers", "list"][..],
        &["breakers", "open", "https://push.example"],
        &["breakers", "close", "https://push.example"],
        &["limits", "list"],
        &["limits", "set", "tenant", "acme", "50/s"],
        &["limits", "unset", "tenant", "acme"],
    ] {
        let (status, said) = run(arguments);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("redial local up") && said.contains("--stack"), "{said}");
    }
}
