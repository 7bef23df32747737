//! What is refused with status 2, before any stack is looked for.

use std::process::{Command, Output};

fn tail(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.arg("tail").args(arguments).output().expect("it was built")
}

fn told(arguments: &[&str]) -> String {
    let done = tail(arguments);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn a_verdict_that_is_none_is_refused_with_those_that_there_are() {
    let told = told(&["--verdict", "accepted"]);
    assert!(told.contains("sent, sign_again, retry, gone, failed"), "{told}");
}

#[test]
fn nothing_that_could_break_out_of_a_pattern_is_taken() {
    for arguments in [
        ["--tenant", r#"acme" || $.tenant = "beta"#],
        ["--tenant", "*"],
        ["--id", r#"a" || $.event = "attempt"#],
        ["--id", "order-*"],
        ["--verdict", r#"sent" || $.verdict = "failed"#],
    ] {
        told(&arguments);
    }
}

#[test]
fn a_span_that_is_none_is_refused_with_what_would_do() {
    for since in ["soon", "10", "-1m"] {
        let told = told(&[&format!("--since={since}")]);
        assert!(told.contains("90s, 30m, 2h, 7d"), "{told}");
    }
}
