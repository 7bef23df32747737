//! Our own dependencies are out for hours. Nothing becomes `poison`, everything ends as it should, and what the outage costs grows
//! linearly with its length.

use std::time::Duration;

use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::reason::Reason;
use redial_engine::ports::Clock;
use redial_testkit::memory::sender::{answered, answered_with};
use redial_testkit::memory::{Outage, PortErrorKind};
use serde_json::json;

use crate::harness::Harness;
use crate::roads::{Road, roads};
use crate::webhooks;

/// The calls of a dependency.
const DEPENDENCIES: [(&str, &[&str]); 5] = [
    (
        "DynamoDB",
        &[
            "load",
            "policies",
            "protection",
            "look",
            "exchange",
            "add",
            "lease",
            "claim",
            "record",
            "failed",
            "recovered",
            "switch_off",
            "register",
            "shards_of",
            "begun_before",
            "forget",
            "park",
            "page",
            "unpark",
            "bodies.put",
            "describe",
            "ledger.get",
            "subscription.get",
            "flag",
            "mark_gone",
            "add_candidate",
            "disable",
        ],
    ),
    ("SQS sends", &["send"]),
    ("Step Functions", &["ensure_running"]),
    ("events queue", &["events"]),
    ("Secrets Manager", &["reload_keys", "start"]),
];

const HOUR: Duration = Duration::from_secs(3_600);

fn travelled(road: &Road, outage: Option<(&'static [&'static str], usize)>) -> Harness {
    let mut harness = Harness::new();
    harness.memory.state().has_events = true;
    let message = road.to.prepare(&harness, road.answers.clone(), road.fields);
    let until = harness.now().plus(2 * HOUR);
    harness.memory.state().outage = outage.map(|(calls, from_effect)| Outage { calls, from_effect, until });
    harness.produce(&message);
    harness.run();
    harness
}

#[test]
fn no_outage_of_two_hours_makes_poison_whenever_it_begins() {
    for road in roads().into_iter().chain(webhooks::roads()) {
        let trace = travelled(&road, None).memory.state().trace.clone();
        for (name, calls) in DEPENDENCIES {
            let begins = (1..=trace.len()).filter(|n| *n == 1 || calls.contains(&trace[n - 1]));
            for from_effect in begins {
                let harness = travelled(&road, Some((calls, from_effect)));
                let what = format!("{}, {name} out from effect {from_effect} of {trace:?}", road.name);
                let entry = harness.entry("m").expect("it is in the ledger");
                assert_eq!(harness.redriven, Vec::<String>::new(), "{what}");
                assert_eq!(harness.memory.state().counts.get(&Metric::Poison), None, "{what}");
                assert!(harness.memory.state().parked.is_empty(), "{what}");
                let end = (entry.state, entry.reason);
                let too_late =
                    [(State::Expired, Some(Reason::TtlOver)), (State::Failed, Some(Reason::TtlExceeded))];
                let is_short_lived = road.fields.contains("ttl");
                let posts = harness.posts_to("m");
                // A POST that could not be recorded is made again, and may be answered otherwise.
                let may_repeat = trace[from_effect - 1] == "record";
                // One attempt more, which a 401 makes two posts.
                let most = road.posts + 2 * usize::from(may_repeat);
                assert!(posts <= most, "{what}: {posts} posts");
                assert!(
                    end == (road.ends, road.reason)
                        || (is_short_lived && too_late.contains(&end))
                        || (may_repeat && entry.state.is_terminal()),
                    "{what}: {end:?}"
                );
                let announced = harness.events.iter().rfind(|event| event["id"] == json!("m"));
                let announced = announced.map(|event| event["state"].clone());
                assert_eq!(announced, Some(json!(entry.state.label())), "{what}");
            }
        }
    }
}

/// How many calls ten webhooks cost while a dependency is out for so long.
fn calls(names: &'static [&'static str], lasting: Duration) -> usize {
    let mut harness = Harness::new();
    harness.memory.state().has_events = true;
    for n in 0..10 {
        let id = format!("m{n}");
        harness.subscribe_hook(&id);
        // A long wait, so that Step Functions is needed.
        let busy = vec![answered_with(429, &[("retry-after", "1800")])];
        harness.memory.state().answers.insert(Harness::hook(&id), busy);
        harness.produce(&Harness::message(&id, ""));
    }
    let until = harness.now().plus(lasting);
    harness.memory.state().outage = Some(Outage { calls: names, from_effect: 1, until });
    harness.run_until(|it| it.now() >= until || it.queued().is_empty());
    let calls = harness.memory.state().trace.iter().filter(|name| **name != "begun_before").count();
    harness.run();
    for n in 0..10 {
        assert_eq!(harness.state_of(&format!("m{n}")), Some(State::Sent));
    }
    assert_eq!(harness.memory.state().counts.get(&Metric::Poison), None);
    calls
}

#[test]
fn the_calls_of_an_outage_grow_linearly_with_its_length() {
    for (name, names) in DEPENDENCIES {
        let [two, four, eight] = [2, 4, 8].map(|hours| calls(names, hours * HOUR));
        println!("{name}: calls for 10 messages while out for 2 h {two}, 4 h {four}, 8 h {eight}");
        let (first, second) = (four.saturating_sub(two), eight.saturating_sub(four));
        // Twice the time, twice the calls, and a quarter more for what falls to either side of an edge.
        assert!(4 * second <= 10 * first + 40, "{name}: {two}, {four}, {eight}");
    }
}

#[test]
fn a_failing_start_of_an_execution_is_counted_and_delays_nothing_else() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let busy = answered_with(429, &[("retry-after", "1800")]);
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![busy]);
    harness.memory.fail("ensure_running", 1, PortErrorKind::Broken);
    harness.produce(&Harness::message("m", ""));
    harness.run_until(|it| !it.memory.state().parked.is_empty());
    assert_eq!(harness.queued(), Vec::<String>::new(), "what waits in its bucket is acknowledged");
    assert_eq!(harness.memory.state().counts[&Metric::WaitsNotStarted], 1);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2));
}

/// A message at its fifteenth receive, in which this call fails.
fn at_the_fifteenth_receive(
    answers: Vec<Outcome>,
    fields: &str,
    failing: &'static str,
    kind: PortErrorKind,
) -> Harness {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), answers);
    let id = harness.produce(&Harness::message("m", fields));
    harness.has_been_received(&id, 14);
    harness.memory.fail(failing, 1, kind);
    harness
}

#[test]
fn an_outcome_that_was_not_recorded_travels_and_is_not_sent_again() {
    for (answer, ends, posts) in
        [(201, State::Sent, 1), (503, State::Sent, 2), (400, State::Failed, 1), (410, State::Gone, 1)]
    {
        for kind in [PortErrorKind::Broken, PortErrorKind::Lost] {
            let mut harness = at_the_fifteenth_receive(vec![answered(answer)], "", "record", kind);
            harness.run_until(|it| it.travelling().iter().any(|body| body.contains("unrecorded")));
            assert_eq!(harness.queued().len(), 0, "the copy takes the message's place");
            harness.run();
            assert_eq!(harness.state_of("m"), Some(ends), "{answer}, {kind:?}");
            assert_eq!(harness.posts_to("m"), posts, "{answer}, {kind:?}");
            let bodies = usize::from(ends == State::Failed);
            assert_eq!(harness.memory.state().bodies.len(), bodies, "{answer}, {kind:?}");
        }
    }
}

#[test]
fn a_claim_that_was_not_used_is_given_back_without_doubt() {
    let fields = r#","retry":{"retry_in_doubt":false}"#;
    let mut harness = at_the_fifteenth_receive(vec![], fields, "claim", PortErrorKind::Lost);
    harness.run();
    let entry = harness.entry("m").expect("it is in the ledger");
    assert_eq!((entry.state, entry.in_doubt), (State::Sent, false));
    assert_eq!(harness.posts_to("m"), 1);
}

#[test]
fn a_message_that_cannot_be_sent_again_stays_in_its_queue() {
    let mut harness = at_the_fifteenth_receive(vec![], "", "claim", PortErrorKind::Broken);
    harness.memory.fail("send", 1, PortErrorKind::Broken);
    let ids = harness.queued();
    harness.run_until(|it| it.memory.state().failing["send"].0 == 0);
    assert_eq!(harness.queued(), ids);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
}

#[test]
fn a_message_without_a_second_chance_ends_where_others_are_sent_again() {
    let mut harness = at_the_fifteenth_receive(vec![], r#","ttl":0"#, "load", PortErrorKind::Broken);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Expired), 0));
    assert_eq!(harness.effects("send"), 0, "it is never sent again");
}

#[test]
fn a_key_that_is_not_known_while_secrets_are_out_is_no_dead_letter() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let until = harness.now().plus(HOUR);
    harness.memory.state().key_is_unknown = true;
    harness.memory.state().outage = Some(Outage { calls: &["reload_keys"], from_effect: 1, until });
    harness.produce(&Harness::message("m", r#","retry":{"retry_in_doubt":false}"#));
    harness.run();
    let entry = harness.entry("m").expect("it is in the ledger");
    assert_eq!((entry.state, entry.in_doubt), (State::Sent, false));
    assert_eq!(harness.posts_to("m"), 1);
}

#[test]
fn a_message_that_panics_every_time_is_redriven_and_not_sent_again() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().always_panicking.insert(Harness::endpoint("m"));
    harness.produce(&Harness::message("m", r#","ttl":2419200"#));
    harness.run();
    assert_eq!(harness.redriven.len(), 1);
    assert_eq!(harness.memory.state().dead_letters.get(&Reason::Poison), Some(&1));
}

#[test]
fn a_body_of_another_release_is_set_back_and_never_malformed() {
    let at = Harness::new().memory.now().as_ms();
    for more in [r#","levitate":true"#, r#","v":2"#, r#","unrecorded":{"token":"t","surprise":1}"#] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        let travel = format!(r#","retry_count":1,"original_timestamp":{at}{more}"#);
        let id = harness.produce_retry(&Harness::message("m", &travel));
        harness.run_until(|it| it.now() > redial_core::time::Timestamp::from_ms(at + 600_000));
        assert_eq!(harness.queued(), [id], "{more}");
        assert_eq!(harness.memory.state().dead_letters.len(), 0, "{more}");
    }
}

#[test]
fn the_quarantine_announces_the_end_of_what_it_drops() {
    for (answers, fields, ends) in [
        (vec![], "", State::Sent),
        (vec![answered(503)], r#","retry":"none""#, State::FailedNoRetries),
        (vec![answered(400)], "", State::Failed),
        (vec![answered(410)], "", State::Gone),
    ] {
        let mut harness = Harness::new();
        harness.memory.state().has_events = true;
        harness.subscribe("m");
        harness.memory.state().answers.insert(Harness::endpoint("m"), answers);
        let message = Harness::message("m", fields);
        harness.produce(&message);
        // Its worker dies each time before the event is sent.
        let until = harness.now().plus(HOUR);
        harness.memory.state().outage = Some(Outage { calls: &["send"], from_effect: 1, until });
        harness.run_until(|it| it.state_of("m").is_some_and(State::is_terminal));
        harness.memory.state().outage = None;
        let recorded = harness.entry("m").expect("it is in the ledger");
        harness.poison(&message);
        harness.drop_travelling_and_collect();
        let [event] = &harness.events[..] else { panic!("{ends:?}: {:?}", harness.events) };
        assert_eq!(event["state"], json!(ends.label()));
        assert_eq!(event["reason"], json!(recorded.reason.map(Reason::label)));
    }
}

#[test]
fn an_attempt_that_would_outlive_its_invocation_is_not_begun() {
    for (slow, took) in [("claim", 20), ("load", 19), ("protection", 19)] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.memory.state().slow.insert(slow, Duration::from_secs(took));
        let id = harness.produce(&Harness::message("m", r#","retry":{"retry_in_doubt":false}"#));
        let ids = [id];
        let batch = harness.receive(&ids);
        assert_eq!(harness.invoke_with(batch), ids, "{slow}");
        assert_eq!(harness.posts_to("m"), 0, "{slow}");
        let given_back = (slow == "claim").then_some((State::Queued, false));
        let entry = harness.entry("m").map(|entry| (entry.state, entry.in_doubt));
        assert_eq!(entry, given_back, "{slow}: what is too late before it is claimed is not claimed");
        harness.memory.state().slow.clear();
        harness.acknowledge(&ids, &ids);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1), "{slow}");
    }
}

#[test]
fn the_copy_that_knows_the_outcome_leads_in_either_order() {
    for newest_first in [false, true] {
        let mut harness = at_the_fifteenth_receive(vec![answered(201)], "", "record", PortErrorKind::Broken);
        harness.run_until(|it| it.travelling().iter().any(|body| body.contains("unrecorded")));
        let at = harness.entry("m").expect("it was claimed").created_at.as_ms();
        let bare = format!(r#","retry_count":0,"original_timestamp":{at}"#);
        harness.run_until(|it| !it.queued().is_empty());
        harness.produce_retry(&Harness::message("m", &bare));
        harness.deliver_together();
        harness.newest_first = newest_first;
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1), "{newest_first}");
    }
}

#[test]
fn the_quarantine_knows_the_outcome_that_a_message_carries() {
    let mut harness = at_the_fifteenth_receive(vec![answered(201)], "", "record", PortErrorKind::Broken);
    harness.memory.state().has_events = true;
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("unrecorded")));
    let body = harness.travelling().remove(0);
    harness.poison(&body);
    harness.drop_travelling_and_collect();
    assert_eq!(harness.events.len(), 1);
    assert_eq!(harness.events[0]["state"], json!("sent"));
    assert_eq!(harness.memory.state().bodies.len(), 0);
}

#[test]
fn doubts_of_an_earlier_lineage_do_not_end_a_replay() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let timeout = Outcome::InDoubt(InDoubt::Timeout);
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![timeout]);
    let fields = r#","retry":{"retry_in_doubt":false}"#;
    harness.produce(&Harness::message("m", fields));
    harness.run();
    assert_eq!(harness.entry("m").and_then(|entry| entry.reason), Some(Reason::InDoubtNotRetried));
    // The replay is claimed, too late to be sent, and given back.
    let at = harness.now().as_ms();
    let replay = format!(r#"{fields},"lineage":1,"retry_count":0,"original_timestamp":{at}"#);
    harness.memory.state().slow.insert("claim", Duration::from_secs(20));
    let ids = [harness.produce_retry(&Harness::message("m", &replay))];
    let batch = harness.receive(&ids);
    assert_eq!(harness.invoke_with(batch), ids);
    harness.memory.state().slow.clear();
    harness.acknowledge(&ids, &ids);
    harness.run();
    let entry = harness.entry("m").expect("it is in the ledger");
    assert_eq!((entry.state, entry.in_doubt, harness.posts_to("m")), (State::Sent, false, 2));
}

#[test]
fn loading_keys_again_leaves_time_for_the_second_send() {
    for took in [17, 25] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(401)]);
        harness.memory.state().slow.insert("reload_keys", Duration::from_secs(took));
        let start = harness.now();
        let id = harness.produce(&Harness::message("m", ""));
        let batch = harness.receive(std::slice::from_ref(&id));
        let back = harness.invoke_with(batch);
        let last = harness.memory.state().sent.last().map(|push| push.at);
        let last = last.expect("it was pushed");
        assert!(last <= start.plus(Duration::from_secs(18)), "{took}: it ends with 2 s to spare");
        assert_eq!(back.is_empty(), took == 17, "{took}");
    }
}
