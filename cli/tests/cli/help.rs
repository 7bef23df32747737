//! Help that teaches, and commands whose reader leaves.

use clap::CommandFactory as _;
use redial::commands::Cli;

use crate::prelude::*;

/// Every command with its path, the inner ones after the one that they belong to.
fn commands(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    found.push((path.to_owned(), command.clone()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        commands(inner, &format!("{path} {}", inner.get_name()), found);
    }
}

#[test]
fn the_help_of_every_command_has_an_example() {
    Cli::command().debug_assert();
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

/// The columns of a terminal as it is opened.
const COLUMNS: usize = 80;

/// Adds the lines of this command's help, and of those in it, that are wider than a terminal.
fn wide_lines(command: &mut clap::Command, path: &str, found: &mut Vec<String>) {
    let helps = [command.render_help(), command.render_long_help()];
    for help in helps.map(|help| help.to_string()) {
        let lines = help.lines().filter(|line| line.chars().count() > COLUMNS);
        found.extend(lines.map(|line| format!("{path}: {line}")));
    }
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        wide_lines(inner, &format!("{path} {}", inner.get_name()), found);
    }
}

#[test]
fn the_help_of_every_command_fits_in_80_columns() {
    let mut root = Cli::command().term_width(COLUMNS);
    root.build();
    let mut found = Vec::new();
    wide_lines(&mut root, "redial", &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What clap does not wrap in a terminal as it is opened: a wrapped example would be another command.
const EXAMPLE_COLUMNS: usize = 78;

/// Commands of other crates, and `doctor`, some of whose examples are still wider.
const STILL_WIDER: [&str; 4] = ["redial demo", "redial local", "redial simulate", "redial doctor"];

#[test]
fn no_example_is_wrapped_in_the_middle() {
    let mut found = Vec::new();
    commands(&Cli::command(), "redial", &mut found);
    found.retain(|(path, _)| !STILL_WIDER.iter().any(|wider| path.starts_with(wider)));
    for (path, command) in found {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines() {
            assert!(line.chars().count() <= EXAMPLE_COLUMNS, "{path}: {line}");
        }
    }
}

#[test]
fn help_explains_what_an_option_alone_does_not() {
    for (arguments, words) in [
        ("send --help", "NDJSON"),
        ("demo --help", "until Ctrl-C"),
        ("status --help", "15 days"),
        ("subscriptions put --help", "JSON.stringify(subscription)"),
        ("subscriptions put --help", "permit_headers"),
        ("subscriptions get --help", "can push to that browser"),
        ("subscriptions list --help", "five days"),
        ("subscriptions enable --help", "dead letters"),
        ("subscriptions list --help", "SuspectSubscriptions"),
        ("subscriptions prune --help", "next daily walk"),
        ("breakers list --help", "LOOKED AT"),
        ("breakers open --help", "ttl_exceeded"),
        ("breakers close --help", "its counts restart"),
        ("limits set --help", "50/s, 120/min, 90/h"),
        ("webhooks rotate-secret --help", "verifies with either"),
        ("webhooks secret --help", "bare urls"),
        ("vapid generate --help", "web page"),
        ("vapid public --help", "PKCS#8 or SEC1"),
        ("schema --help", "2020-12"),
        ("openapi --help", "OpenAPI 3.1"),
    ] {
        let help = run(&mut redial(arguments), "").succeeds();
        assert!(help.contains(words), "{help}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let all = "schema | openapi | completions bash | vapid generate | vapid generate --format pem | --help | send --help";
    for arguments in all.split('|') {
        let done = run_closed(&mut redial(arguments));
        assert!(done.status == Some(0) && !done.stderr.contains("panicked"), "{arguments}: {done:?}");
    }
}

#[test]
fn the_schema_and_a_generated_key_are_printed_alone() {
    assert_eq!(run(&mut redial("schema"), "").succeeds(), redial_core::message::SCHEMA);
    let generated =
        |format: &str| run(&mut redial(format!("vapid generate --format {format}")), "").succeeds();
    let public = |key: &str| run(&mut redial("vapid public"), key);
    let pem = generated("pem");
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n") && pem.ends_with("-----END PRIVATE KEY-----\n"));
    let of_pem = public(&pem).succeeds();
    assert_eq!((of_pem.trim().len(), &of_pem[..1]), (87, "B"));
    let pair = generated("json");
    assert_eq!(Some(public(&pair).succeeds().trim()), parsed(&pair)["publicKey"].as_str());
    let refused = public("s3cret").ends_with(2);
    assert!(!refused.contains("s3cret"), "{refused}");
}
