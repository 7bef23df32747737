//! `redial policy` without a stack: tables, checks, pictures and explanations.

use crate::prelude::*;

fn policy(arguments: impl Arguments) -> Done {
    policy_reading(arguments, "")
}

fn policy_reading(arguments: impl Arguments, stdin: &str) -> Done {
    run(redial("policy").args(arguments.arguments()), stdin)
}

/// The waits and accumulated times that the article on wait factors publishes for f = 150.
const PUBLISHED_AT_150: [(&str, &str); 15] = [
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
fn a_wait_factor_gives_the_published_waits() {
    let show = "show wait-factor --f 150 --max-retries 15 --no-jitter";
    let shown = policy(show).succeeds();
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>())
        .filter(|cells| cells.first().is_some_and(|cell| cell.parse::<u32>().is_ok()))
        .collect();
    let figures: Vec<(&str, &str)> = rows.iter().map(|cells| (cells[1], cells[3])).collect();
    assert_eq!(figures, PUBLISHED_AT_150, "{shown}");

    let table = policy(format!("{show} --json")).json();
    assert_eq!((table["name"].as_str(), table["max_retries"].as_u64()), (Some("wait-factor"), Some(15)));
    let fifth = &table["retries"][4];
    assert_eq!((fifth["min_s"].as_f64(), fifth["cumulative_mean_s"].as_f64()), (Some(227.0), Some(505.0)));
    assert_eq!(table["retries"][14]["road"], "step_functions");
}

#[test]
fn every_listed_policy_can_be_shown_as_a_table() {
    let list = policy("list --json").json();
    let policies = list["policies"].as_array().expect("policies");
    assert!(policies.len() >= 12);
    let table = policy("list").succeeds();
    for listed in policies {
        let name = listed["name"].as_str().expect("a name");
        assert!(table.contains(name));
        let table = policy(["show", name, "--ttl", "3600", "--json"]).json();
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
fn a_ttl_cuts_the_retries_off() {
    let shown = policy("show schedule-patient --ttl 14400").succeeds();
    assert!(shown.contains("never: the TTL is over") && shown.contains("ttl_exceeded"), "{shown}");
    let shown = policy("show schedule-patient").succeeds();
    assert!(!shown.contains("never") && shown.contains("retries_exhausted"), "{shown}");
}

#[test]
fn an_own_policy_is_checked_with_all_its_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = folder.path().join("mine.json");
    std::fs::write(&good, r#"{"retry_delays": [5, 30, 120]}"#).expect("writable");
    let path = folder.path().to_str().expect("a plain path");
    assert!(policy(["check", path]).succeeds().contains("mine.json: ok"));
    assert!(policy(["show", good.to_str().expect("plain")]).succeeds().starts_with("mine\n"));

    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, r#"{"wait_factor": 300, "max_retries": -1, "jitter": "much", "colour": 1}"#)
        .expect("writable");
    let file = bad.display();
    let said = policy(["check", bad.to_str().expect("plain")]).refused_with(2);
    assert_eq!(policy(["show", bad.to_str().expect("plain")]).refused_with(2), said);
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
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
fn the_packaged_policies_are_valid() {
    assert!(policy("check").succeeds().lines().count() >= 12);
}

#[test]
fn a_picture_is_written_as_svg() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("p.svg");
    let path = file.to_str().expect("a plain path");
    policy(["plot", "web-push", "wait-factor", "-o", path, "--ttl", "60"]).succeeds();
    assert!(std::fs::read(&file).expect("written").starts_with(b"<svg"));
}

#[test]
fn a_message_s_policy_is_explained_without_a_stack() {
    let explain = |message: &str| policy_reading("explain - --offline --json", message).json();
    let otp = r#"{"tenant":"acme","to":{"subscription":"s1"},"class":"otp"}"#;
    let words = policy_reading("explain - --offline", otp).succeeds();
    assert!(words.contains("applies -> class otp"), "{words}");
    let of_message = explain(r#"{"tenant":"acme","to":{"subscription":"s1"},"retry":{"max_retries":1}}"#);
    assert_eq!((&of_message["source"], &of_message["max_retries"]), (&json!("message"), &json!(1)));
    let said = policy_reading("explain - --offline", r#"{"tenant":"acme","ttl":"s3cret"}"#).refused_with(2);
    assert!(said.lines().count() == 2 && !said.contains("s3cret"), "{said}");

    let webhook = explain(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"class":"otp"}"#);
    assert_eq!((&webhook["source"], &webhook["name"]), (&json!("channel"), &json!("schedule-standard")));
    assert_eq!((&webhook["channel"], webhook["retries"][0].get("within_ttl")), (&json!("webhook"), None));
    let limited = explain(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"ttl":3600}"#);
    assert_eq!(limited["retries"][2]["within_ttl"], "never");
}
