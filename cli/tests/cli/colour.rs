//! Colours reach a person's terminal and nothing else.

use crate::{
    prelude::*,
    terminal::{COLUMNS, shown_at_terminal, visible},
};

const CODES: &str = "\u{1b}[";
const RED: &str = "\u{1b}[31m";
const BOLD: &str = "\u{1b}[1m";

/// A command that is refused, and one that prints a table.
const REFUSED: &str = "breakers open push.example";
const TABLE: &str = "policy list";

#[test]
fn a_terminal_shows_errors_and_headings_in_colour() {
    let refused = shown_at_terminal(&mut redial(REFUSED));
    assert!(refused.starts_with(&format!("{RED}error:\u{1b}[0m ORIGIN: expected")), "{refused:?}");
    let table = shown_at_terminal(&mut redial(TABLE));
    assert!(table.starts_with(BOLD), "{table:?}");
    for text in [refused, table] {
        let seen = visible(&text);
        assert!(!seen.contains('\u{1b}'), "{seen:?}");
        assert!(seen.lines().all(|line| line.chars().count() <= COLUMNS), "{seen}");
    }
}

#[test]
fn a_script_and_a_person_who_does_not_want_them_get_no_colours() {
    for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")] {
        for arguments in [REFUSED, TABLE, "no-such-command", "--help"] {
            let shown = shown_at_terminal(redial(arguments).env(variable, value));
            assert!(!shown.contains(CODES), "{variable} {arguments}: {shown:?}");
        }
    }
    for arguments in ["cost --json", "limits list --json --no-such", "policy list --json"] {
        let shown = shown_at_terminal(redial(arguments).env("CLICOLOR_FORCE", "1"));
        assert!(!shown.is_empty() && !shown.contains(CODES), "{arguments}: {shown:?}");
    }
    let piped = run(&mut redial(TABLE), "");
    assert!(!piped.stdout.contains(CODES) && !piped.stderr.contains(CODES), "{piped:?}");
}

#[test]
fn colours_can_be_forced_into_a_pipe() {
    let forced =
        |arguments: &str| run(redial(arguments).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR"), "");
    assert!(forced(TABLE).succeeds().contains(BOLD));
    assert!(forced(REFUSED).ends_with(2).contains(RED));
    let unwanted = run(redial(TABLE).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"), "").succeeds();
    assert!(!unwanted.contains(CODES), "{unwanted:?}");
}
