//! Cancelling: whatever a worker is about to do, a delivery is sent or cancelled and never both, and what was answered as cancelled is not
//! posted after that.

use std::time::Duration;

use redial_core::ledger::cancel::Cancelled;
use redial_core::ledger::{Cancellation, State};
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::reason::Reason;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};
use serde_json::json;

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, origin};
use crate::scenarios::to_all;

const SCHEDULED: &str = r#","deliver_at":"2026-11-21T13:00:00Z""#;
const HOUR: Duration = Duration::from_secs(3600);

fn cancelled(answer: Cancellation) -> Cancelled {
    let Cancellation::Cancelled(cancelled) = answer else { panic!("{answer:?}") };
    cancelled
}

/// The states that were announced of `m`.
fn announced(harness: &Harness) -> Vec<&str> {
    harness.events.iter().filter(|it| it["id"] == "m").filter_map(|it| it["state"].as_str()).collect()
}

/// It ended as cancelled, was posted so often, and nothing is left.
#[track_caller]
fn assert_cancelled(harness: &Harness, posts: usize, case: &str) {
    assert_eq!(harness.ended("m"), (State::Cancelled, Some(Reason::Cancelled)), "{case}");
    assert_eq!(harness.posts_to("m"), posts, "{case}");
    let state = harness.state();
    assert!(state.parked.is_empty() && harness.queued().is_empty() && harness.redriven.is_empty(), "{case}");
    assert!(state.bodies.is_empty() && state.described.is_empty(), "{case}: it is no dead letter");
}

#[test]
fn cancelled_before_any_effect_of_a_worker_it_is_sent_or_cancelled() {
    let (mut answers, mut refused) = (0, 0);
    for scenario in to_all() {
        for n in 1.. {
            let mut harness = scenario.prepared();
            harness.state().has_events = true;
            harness.to_cancel = Some("m");
            harness.state().held_up_at = Some(n);
            harness.run();
            let Some((answer, posts)) = harness.cancelled else { break };
            let case = format!("{}, held up before {n} of {:?}", scenario.name, harness.state().trace);
            match answer {
                Cancellation::Cancelled(cancelled) => {
                    answers += 1;
                    assert!(cancelled.is_known || posts == 0, "{case}");
                    let mut harness = harness;
                    assert_cancelled(&harness, posts, &case);
                    assert_eq!(announced(&harness), ["cancelled"], "{case}");
                    let again = self::cancelled(harness.cancel("m"));
                    assert_eq!(again, Cancelled { is_known: true, ..cancelled }, "{case}");
                    harness.run();
                    assert_cancelled(&harness, posts, &case);
                }
                Cancellation::BeingAttempted { until } => {
                    refused += 1;
                    assert!(until.is_some(), "{case}");
                    scenario.assert_ended(&harness, false, &case);
                    assert_eq!(announced(&harness).len(), 1, "{case}");
                }
                Cancellation::Ended(state) => {
                    refused += 1;
                    assert_eq!(state, scenario.end.0, "{case}");
                    scenario.assert_ended(&harness, false, &case);
                }
                Cancellation::OnPage => panic!("{case}: it is on no page"),
            }
        }
    }
    assert!(answers > 100 && refused > 100, "{answers} cancelled, {refused} refused");
}

#[test]
fn a_worker_that_dies_over_a_cancelled_message_leaves_it_cancelled_and_announced() {
    for (answers, fields) in [(vec![], ""), (vec![], SCHEDULED), (vec![answered(503)], "")] {
        let posts = answers.len();
        let run = |death| {
            let mut harness = Harness::prepared(Whom::Browser, answers.clone(), fields);
            harness.state().has_events = true;
            if posts > 0 {
                harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
            }
            cancelled(harness.cancel("m"));
            let mut state = harness.state();
            (state.effects, state.death) = (0, death);
            state.trace.clear();
            drop(state);
            harness.run_to_the_end()
        };
        kill_at_every_effect(run, |harness, _, case| {
            assert_cancelled(harness, posts, case);
            let announced = announced(harness);
            assert!(!announced.is_empty() && announced.iter().all(|it| *it == "cancelled"), "{case}");
        });
    }
}

#[test]
fn copies_of_a_cancelled_message_announce_it_once() {
    let mut harness = Harness::new();
    harness.state().has_events = true;
    harness.copies = true;
    harness.push("m", "");
    assert!(!cancelled(harness.cancel("m")).is_known);
    harness.run();
    assert_cancelled(&harness, 0, "");
    assert_eq!(announced(&harness), ["cancelled"]);
    assert!(cancelled(harness.cancel("m")).is_known);
}

#[test]
fn a_retry_announces_the_cancellation_that_a_copy_could_not_announce() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503)], "");
    harness.state().has_events = true;
    // Received twice at once: the other worker makes the attempt, hands the retry off, and acknowledges the message.
    let copy = harness.incoming_of("sqs-1");
    harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
    cancelled(harness.cancel("m"));
    harness.memory.fail("send", 1, PortErrorKind::Throttled);
    assert_eq!(harness.invoke_with(vec![copy]), ["sqs-1"], "it comes back in vain");
    harness.run();
    assert_cancelled(&harness, 1, "");
    assert_eq!(announced(&harness), ["cancelled"]);
}

#[test]
fn a_message_that_comes_long_after_its_cancellation_is_not_sent() {
    let mut harness = Harness::new();
    cancelled(harness.cancel("m"));
    harness.pass(Duration::from_secs(86_400 * 300));
    harness.push("m", "");
    harness.run();
    assert_cancelled(&harness, 0, "");
}

#[test]
fn an_attempt_whose_worker_died_is_cancelled_in_doubt_once_its_lease_is_over() {
    for dies in ["claim", "post"] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], "");
        let id = harness.queued().remove(0);
        harness.dies_over(&id, dies);
        let posts = harness.posts_to("m");
        assert!(matches!(harness.cancel("m"), Cancellation::BeingAttempted { until: Some(_) }), "{dies}");
        harness.pass(Duration::from_secs(60));
        assert!(cancelled(harness.cancel("m")).in_doubt, "{dies}");
        harness.run();
        assert_cancelled(&harness, posts, dies);
        assert!(harness.entry("m").expect("it is there").in_doubt, "{dies}");
    }
}

#[test]
fn successes_that_a_batch_has_are_sent_and_cannot_be_cancelled() {
    for (fails, ends) in [(false, State::Sent), (true, State::Cancelled)] {
        let mut harness = Harness::new();
        for id in ["m", "n"] {
            harness.push(id, "");
        }
        if fails {
            // The batch is not written, nor is anything by itself: the workers' leases run out.
            for name in ["record_batch", "record"] {
                harness.memory.fail(name, 9, PortErrorKind::Broken);
            }
        }
        let ids = harness.queued();
        let incoming = ids.iter().map(|id| harness.incoming_of(id)).collect();
        let back = harness.invoke_with(incoming);
        assert_eq!(back.is_empty(), !fails);
        let own = harness.state().ledger.own(&Harness::key("m")).expect("it was claimed").state;
        assert_eq!(own, State::Sending, "its own entry says no more");
        harness.pass(Duration::from_secs(60));
        match harness.cancel("m") {
            Cancellation::Cancelled(cancelled) => assert!(fails && cancelled.in_doubt),
            Cancellation::Ended(state) => assert!(!fails && state == State::Sent),
            other @ (Cancellation::BeingAttempted { .. } | Cancellation::OnPage) => panic!("{other:?}"),
        }
        harness.state().failing.clear();
        harness.acknowledge(&ids, &back);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(ends), 1));
        assert_eq!(harness.state_of("n"), Some(State::Sent));
    }
}

#[test]
fn a_worker_whose_attempt_was_cancelled_in_doubt_records_and_hands_off_nothing() {
    for status in [201, 503, 400] {
        let mut harness = Harness::prepared(Whom::Browser, vec![answered(status)], "");
        harness.state().has_events = true;
        // Its record comes after the end of its lease.
        harness.state().slow.insert("post", Duration::from_secs(60));
        harness.to_cancel = Some("m");
        let at = {
            let before = Harness::prepared(Whom::Browser, vec![answered(status)], "");
            let mut before = before;
            before.run_until(|it| it.effects("record") > 0);
            let trace = before.state().trace.clone();
            trace.iter().position(|name| *name == "record").expect("it is recorded") + 1
        };
        harness.state().held_up_at = Some(at);
        harness.run_until(|it| it.cancelled.is_some());
        harness.state().slow.clear();
        let (answer, posts) = harness.cancelled.expect("it was held up");
        assert!(cancelled(answer).in_doubt, "{status}");
        harness.run();
        assert_cancelled(&harness, posts, &status.to_string());
        assert_eq!(announced(&harness), ["cancelled"], "{status}");
    }
}

#[test]
fn an_attempt_that_may_have_arrived_leaves_a_doubt_about_what_is_cancelled() {
    let timeout = Outcome::InDoubt(InDoubt::Timeout);
    let mut harness = Harness::prepared(Whom::Browser, vec![timeout], "");
    harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
    assert!(cancelled(harness.cancel("m")).in_doubt);
    harness.run();
    assert_cancelled(&harness, 1, "");
}

#[test]
fn what_waits_in_a_line_or_a_bucket_ends_when_it_is_released() {
    for fields in [SCHEDULED, ""] {
        let mut harness = Harness::new();
        harness.open_breaker(&origin("https://push.example"), HOUR);
        harness.push("m", fields);
        harness.run_until(|it| !it.state().parked.is_empty());
        cancelled(harness.cancel("m"));
        harness.run();
        assert_cancelled(&harness, 0, fields);
    }
}

#[test]
fn the_quarantine_drops_what_was_cancelled_and_announces_it() {
    for known in [true, false] {
        let mut harness = Harness::new();
        harness.state().has_events = true;
        harness.subscribe("m");
        harness.will_answer("m", vec![answered(503)]);
        if known {
            harness.produce(&Harness::message("m", ""));
            harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
        }
        assert_eq!(cancelled(harness.cancel("m")).is_known, known);
        harness.drop_travelling();
        harness.poison(&Harness::message("m", ""));
        harness.run();
        assert_cancelled(&harness, usize::from(known), "");
        assert_eq!(announced(&harness), ["cancelled"]);
        assert_eq!(harness.events[0]["reason"], json!("cancelled"));
    }
}

#[test]
fn a_replay_of_what_was_cancelled_is_not_sent() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503)], "");
    harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
    cancelled(harness.cancel("m"));
    let at = harness.now().as_ms();
    let replay = format!(r#","lineage":3,"retry_count":0,"original_timestamp":{at}"#);
    harness.produce_retry(&Harness::message("m", &replay));
    harness.run();
    assert_cancelled(&harness, 1, "");
}

#[test]
fn a_cancellation_whose_answer_is_lost_is_made_again_with_the_same_answer() {
    for kind in [PortErrorKind::Lost, PortErrorKind::Broken] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], SCHEDULED);
        harness.run_until(|it| !it.state().parked.is_empty());
        harness.memory.fail("cancel.write", 1, kind);
        let ports = harness.memory.another_worker();
        let key = Harness::key("m");
        let lost =
            crate::harness::until_stalled(redial_engine::cancel::cancel(&ports, &ports, &key, harness.now()));
        assert!(lost.expect("nothing kills it").is_err());
        let first = harness.cancel("m");
        assert_eq!(harness.cancel("m"), first);
        harness.will_die(Death::AfterNext("send"));
        harness.run();
        assert_cancelled(&harness, 0, "");
    }
}
