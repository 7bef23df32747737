//! What the page on cost shows of `redial cost` is what it prints.

use std::process::Command;

#[test]
fn the_page_shows_what_it_prints() {
    let arguments = ["cost", "--messages", "1000000", "--retry-rate", "0.05", "--long-wait-rate", "0.01"];
    let done = Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).output().expect("it was built");
    let printed = String::from_utf8(done.stdout).expect("text");
    let page = include_str!("../../infra/docs/cost.md");
    assert!(done.status.success());
    assert!(page.contains(&format!("cargo redial {}\n", arguments.join(" "))));
    assert!(page.contains(printed.trim_end()), "{printed}");
}

#[test]
fn dead_letters_are_in_the_bill_where_one_says_how_many() {
    let usd = |rate: &str| {
        let arguments = ["cost", "--json", "--dead-letter-rate", rate];
        let done = Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).output().expect("it was built");
        assert!(done.status.success());
        let bill: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        bill["traffic_usd"].as_f64().expect("a sum")
    };
    assert!(usd("0.5") > usd("0.001") && usd("0.001") > usd("0"));
    let arguments = ["cost", "--dead-letter-rate", "0.002"];
    let done = Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).output().expect("it was built");
    let printed = String::from_utf8(done.stdout).expect("text");
    assert!(printed.contains("0.05 retries, 0.01 long waits and 0.002 dead letters each,"), "{printed}");
    let arguments = ["cost", "--dead-letter-rate", "-1"];
    let done = Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).output().expect("it was built");
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn prices_that_are_none_are_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), r#"{"log_gb": 1}"#).expect("the file is ours");
    let done =
        Command::new(env!("CARGO_BIN_EXE_redial")).arg("cost").arg("--prices").arg(file.path()).output();
    let done = done.expect("it was built");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("log_gb: there is no such price"));
}
