//! `redial simulate`: its JSON, its table, its pictures, and what jitter does to a herd.

use crate::prelude::*;

/// The scenario in which jitters are compared.
const HERD: &str =
    "--policy web-push --messages 20000 --rate 2000/s --outage 5..35 --capacity 3000/s --seed 1";

fn simulate(arguments: &str) -> Done {
    run(&mut redial(format!("simulate {arguments}")), "")
}

/// The policies of the JSON document, which is one line.
fn policies(arguments: &str) -> Vec<Value> {
    let text = simulate(&format!("{arguments} --json")).succeeds();
    assert_eq!(text.lines().count(), 1, "{text}");
    let mut document = parsed(&text);
    let Value::Array(policies) = document["policies"].take() else { panic!("{text}") };
    policies
}

#[test]
fn the_more_jitter_the_lower_the_peak_after_the_outage() {
    let policies = policies(&format!("{HERD} --jitter full equal additive=0.3 none"));
    let names: Vec<&str> = policies.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["web-push+full", "web-push+equal", "web-push+additive=0.3", "web-push+none"]);
    let peaks: Vec<u64> =
        policies.iter().filter_map(|it| it["peak_after_outage_per_second"].as_u64()).collect();
    assert!(peaks.len() == 4 && peaks.is_sorted_by(|a, b| a < b), "{peaks:?}");
}

#[test]
fn the_json_has_the_promised_fields_and_types() {
    let policies = policies(&format!("{HERD} --retry-after 20"));
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
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let options = format!("--outage 1..20 --policy otp web-push --jitter full none --seed {seed}");
        (simulate(&format!("{options} --json")).succeeds(), simulate(&options).succeeds())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn the_table_has_a_row_for_each_policy_and_a_conclusion() {
    let done = simulate(&format!("{HERD} --jitter full none"));
    let text = done.stdout;
    let lines: Vec<&str> = text.lines().collect();
    let [scenario, _, headings, full, none, _, meaning] = lines.as_slice() else { panic!("{text}") };
    assert!(
        scenario.starts_with("20000 messages at 2000/s, outage from 5 s to 35 s, capacity 3000/s"),
        "{text}"
    );
    assert!(headings.contains("after outage/s") && headings.contains("of 3000/s"), "{text}");
    assert!(full.starts_with("web-push+full ") && none.starts_with("web-push+none "), "{text}");
    assert!(meaning.contains("within its capacity of 3000/s"), "{text}");
    assert_eq!(done.stderr, "", "no progress bar without a terminal");
}

#[test]
fn a_policy_is_read_from_a_file_and_a_picture_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let mine = at("mine.json");
    std::fs::write(&mine, r#"{"retry_delays": [20, 40], "jitter": "none"}"#).expect("writable");
    let text = simulate(&format!("{HERD} --policy {mine} -o {}", at("herd.svg"))).succeeds();
    assert!(text.contains("\nmine "), "{text}");
    assert!(std::fs::read(at("herd.svg")).expect("it was written").starts_with(b"<svg"));
    let done = simulate(&format!("-o {}", at("no-such-folder/herd.svg")));
    assert!(done.stderr.contains("cannot be written") && !done.stdout.is_empty(), "{done:?}");
    done.ends_with(1);
}

/// A small outage.
const OUTAGE: &str = "--messages 3000 --rate 100/s --outage 5..65 --seed 3";

#[test]
fn workers_are_compared_with_and_without_their_breaker() {
    let policies = policies(&format!("--workers 20 {OUTAGE} --breaker both --counter-lag 2s"));
    let [off, on] = policies.as_slice() else { panic!("{policies:?}") };
    assert_eq!(
        (&off["name"], &on["name"]),
        (&"web-push, breaker off".into(), &"web-push, breaker on".into())
    );
    let number = |of: &Value, field: &str| of[field].as_u64().unwrap_or_else(|| panic!("{field}: {of}"));
    assert!(number(on, "attempts_during_outage") * 4 < number(off, "attempts_during_outage"), "{policies:?}");
    assert!(number(on, "deferrals") > 0 && number(off, "deferrals") == 0, "{policies:?}");
    assert_eq!(number(on, "sent"), 3_000);

    let text = simulate(&format!("--workers 20 {OUTAGE} --breaker both")).succeeds();
    assert!(text.lines().next().is_some_and(|line| line.ends_with(", seed 3, 20 workers")), "{text}");
    assert!(text.contains("in outage  deferrals") && text.contains("web-push, breaker on leaves "), "{text}");
}

#[test]
fn only_workers_have_a_breaker_and_it_can_be_off() {
    let name_and_deferrals = |options: &str| {
        let policies = policies(&format!("{OUTAGE} {options}"));
        let [policy] = policies.as_slice() else { panic!("{policies:?}") };
        assert!(policy["attempts_during_outage"].is_u64(), "{policy}");
        (policy["name"].as_str().map(str::to_owned), policy["deferrals"].as_u64() > Some(0))
    };
    for (options, name, deferrals) in [
        ("--workers 20", "web-push, breaker on", true),
        ("--workers 20 --breaker off", "web-push, breaker off", false),
        ("", "web-push", false),
    ] {
        assert_eq!(name_and_deferrals(options), (Some(name.to_owned()), deferrals), "{options}");
    }
}

#[test]
fn tenants_share_a_limit() {
    let options = "--workers 10 --limit 20/s --tenants acme:200,other:5 --breaker off";
    let policies = policies(options);
    let tenants = policies[0]["tenants"].as_array().expect("two tenants");
    let last = |at: usize| tenants[at]["last_sent_at_s"].as_f64().expect("all are sent");
    assert_eq!((tenants[0]["name"].as_str(), tenants[1]["sent"].as_u64()), (Some("acme"), Some(5)));
    assert!(last(0) > 9.0 && last(1) < 5.0, "{tenants:?}");
    let text = simulate(options).succeeds();
    assert!(text.contains(": 5 of other's 5 messages sent, half of them within "), "{text}");
}
