//! What `redial policy` says of policies without asking a stack.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redial"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    child.stdin.take().expect("piped").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output) -> Vec<String> {
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

/// The waits and accumulated times of article 004 at f = 150, as it writes them.
const ARTICLE_004_AT_150: [(&str, &str); 15] = [
    ("48s", "48s"),
    ("53s", "1m 41s"),
    ("1m 8s", "2m 49s"),
    ("1m 49s", "4m 38s"),
    ("3m 47s", "8m 25s"),
    ("9m 17s", "17m 42s"),
    ("24m 54s", "42m 36s"),
    ("1h 9m", "1h 51m"),
    ("3h 13m", "5h 5m"),
    ("9h 6m", "14h 12m"),
    ("1d 1h", "1d 15h"),
    ("3d 0h", "4d 16h"),
    ("8d 13h", "13d 6h"),
    ("24d 6h", "37d 13h"),
    ("68d 15h", "106d 5h"),
];

#[test]
fn a_wait_factor_s_table_is_the_article_s() {
    let flat = ["policy", "show", "wait-factor", "--f", "150", "--max-retries", "15", "--no-jitter"];
    let shown = stdout(&run(&flat, ""));
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>())
        .filter(|cells| cells.first().is_some_and(|cell| cell.parse::<u32>().is_ok()))
        .collect();
    let figures: Vec<(&str, &str)> = rows.iter().map(|cells| (cells[1], cells[3])).collect();
    assert_eq!(figures, ARTICLE_004_AT_150, "{shown}");

    let table: Value =
        serde_json::from_str(&stdout(&run(&[&flat[..], &["--json"]].concat(), ""))).expect("JSON");
    assert_eq!((table["name"].as_str(), table["max_retries"].as_u64()), (Some("wait-factor"), Some(15)));
    let fifth = &table["retries"][4];
    assert_eq!((fifth["min_s"].as_f64(), fifth["cumulative_mean_s"].as_f64()), (Some(227.0), Some(505.0)));
    assert_eq!(table["retries"][14]["road"], "step_functions");
}

#[test]
fn every_policy_that_is_listed_can_be_shown_and_its_json_has_the_table_s_shape() {
    let list: Value = serde_json::from_str(&stdout(&run(&["policy", "list", "--json"], ""))).expect("JSON");
    let policies = list["policies"].as_array().expect("policies");
    assert!(policies.len() >= 12);
    let people_s = stdout(&run(&["policy", "list"], ""));
    for policy in policies {
        let name = policy["name"].as_str().expect("a name");
        assert!(people_s.contains(name));
        let shown = run(&["policy", "show", name, "--ttl", "3600", "--json"], "");
        let table: Value = serde_json::from_str(&stdout(&shown)).expect("JSON");
        let retries = table["retries"].as_array().expect("retries");
        assert_eq!(table["max_retries"].as_u64(), Some(retries.len() as u64));
        for (index, row) in retries.iter().enumerate() {
            assert_eq!(row["retry"].as_u64(), Some(index as u64 + 1));
            let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
            assert!(number("min_s") <= number("mean_s") && number("mean_s") <= number("max_s"));
            assert!(number("cumulative_mean_s") >= number("mean_s"));
            let roads = ["sqs", "step_functions", "sqs_or_step_functions"];
            assert!(roads.contains(&row["road"].as_str().expect("a road")));
        }
    }
}

#[test]
fn a_ttl_says_where_it_cuts_the_retries_off() {
    let shown = stdout(&run(&["policy", "show", "schedule-patient", "--ttl", "14400"], ""));
    assert!(shown.contains("never: the TTL is over") && shown.contains("ttl_exceeded"), "{shown}");
    let shown = stdout(&run(&["policy", "show", "schedule-patient"], ""));
    assert!(!shown.contains("never") && shown.contains("retries_exhausted"), "{shown}");
}

#[test]
fn a_policy_of_one_s_own_is_checked_with_all_its_errors_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = folder.path().join("mine.json");
    std::fs::write(&good, r#"{"retry_delays": [5, 30, 120]}"#).expect("writable");
    let path = folder.path().to_str().expect("a plain path");
    assert!(stdout(&run(&["policy", "check", path], "")).contains("mine.json: ok"));
    assert!(stdout(&run(&["policy", "show", good.to_str().expect("plain")], "")).starts_with("mine\n"));

    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, r#"{"wait_factor": 300, "max_retries": -1, "jitter": "much", "colour": 1}"#)
        .expect("writable");
    let told = refused(&run(&["policy", "check", bad.to_str().expect("plain")], ""));
    let file = bad.display();
    assert_eq!(
        told,
        [
            format!("error: {file}: max_retries: expected an integer from 0 to 100, found an integer: -1"),
            format!("error: {file}: wait_factor: expected an integer from 10 to 200, found an integer: 300"),
            format!(
                r#"error: {file}: jitter: expected "full", "equal", "none", {{"additive": 0 to 10}}, {{"bounded_ms": 0 to 31536000000}} or {{"whole_seconds": 0 to 3600}}, found a string: "much""#
            ),
            format!("error: {file}: colour: expected no such field, found an integer: 1"),
        ]
    );
}

#[test]
fn the_packaged_policies_are_in_order() {
    assert!(stdout(&run(&["policy", "check"], "")).lines().count() >= 12);
}

#[test]
fn a_picture_is_written_as_svg_and_as_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("p.svg");
    let path = file.to_str().expect("a plain path");
    stdout(&run(&["policy", "plot", "web-push", "wait-factor", "-o", path, "--ttl", "60"], ""));
    assert!(std::fs::read(&file).expect("written").starts_with(b"<svg"));
    refused(&run(&["policy", "plot", "web-push", "-o", "p.png"], ""));
    refused(&run(&["policy", "plot", "no-such", "-o", "p.svg"], ""));
}

#[test]
fn what_holds_for_a_message_is_explained_without_a_stack_too() {
    let message = r#"{"tenant":"acme","to":{"subscription":"s1"},"class":"otp"}"#;
    let told = stdout(&run(&["policy", "explain", "-", "--offline"], message));
    assert!(told.contains("applies -> class otp"), "{told}");
    let with_retry = r#"{"tenant":"acme","to":{"subscription":"s1"},"retry":{"max_retries":1}}"#;
    let line = stdout(&run(&["policy", "explain", "-", "--offline", "--json"], with_retry));
    let told: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((told["source"].as_str(), told["max_retries"].as_u64()), (Some("message"), Some(1)));
    let errors =
        refused(&run(&["policy", "explain", "-", "--offline"], r#"{"tenant":"acme","ttl":"s3cret"}"#));
    assert!(errors.len() == 2 && !errors.join(" ").contains("s3cret"), "{errors:?}");
}

#[test]
fn what_cannot_be_is_refused_before_any_stack_is_looked_for() {
    for arguments in [
        &["policy", "show"][..],
        &["policy", "show", "web_push"],
        &["policy", "show", "web-push", "--f", "150"],
        &["policy", "show", "wait-factor", "--f", "9"],
        &["policy", "show", "schedule-standard", "--max-retries", "4"],
        &["policy", "set", "--tenant", "acme", "no-such"],
        &["policy", "set", "--tenant", "Acme", "otp"],
        &["policy", "set", "--tenant", "acme", "--topic", "", "otp"],
        &["policy", "set", "otp"],
    ] {
        refused(&run(arguments, ""));
    }
    let told = refused(&run(&["policy", "set", "--tenant", "acme", "-"], r#"{"max_retries":101,"f":1}"#));
    assert_eq!(
        told,
        [
            "error: standard input: max_retries: expected an integer from 0 to 100, found an integer: 101",
            "error: standard input: f: expected no such field, found an integer: 1",
        ]
    );
}
