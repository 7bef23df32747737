//! What `cargo demo` and `cargo redial` look for before they build.

use std::process::{Command, Output};

/// Instead of cargo, a command that prints its arguments.
fn demo(python: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial-toolchain"));
    command.env("REDIAL_PYTHON", python).env("CARGO", "echo").args(arguments);
    command.output().expect("it starts")
}

#[test]
fn without_python_nothing_is_built() {
    for arguments in [&["demo"][..], &["demo", "--browser"], &["local", "up", "--name", "mine"]] {
        let ended = demo("no-such-python", arguments);
        let said = String::from_utf8(ended.stderr).expect("text");
        assert_eq!((ended.status.code(), ended.stdout), (Some(2), Vec::new()), "{said}");
        assert_eq!(
            said,
            "error: the emulator needs Python 3.10 or newer as python3 (or named by REDIAL_PYTHON); found none\n"
        );
    }
}

#[test]
fn redial_is_built_and_run_with_its_arguments() {
    for (python, arguments) in [
        ("python3", vec!["demo", "--messages", "9"]),
        ("no-such-python", vec!["demo", "--emulator", "localstack"]),
    ] {
        let ended = demo(python, &arguments);
        let ran = String::from_utf8(ended.stdout).expect("text");
        assert_eq!(ran, format!("run --bin redial -- {}\n", arguments.join(" ")), "{:?}", ended.stderr);
    }
}
