//! `redial simulate` as scripts and people call it: its JSON, its refusals, and what jitter does to a herd.

use std::process::{Command, Output};

use serde_json::Value;

/// The scenario that jitters are compared in, but for them.
const HERD: [&str; 12] = [
    "--policy",
    "web-push",
    "--messages",
    "20000",
    "--rate",
    "2000/s",
    "--outage",
    "5..35",
    "--capacity",
    "3000/s",
    "--seed",
    "1",
];

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.arg("simulate").args(arguments).output().expect("it was built")
}

fn stderr(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn stdout(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn policies(arguments: &[&str]) -> Vec<Value> {
    let done = simulate(&[arguments, &["--json"]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    let text = stdout(&done);
    assert_eq!(text.lines().count(), 1, "{text}");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let Value::Array(policies) = document["policies"].take() else { panic!("{text}") };
    policies
}

#[test]
fn the_more_jitter_the_lower_the_peak_after_the_outage() {
    let jitters = ["--jitter", "full", "equal", "additive=0.3", "none"];
    let policies = policies(&[&HERD[..], &jitters].concat());
    let names: Vec<&str> = policies.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["web-push+full", "web-push+equal", "web-push+additive=0.3", "web-push+none"]);
    let peaks: Vec<u64> =
        policies.iter().filter_map(|it| it["peak_after_outage_per_second"].as_u64()).collect();
    assert!(peaks.len() == 4 && peaks.is_sorted_by(|a, b| a < b), "{peaks:?}");
}

#[test]
fn the_json_has_the_promised_fields_and_types() {
    let policies = policies(&[&HERD[..], &["--retry-after", "20"]].concat());
    let [policy] = policies.as_slice() else { panic!("{policies:?}") };
    for field in [
        "attempts_per_message",
        "peak_per_second",
        "peak_after_outage_per_second",
        "drained_at_s",
        "sent",
        "p50_s",
        "p99_s",
    ] {
        assert!(policy[field].is_number(), "{field}: {policy}");
    }
    assert_eq!(policy["name"], "web-push");
    assert!(policy["dead_lettered"].as_object().is_some_and(|it| it.values().all(Value::is_u64)), "{policy}");
}

#[test]
fn the_same_seed_has_the_same_bytes_and_another_seed_others() {
    let run = |seed| {
        let options =
            ["--outage", "1..20", "--policy", "otp", "web-push", "--jitter", "full", "none", "--seed", seed];
        let (json, table) = (simulate(&[&options[..], &["--json"]].concat()), simulate(&options));
        assert!(json.status.success() && table.status.success());
        (json.stdout, table.stdout)
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7").0, run("8").0);
}

#[test]
fn the_table_has_a_row_a_policy_and_says_what_it_means() {
    let done = simulate(&[&HERD[..], &["--jitter", "full", "none"]].concat());
    let text = stdout(&done);
    let lines: Vec<&str> = text.lines().collect();
    let [scenario, _, headings, full, none, _, meaning] = lines.as_slice() else { panic!("{text}") };
    assert!(
        scenario.starts_with("20000 messages at 2000/s, outage from 5 s to 35 s, capacity 3000/s"),
        "{text}"
    );
    assert!(headings.contains("after outage/s") && headings.contains("of 3000/s"), "{text}");
    assert!(full.starts_with("web-push+full ") && none.starts_with("web-push+none "), "{text}");
    assert!(meaning.contains("within its capacity of 3000/s"), "{text}");
    assert_eq!(stderr(&done), "", "no bar where nobody looks");
}

#[test]
fn a_policy_can_come_from_a_file_and_the_picture_goes_to_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let mine = at("mine.json");
    std::fs::write(&mine, r#"{"retry_delays": [20, 40], "jitter": "none"}"#).expect("writable");
    let done = simulate(&[&HERD[..], &["--policy", &mine, "-o", &at("herd.svg")]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).contains("\nmine "), "{}", stdout(&done));
    assert!(std::fs::read(at("herd.svg")).expect("it was written").starts_with(b"<svg"));
    let done = simulate(&["-o", &at("no such folder/herd.svg")]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("cannot be written") && !stdout(&done).is_empty(), "{}", stderr(&done));
}

#[test]
fn what_cannot_be_simulated_is_told_with_status_2() {
    for (arguments, said) in [
        (&["--rate", "fast"][..], "2000/s, 120/min"),
        (&["--rate", "0/s"], "2000/s, 120/min"),
        (&["--capacity", "1.5/s"], "2000/s, 120/min"),
        (&["--outage", "5"], "1m..2m30s"),
        (&["--outage", "35..5"], "START before END"),
        (&["--policy", "web_push"], "no policy is named web_push: expected one of"),
        (&["--policy", "./nowhere.json"], "./nowhere.json cannot be read"),
        (&["--jitter", "some"], "additive=FRACTION"),
        (&["--messages", "0"], "--messages"),
        (&["--rate", "1/h"], "longer than a year"),
        (&["--ttl", "2419201"], "--ttl"),
        (&["-o", "herd.png"], "ends in .svg"),
        (&["--workers", "0"], "1..=10000"),
        (&["--workers", "10001"], "1..=10000"),
        (&["--breaker", "on"], "--workers <N>"),
        (&["--limit", "50/s"], "--workers <N>"),
        (&["--counter-lag", "2s"], "--workers <N>"),
        (&["--workers", "2", "--breaker", "half"], "possible values: on, off, both"),
        (&["--workers", "2", "--limit", "0/s"], "2000/s, 120/min"),
        (&["--workers", "2", "--counter-lag", "2ms"], "1m30s"),
        (&["--tenants", "acme"], "acme:1000,other:10"),
        (&["--tenants", "acme:1", "--messages", "7"], "cannot be used with"),
    ] {
        let done = simulate(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(said), "{arguments:?}: {}", stderr(&done));
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
}

/// A small outage that 20 workers meet.
const WORKERS: [&str; 10] =
    ["--workers", "20", "--messages", "3000", "--rate", "100/s", "--outage", "5..65", "--seed", "3"];

#[test]
fn workers_are_compared_with_and_without_their_breaker() {
    let policies = policies(&[&WORKERS[..], &["--breaker", "both", "--counter-lag", "2s"]].concat());
    let [off, on] = policies.as_slice() else { panic!("{policies:?}") };
    assert_eq!(
        (&off["name"], &on["name"]),
        (&"web-push, breaker off".into(), &"web-push, breaker on".into())
    );
    let number = |of: &Value, field: &str| of[field].as_u64().unwrap_or_else(|| panic!("{field}: {of}"));
    assert!(number(on, "attempts_during_outage") * 4 < number(off, "attempts_during_outage"), "{policies:?}");
    assert!(number(on, "deferrals") > 0 && number(off, "deferrals") == 0, "{policies:?}");
    assert_eq!(number(on, "sent"), 3_000);

    let done = simulate(&[&WORKERS[..], &["--breaker", "both"]].concat());
    let text = stdout(&done);
    assert!(text.lines().next().is_some_and(|line| line.ends_with(", seed 3, 20 workers")), "{text}");
    assert!(text.contains("in outage  deferrals") && text.contains("web-push, breaker on leaves "), "{text}");
}

#[test]
fn workers_have_their_breaker_unless_it_is_off_and_without_workers_nothing_is_held_back() {
    let name_and_deferrals = |options: &[&str]| {
        let policies = policies(&[&WORKERS[2..], options].concat());
        let [policy] = policies.as_slice() else { panic!("{policies:?}") };
        assert!(policy["attempts_during_outage"].is_u64(), "{policy}");
        (policy["name"].as_str().map(str::to_owned), policy["deferrals"].as_u64() > Some(0))
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(name_and_deferrals(&["--workers", "20"]), (named("web-push, breaker on"), true));
    assert_eq!(
        name_and_deferrals(&["--workers", "20", "--breaker", "off"]),
        (named("web-push, breaker off"), false)
    );
    assert_eq!(name_and_deferrals(&[]), (named("web-push"), false));
}

#[test]
fn tenants_share_a_limit() {
    let options = ["--workers", "10", "--limit", "20/s", "--tenants", "acme:200,other:5", "--breaker", "off"];
    let policies = policies(&options);
    let tenants = policies[0]["tenants"].as_array().expect("two tenants");
    let last = |at: usize| tenants[at]["last_sent_at_s"].as_f64().expect("all are sent");
    assert_eq!((tenants[0]["name"].as_str(), tenants[1]["sent"].as_u64()), (Some("acme"), Some(5)));
    assert!(last(0) > 9.0 && last(1) < 5.0, "{tenants:?}");
    let text = stdout(&simulate(&options));
    assert!(text.contains(": 5 of other's 5 messages sent, half of them within "), "{text}");
}
