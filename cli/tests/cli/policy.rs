//! `redial policy` without a stack: tables, checks, pictures and explanations.

use crate::prelude::*;

fn policy(arguments: impl AsRef<str>) -> Done {
    policy_reading(arguments, "")
}

fn policy_reading(arguments: impl AsRef<str>, stdin: &str) -> Done {
    run(&mut redial(format!("policy {}", arguments.as_ref())), stdin)
}

#[test]
fn a_wait_factor_gives_the_published_waits() {
    let show = "show wait-factor --f 150 --max-retries 15 --no-jitter";
    let shown = policy(show).succeeds();
    let row = |retry: &str| {
        let cells = shown.lines().map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()));
        let mut rows = cells.map(Iterator::collect::<Vec<_>>).filter(|cells| cells.len() > 3);
        rows.find(|cells| cells[0] == retry).map(|cells| (cells[1], cells[3]))
    };
    // The whole table is compared where it is calculated.
    assert_eq!((row("1"), row("15")), (Some(("48s", "48s")), Some(("68d 15h", "106d 5h"))), "{shown}");
    let table = policy(format!("{show} --json")).json();
    assert_fields(&table, json!({"name": "wait-factor", "max_retries": 15}));
    assert_fields(&table["retries"][4], json!({"min_s": 227.0, "cumulative_mean_s": 505.0}));
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
        let table = policy(format!("show {name} --ttl 3600 --json")).json();
        let retries = table["retries"].as_array().expect("retries");
        assert_eq!(table["max_retries"].as_u64(), Some(retries.len() as u64));
        for (index, row) in retries.iter().enumerate() {
            assert_eq!(row["retry"].as_u64(), Some(index as u64 + 1));
            let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
            assert!(number("min_s") <= number("mean_s") && number("mean_s") <= number("max_s"));
            assert!(number("cumulative_mean_s") >= number("mean_s"));
            let waits = ["sqs", "step_functions", "sqs_or_step_functions"];
            assert!(waits.contains(&row["road"].as_str().expect("where it waits")));
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
fn own_policies_are_checked_with_all_their_errors_and_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (good, bad, drawing) = (path("mine.json"), path("bad.json"), path("p.svg"));
    let empty = policy(format!("check {}", path(""))).refused_with(2);
    assert_eq!(empty, format!("error: no .json files in {}\n", path("")));
    std::fs::write(&good, r#"{"retry_delays": [5, 30, 120]}"#).expect("writable");
    assert!(policy(format!("check {}", path(""))).succeeds().contains("mine.json: ok"));
    assert!(policy(format!("show {good}")).succeeds().starts_with("mine\n"));

    let wrong = r#"{"wait_factor": 300, "max_retries": -1, "jitter": "much", "colour": 1}"#;
    std::fs::write(&bad, wrong).expect("writable");
    let said = policy(format!("check {bad}")).refused_with(2);
    assert_eq!(policy(format!("show {bad}")).refused_with(2), said);
    let errors = [
        "max_retries: expected an integer from 0 to 100, found an integer: -1",
        "wait_factor: expected an integer from 10 to 200, found an integer: 300",
        r#"jitter: expected "full", "equal", "none", {"additive": 0 to 10}, {"bounded_ms": 0 to 31536000000} or {"whole_seconds": 0 to 3600}, found a string: "much""#,
        "colour: expected no such field, found an integer: 1",
    ];
    assert_eq!(said, errors.map(|error| format!("error: {bad}: {error}\n")).concat());
    assert!(policy("check").succeeds().lines().count() >= 12, "those that are built in");

    policy(format!("plot web-push wait-factor -o {drawing} --ttl 60")).succeeds();
    assert!(std::fs::read(drawing).expect("written").starts_with(b"<svg"));
}

#[test]
fn a_message_s_policy_is_explained_without_a_stack() {
    let explain = |message: &str| policy_reading("explain - --offline --json", message).json();
    let otp = r#"{"tenant":"acme","to":{"subscription":"s1"},"class":"otp"}"#;
    let words = policy_reading("explain - --offline", otp).succeeds();
    assert!(words.contains("applies -> class otp"), "{words}");
    let of_message = explain(r#"{"tenant":"acme","to":{"subscription":"s1"},"retry":{"max_retries":1}}"#);
    assert_fields(&of_message, json!({"source": "message", "max_retries": 1}));
    let said = policy_reading("explain - --offline", r#"{"tenant":"acme","ttl":"s3cret"}"#).refused_with(2);
    assert!(said.lines().count() == 2 && !said.contains("s3cret"), "{said}");

    let webhook = explain(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"class":"otp"}"#);
    assert_fields(&webhook, json!({"source": "channel", "name": "schedule-standard", "channel": "webhook"}));
    assert_eq!(webhook["retries"][0].get("within_ttl"), None);
    let limited = explain(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"ttl":3600}"#);
    assert_eq!(limited["retries"][2]["within_ttl"], "never");
}
