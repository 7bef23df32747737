//! What the command line promises before it does anything: help that teaches, exit statuses, and that a reader who leaves
//! is no reason to panic.

use std::{
    io::{self, Write as _},
    process::{Command, Output, Stdio},
};

use clap::CommandFactory as _;
use redial::commands::Cli;

fn redial(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments).stdin(Stdio::null()).env_remove("AWS_REGION").env_remove("AWS_PROFILE");
    command
}

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = redial(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    child.stdin.take().expect("piped").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Every command with its path, the inner ones after the one that they belong to.
fn commands(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    found.push((path.to_owned(), command.clone()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        commands(inner, &format!("{path} {}", inner.get_name()), found);
    }
}

#[test]
fn every_command_s_help_says_what_it_is_for_and_has_an_example_of_itself() {
    let mut found = Vec::new();
    commands(&Cli::command(), "redial", &mut found);
    assert!(found.len() > 12, "{}", found.len());
    for (path, mut command) in found {
        for help in [command.render_help().to_string(), command.render_long_help().to_string()] {
            let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{path}: {help}"));
            assert!(examples.contains(&path), "{path}: {help}");
        }
        assert!(command.get_about().is_some(), "{path}");
        for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
        }
    }
}

#[test]
fn the_help_of_what_needs_words_has_them() {
    for (arguments, words) in [
        (&["send", "--help"][..], "NDJSON"),
        (&["demo", "--help"], "until Ctrl-C"),
        (&["status", "--help"], "15 days"),
        (&["subscriptions", "put", "--help"], "JSON.stringify(subscription)"),
        (&["subscriptions", "put", "--help"], "permit_headers"),
        (&["subscriptions", "get", "--help"], "can push to that browser"),
        (&["subscriptions", "list", "--help"], "five days"),
        (&["subscriptions", "enable", "--help"], "dead letters"),
        (&["breakers", "list", "--help"], "LOOKED AT"),
        (&["breakers", "open", "--help"], "ttl_exceeded"),
        (&["breakers", "close", "--help"], "its counts restart"),
        (&["limits", "set", "--help"], "50/s, 120/min, 90/h"),
        (&["webhooks", "rotate-secret", "--help"], "verifies with either"),
        (&["webhooks", "secret", "--help"], "bare urls"),
        (&["vapid", "generate", "--help"], "web page"),
        (&["vapid", "public", "--help"], "PKCS#8 or SEC1"),
        (&["schema", "--help"], "2020-12"),
        (&["openapi", "--help"], "OpenAPI 3.1"),
    ] {
        let help = stdout(&run(arguments, ""));
        assert!(help.contains(words), "{help}");
    }
}

#[test]
fn the_options_of_a_definition_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    for arguments in [
        &["schema"][..],
        &["openapi"],
        &["completions", "bash"],
        &["vapid", "generate"],
        &["vapid", "generate", "--format", "pem"],
        &["--help"],
        &["send", "--help"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let done = redial(arguments).stdout(writer).stderr(Stdio::piped()).output().expect("it ends");
        assert!(done.status.success(), "{arguments:?}: {}", stderr(&done));
        assert!(!stderr(&done).contains("panicked"), "{arguments:?}: {}", stderr(&done));
    }
}

#[test]
fn what_is_wrong_is_told_with_status_2_and_before_any_stack_is_looked_for() {
    let wrong = concat!(
        r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"s3cret"}"#,
        "\n",
        r#"{"tenant":"acme","to":{"subscription":"s1"},"ttl":"s3cret"}"#,
        "\n"
    );
    let done = run(&["send", "-"], wrong);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert_eq!(
        stderr(&done),
        "error: line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found a string\n"
    );
    let done = run(&["subscriptions", "put", "--tenant", "acme", "--id", "s1"], r#"{"endpoint":"s3cret"}"#);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("endpoint: expected an https URL") && !stderr(&done).contains("s3cret"));
    for arguments in [
        &["send"][..],
        &["send", "/nowhere/messages.json"],
        &["status", "a b", "--tenant", "acme"],
        &["status", "d1", "--tenant", "Acme"],
        &["send", "-", "--stack", "a", "--local", "b"],
        &["status", "d1", "--tenant", "acme", "--region", "eu-central-1"],
    ] {
        assert_eq!(run(arguments, "").status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_stack_that_is_not_there_is_told_with_what_would_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().to_str().expect("a plain path");
    let message = r#"{"tenant":"acme","to":{"subscription":"s1"}}"#;
    let done = run(&["send", "-", "--state", state], message);
    assert_eq!(done.status.code(), Some(1));
    assert!(
        stderr(&done).contains("redial local up") && stderr(&done).contains("--stack"),
        "{}",
        stderr(&done)
    );
}

#[test]
fn a_generated_key_leads_to_its_public_key_and_nothing_else_is_on_standard_output() {
    let pem = stdout(&run(&["vapid", "generate", "--format", "pem"], ""));
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n") && pem.ends_with("-----END PRIVATE KEY-----\n"));
    let public = stdout(&run(&["vapid", "public"], &pem));
    assert_eq!((public.trim().len(), &public[..1]), (87, "B"));

    let pair = stdout(&run(&["vapid", "generate", "--format", "json"], ""));
    let parsed: serde_json::Value = serde_json::from_str(&pair).expect("one line of JSON");
    assert_eq!(Some(stdout(&run(&["vapid", "public"], &pair)).trim()), parsed["publicKey"].as_str());

    let wrong = run(&["vapid", "public"], "s3cret");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!stderr(&wrong).contains("s3cret"), "{}", stderr(&wrong));
}

#[test]
fn the_schema_is_printed_as_it_is_published() {
    assert_eq!(stdout(&run(&["schema"], "")), redial_core::message::SCHEMA);
}
