//! Messages beside each other: duplicates, conflicts, one that fails among nine that do not.

use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_memory::PortErrorKind;
use redial_memory::senders::answered;

use crate::harness::{Harness, Whom};
use crate::scenarios::retry_after;

#[test]
fn ten_messages_are_one_reading_of_everything_one_claim_and_one_record() {
    let mut harness = Harness::new();
    harness.push_many("m", 10, "");
    harness.run();
    let state = harness.state();
    assert_eq!(state.sent.len(), 10);
    let trace: Vec<_> =
        state.trace.iter().filter(|name| !matches!(**name, "post" | "begun_before" | "lines")).collect();
    assert_eq!(trace, [&"load", &"policies", &"protection", &"claim", &"record_batch"]);
}

#[test]
fn one_malformed_and_one_that_panics_leave_the_other_nine_alone() {
    for is_webhook in [false, true] {
        let mut harness = Harness::new();
        harness.produce("{}");
        for id in (0..9).map(|at| format!("m{at}")) {
            if is_webhook {
                harness.subscribe_hook(&id)
            } else {
                harness.subscribe(&id)
            }
            harness.produce(&Harness::message(&id, ""));
        }
        harness.state().panicking.extend([Harness::endpoint("m4"), Harness::hook("m4")]);
        harness.run();
        for at in 0..9 {
            let id = format!("m{at}");
            assert_eq!((harness.state_of(&id), harness.posts_to(&id)), (Some(State::Sent), 1), "{at}");
        }
        assert_eq!(harness.dead_letters(Reason::Malformed), 1);
    }
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
            for answer in [
                None,
                Some(answered(503)),
                Some(retry_after(429, 1800)),
                Some(answered(400)),
                Some(answered(410)),
            ] {
                let harness = Harness::prepared(Whom::Browser, answer.clone().into_iter().collect(), "");
                harness.memory.fail(name, 1, kind);
                let harness = harness.run_to_the_end();
                let case = format!("{name} {kind:?} {answer:?}");
                assert!(harness.state_of("m").is_some_and(State::is_terminal), "{case}");
                let is_sent = harness.state_of("m") == Some(State::Sent);
                // A record that failed is the one fault after which it is unknown whether it was sent.
                let most = 1 + usize::from(is_sent) + usize::from(name == "record");
                assert!(harness.posts_to("m") <= most, "{case}: {}", harness.posts_to("m"));
            }
        }
    }
}

#[test]
fn the_same_message_twice_is_one_delivery_in_one_batch_and_in_two() {
    for (in_one_batch, dropped) in [(true, 0), (false, 1)] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], "");
        if !in_one_batch {
            harness.run();
        }
        harness.deliver(&Harness::message("m", ""));
        assert_eq!((harness.posts_to("m"), harness.count(Metric::DuplicatesDropped)), (1, dropped));
    }
}

#[test]
fn the_same_record_in_three_invocations_is_one_post() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], "");
    let id = harness.queued().remove(0);
    // The first worker hangs in its POST while the second comes by.
    harness.dies_over(&id, "post");
    for _ in 0..2 {
        assert!(!harness.acknowledges(&id), "leased by the first");
        assert_eq!(harness.posts_to("m"), 1);
    }
}

#[test]
fn the_same_id_with_another_content_is_a_dead_letter_and_the_first_goes_on() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], "");
    harness.deliver(r#"{"tenant":"acme","id":"m","to":{"subscription":"m"},"payload":"another"}"#);
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
    assert_eq!(harness.dead_letters(Reason::IdConflict), 1);
    assert_eq!((harness.bodies(), harness.state().described.len()), (1, 1));
}

#[test]
fn two_tenants_may_use_the_same_id() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], "");
    harness.deliver(&Harness::message("m", "").replace("acme", "other"));
    assert_eq!(harness.state().ledger.len(), 2);
}

/// A crash between hand-off and acknowledgement leaves two messages of one retry; an operator may run a replay twice.
#[test]
fn the_same_retry_or_the_same_replay_twice_is_one_post() {
    for (answer, turn) in [(503, r#""lineage":0,"retry_count":1"#), (400, r#""lineage":1,"retry_count":0"#)] {
        let mut harness = Harness::finished(Whom::Browser, vec![answered(answer)], "");
        let at = harness.entry("m").expect("in the ledger").created_at.as_ms();
        for _ in 0..2 {
            let travel = format!(r#",{turn},"original_timestamp":{at}"#);
            harness.produce_retry(&Harness::message("m", &travel));
        }
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2), "{answer}");
    }
}
