//! `redial simulate`: its JSON, its table, its drawings, and what jitter does after an outage.

use crate::prelude::*;

/// The scenario in which jitters are compared.
const COMPARED: &str =
    "--policy web-push --messages 20000 --rate 2000/s --outage 5..35 --capacity 3000/s --seed 1";

const OUTAGE: &str = "--messages 3000 --rate 100/s --outage 5..65 --seed 3";

fn simulate(arguments: impl AsRef<str>) -> Done {
    run(&mut redial(format!("simulate {}", arguments.as_ref())), "")
}

/// The policies of the JSON document, which is one line.
fn policies(arguments: impl AsRef<str>) -> Vec<Value> {
    let text = simulate(format!("{} --json", arguments.as_ref())).succeeds();
    assert_eq!(text.lines().count(), 1, "{text}");
    parsed(&text)["policies"].as_array().expect("a list").clone()
}

#[test]
fn the_more_jitter_the_lower_the_peak_after_the_outage() {
    let policies = policies(format!("{COMPARED} --jitter full equal additive=0.3 none"));
    let names: Vec<&str> = policies.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["web-push+full", "web-push+equal", "web-push+additive=0.3", "web-push+none"]);
    assert!(policies.iter().all(|it| it["dead_lettered"].is_object() && it["p99_s"].is_number()));
    let peaks: Vec<u64> =
        policies.iter().filter_map(|it| it["peak_after_outage_per_second"].as_u64()).collect();
    assert!(peaks.len() == 4 && peaks.is_sorted_by(|a, b| a < b), "{peaks:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let options = format!("--outage 1..20 --policy otp web-push --jitter full none --seed {seed}");
        (simulate(format!("{options} --json")).succeeds(), simulate(&options).succeeds())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn a_policy_is_read_from_a_file_shown_in_the_table_and_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (mine, drawing) = (at("mine.json"), at("outage.svg"));
    std::fs::write(&mine, r#"{"retry_delays": [20, 40], "jitter": "none"}"#).expect("writable");
    let text = simulate(format!("{COMPARED} --policy {mine} --retry-after 20 -o {drawing}")).succeeds();
    assert!(text.contains("\nmine ") && text.contains("after outage/s  of 3000/s"), "{text}");
    assert!(std::fs::read(drawing).expect("it was written").starts_with(b"<svg"));
    let done = simulate(format!("-o {}", at("no-such-folder/outage.svg")));
    assert!(done.stderr.contains("cannot be written") && !done.stdout.is_empty(), "{done:?}");
    done.ends_with(1);
}

#[test]
fn workers_are_compared_with_and_without_their_breaker() {
    let policies = policies(format!("--workers 20 {OUTAGE} --breaker both --counter-lag 2s"));
    let [off, on] = policies.as_slice() else { panic!("{policies:?}") };
    assert_fields(off, json!({"name": "web-push, breaker off", "deferrals": 0}));
    assert_fields(on, json!({"name": "web-push, breaker on", "sent": 3_000}));
    let number = |of: &Value, field: &str| of[field].as_u64().unwrap_or_else(|| panic!("{field}: {of}"));
    assert!(number(on, "attempts_during_outage") * 4 < number(off, "attempts_during_outage"), "{policies:?}");
    assert!(number(on, "deferrals") > 0, "{policies:?}");

    let done = simulate(format!("--workers 20 {OUTAGE} --breaker both"));
    assert_eq!(done.stderr, "", "no progress bar without a terminal");
    let text = done.succeeds();
    assert!(text.lines().next().is_some_and(|line| line.ends_with(", seed 3, 20 workers")), "{text}");
    assert!(text.contains("in outage  deferrals") && text.contains("web-push, breaker on leaves "), "{text}");
}

#[test]
fn only_workers_have_a_breaker_and_it_can_be_off() {
    for (options, name, defers) in [
        ("--workers 20", "web-push, breaker on", true),
        ("--workers 20 --breaker off", "web-push, breaker off", false),
        ("", "web-push", false),
    ] {
        let policies = policies(format!("{OUTAGE} {options}"));
        let [policy] = policies.as_slice() else { panic!("{policies:?}") };
        assert!(policy["attempts_during_outage"].is_u64(), "{policy}");
        assert_eq!((&policy["name"], policy["deferrals"].as_u64() > Some(0)), (&json!(name), defers));
    }
}

#[test]
fn tenants_share_a_limit() {
    let policies = policies("--workers 10 --limit 20/s --tenants acme:200,other:5 --breaker off");
    let tenants = policies[0]["tenants"].as_array().expect("two tenants");
    let last = |at: usize| tenants[at]["last_sent_at_s"].as_f64().expect("all are sent");
    assert_eq!((tenants[0]["name"].as_str(), tenants[1]["sent"].as_u64()), (Some("acme"), Some(5)));
    assert!(last(0) > 9.0 && last(1) < 5.0, "{tenants:?}");
}
