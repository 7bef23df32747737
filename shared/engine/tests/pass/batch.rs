//! Messages beside each other: duplicates, conflicts, one that fails among nine that do not.

use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_testkit::memory::sender::{answered, answered_with};
use redial_testkit::memory::{Death, PortErrorKind};

use crate::harness::Harness;

#[test]
fn ten_messages_are_one_reading_of_everything_one_claim_and_one_record() {
    let mut harness = Harness::new();
    for at in 0..10 {
        harness.subscribe(&format!("m{at}"));
        harness.produce(&Harness::message(&format!("m{at}"), ""));
    }
    harness.run();
    let state = harness.memory.state();
    assert_eq!(state.sent.len(), 10);
    let trace: Vec<_> =
        state.trace.iter().filter(|name| !matches!(**name, "post" | "begun_before")).collect();
    assert_eq!(trace, [&"load", &"policies", &"protection", &"claim", &"record"]);
}

#[test]
fn one_malformed_and_one_that_panics_leave_the_other_eight_alone() {
    let mut harness = Harness::new();
    for at in 0..9 {
        harness.subscribe(&format!("m{at}"));
        harness.produce(&Harness::message(&format!("m{at}"), ""));
    }
    harness.produce("{}");
    harness.memory.state().panicking.insert(Harness::endpoint("m4"));
    harness.run();
    for at in 0..9 {
        assert_eq!(harness.state_of(&format!("m{at}")), Some(State::Sent), "{at}");
        assert_eq!(harness.posts_to(&format!("m{at}")), 1, "{at}");
    }
    assert_eq!(harness.memory.state().dead_letters.get(&Reason::Malformed), Some(&1));
}

#[test]
fn faults_of_ours_bring_messages_back_and_nothing_is_sent_twice() {
    for name in [
        "load",
        "policies",
        "claim",
        "record",
        "send",
        "bodies.put",
        "register",
        "park",
        "ensure_running",
        "describe",
    ] {
        for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
            for answers in [
                vec![],
                vec![answered(503)],
                vec![answered_with(429, &[("retry-after", "1800")])],
                vec![answered(400)],
                vec![answered(410)],
            ] {
                let mut harness = Harness::new();
                harness.subscribe("m");
                harness.memory.state().answers.insert(Harness::endpoint("m"), answers.clone());
                harness.memory.fail(name, 1, kind);
                harness.produce(&Harness::message("m", ""));
                harness.run();
                let case = format!("{name} {kind:?} {answers:?}");
                assert!(harness.state_of("m").is_some_and(State::is_terminal), "{case}");
                let expected = if answers.is_empty() { 1 } else { answers.len() };
                let most = expected + usize::from(matches!(harness.state_of("m"), Some(State::Sent)));
                // A record that failed is the one fault after which it is unknown whether it was sent.
                let most = most + usize::from(name == "record");
                assert!(harness.posts_to("m") <= most, "{case}: {}", harness.posts_to("m"));
            }
        }
    }
}

#[test]
fn the_same_message_twice_in_a_batch_is_one_delivery() {
    let mut harness = Harness::with_push(vec![], "");
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.posts_to("m"), 1);
}

#[test]
fn the_same_message_again_later_is_dropped() {
    let mut harness = Harness::with_push(vec![], "").run_to_the_end();
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.posts_to("m"), 1);
    assert_eq!(harness.memory.state().counts.get(&Metric::DuplicatesDropped), Some(&1));
}

#[test]
fn the_same_record_in_three_invocations_is_one_post() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let id = harness.produce(&Harness::message("m", ""));
    // The first worker hangs in its POST, after load, policies, protection and claim, while the second comes by.
    harness.memory.state().death = Some(Death::After(5));
    let first = harness.incoming_of(&id);
    let second = harness.incoming_of(&id);
    assert_eq!(harness.invoke_until_death(vec![first]), None, "the first invocation is still at it");
    harness.memory.revive();
    assert_eq!(harness.invoke_with(vec![second.clone()]), std::slice::from_ref(&id), "leased by the first");
    assert_eq!(harness.posts_to("m"), 1);
    assert_eq!(harness.invoke_with(vec![second]), [id], "still leased");
    assert_eq!(harness.posts_to("m"), 1);
}

#[test]
fn the_same_id_with_another_content_is_a_dead_letter_and_the_first_goes_on() {
    let mut harness = Harness::with_push(vec![], "");
    harness.produce(r#"{"tenant":"acme","id":"m","to":{"subscription":"m"},"payload":"another"}"#);
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    assert_eq!(harness.posts_to("m"), 1);
    let state = harness.memory.state();
    assert_eq!(state.dead_letters.get(&Reason::IdConflict), Some(&1));
    assert_eq!((state.bodies.len(), state.described.len()), (1, 1));
}

#[test]
fn two_tenants_may_use_the_same_id() {
    let mut harness = Harness::with_push(vec![], "");
    harness.produce(&Harness::message("m", "").replace("acme", "other"));
    harness.run();
    assert_eq!(harness.memory.state().ledger.len(), 2);
}

#[test]
fn a_forked_retry_chain_closes_itself() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(503)]);
    let now = harness.now().as_ms();
    harness.produce(&Harness::message("m", ""));
    harness.run();
    // The same retry, twice more: as a crash between hand-off and acknowledgement leaves it.
    for _ in 0..2 {
        let travelling = format!(r#","lineage":0,"retry_count":1,"original_timestamp":{now}"#);
        harness.produce_retry(&Harness::message("m", &travelling));
    }
    harness.run();
    assert_eq!(harness.posts_to("m"), 2);
}

#[test]
fn a_replay_run_twice_sends_once() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(400)]);
    let now = harness.now().as_ms();
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Failed));
    for _ in 0..2 {
        let travelling = format!(r#","lineage":1,"retry_count":0,"original_timestamp":{now}"#);
        harness.produce_retry(&Harness::message("m", &travelling));
    }
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    assert_eq!(harness.posts_to("m"), 2);
}
