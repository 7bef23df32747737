//! Arguments that are refused with status 2, before any call.

use std::process::{Command, Output};

fn tail(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.arg("tail").args(arguments).output().expect("it was built")
}

fn refusal(arguments: &[&str]) -> String {
    let done = tail(arguments);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn an_unknown_verdict_is_refused_with_the_known_ones() {
    let refusal = refusal(&["--verdict", "accepted"]);
    assert!(refusal.contains("sent, sign_again, retry, gone, failed"), "{refusal}");
}

#[test]
fn values_that_could_break_out_of_a_pattern_are_refused() {
    for arguments in [
        ["--tenant", r#"acme" || $.tenant = "beta"#],
        ["--tenant", "*"],
        ["--id", r#"a" || $.event = "attempt"#],
        ["--id", "order-*"],
        ["--verdict", r#"sent" || $.verdict = "failed"#],
    ] {
        refusal(&arguments);
    }
}

#[test]
fn an_invalid_time_is_refused_with_examples() {
    for since in ["soon", "10", "-1m"] {
        let refusal = refusal(&[&format!("--since={since}")]);
        assert!(refusal.contains("90s, 30m, 2h, 7d"), "{refusal}");
    }
}
