//! The health of webhooks' receivers: what is counted, what forgets it, and who is switched off.

use std::time::Duration;

use redial_core::ledger;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::subscription::State;
use redial_core::webhook::Health;
use redial_memory::PortErrorKind;
use redial_memory::senders::answered;

use crate::harness::{Harness, Whom};
use crate::scenarios::retry_after;

const ONCE: &str = r#","retry":{"max_retries":0}"#;
const DAY: Duration = Duration::from_secs(86_400);

fn with_receiver() -> Harness {
    let harness = Harness::new();
    harness.subscribe_hook("m");
    harness
}

/// `n` messages to `m` in one batch, run to their ends.
fn send(harness: &mut Harness, name: &str, n: usize, fields: &str) {
    for at in 0..n {
        harness.produce(&Harness::message_to("m", &format!("{name}-{at}"), fields));
    }
    harness.run();
}

fn health(harness: &Harness) -> Health {
    harness.subscription("m").health
}

/// The state of `m`, and how many receivers were counted as disabled.
fn disabled(harness: &Harness) -> (State, u64) {
    (harness.subscription("m").state, harness.count(Metric::EndpointsDisabled))
}

#[test]
fn a_batch_s_failures_are_one_write_and_a_success_clears_them() {
    let mut harness = with_receiver();
    let failing_since = Some(harness.now());
    harness.will_answer("m", vec![answered(500); 13]);
    for (name, n, failures, effects) in [("first", 10, 10, 1), ("more", 3, 13, 2)] {
        send(&mut harness, name, n, ONCE);
        assert_eq!(health(&harness), Health { failures, failing_since });
        assert_eq!(harness.effects("failed"), effects);
        harness.pass(DAY);
    }
    // The second time there is nothing to forget.
    for name in ["well", "still-well"] {
        send(&mut harness, name, 10, ONCE);
        assert_eq!(health(&harness), Health::default());
        assert_eq!(harness.effects("recovered"), 1);
    }
}

#[test]
fn retried_attempts_count_and_the_attempt_that_succeeds_forgets_them() {
    let answers = vec![answered(500), answered(302), answered(404)];
    let mut harness = Harness::prepared(Whom::Hook, answers, "");
    harness.run_until(|it| it.posts_to("m") == 3 && it.state_of("m") == Some(ledger::State::Retrying));
    assert_eq!(health(&harness).failures, 3);
    harness.run();
    assert_eq!(harness.state_of("m"), Some(ledger::State::Sent));
    assert_eq!(health(&harness), Health::default());
}

#[test]
fn what_was_not_attempted_is_no_failure() {
    let mut harness = with_receiver();
    send(&mut harness, "header", 1, r#","headers":{"authorization":"x"}"#);
    send(&mut harness, "waits", 1, r#","deliver_at":"2026-11-21T13:00:00Z""#);
    for id in ["late-0", "late-1"] {
        harness.produce(&Harness::message_to("m", id, r#","ttl":60"#));
    }
    harness.pass(Duration::from_secs(61));
    harness.run();
    assert_eq!(health(&harness), Health::default());
    assert_eq!(harness.effects("failed"), 0);
}

#[test]
fn a_browser_s_failures_are_not_counted() {
    let harness = Harness::finished(Whom::Browser, vec![answered(500); 3], "");
    assert_eq!((harness.posts_to("m"), harness.effects("failed")), (4, 0));
}

#[test]
fn a_failure_to_count_holds_no_message_up() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut harness = Harness::new();
        let message = harness.message_for(Whom::Hook, ONCE);
        harness.will_answer("m", vec![answered(500)]);
        harness.memory.fail("failed", 1, kind);
        let id = harness.produce_in_bulk(&message);
        assert!(harness.acknowledges(&id), "{kind:?}");
        assert_eq!((harness.ended("m").0, harness.bodies()), (ledger::State::Failed, 1), "{kind:?}");
        assert_eq!(health(&harness), Health::default(), "{kind:?}");
    }
}

#[test]
fn the_410s_of_a_batch_switch_the_receiver_off_once_and_again_where_that_failed() {
    for (messages, failing, effects) in
        [(10, None, 1), (2, Some(PortErrorKind::Broken), 2), (2, Some(PortErrorKind::Throttled), 2)]
    {
        let mut harness = with_receiver();
        if let Some(kind) = failing {
            harness.memory.fail("switch_off", 1, kind);
        }
        harness.will_answer("m", vec![answered(410); messages]);
        send(&mut harness, "gone", messages, "");
        assert_eq!(disabled(&harness), (State::Disabled, 1), "{failing:?}");
        assert_eq!(harness.effects("switch_off"), effects, "{failing:?}");
        assert_eq!((harness.posts_to("m"), harness.bodies()), (messages, messages), "{failing:?}");
        assert_eq!(harness.dead_letters(Reason::Gone), messages as u64, "{failing:?}");
    }
}

#[test]
fn two_410s_of_one_browser_in_a_batch_switch_it_off_once() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(410); 2]);
    send(&mut harness, "gone", 2, "");
    assert_eq!((harness.effects("switch_off"), harness.posts_to("m")), (1, 2));
    assert_eq!(harness.subscription("m").state, State::Gone);
}

#[test]
fn a_receiver_that_fails_for_five_days_is_switched_off_by_its_next_dead_letter() {
    let mut harness = with_receiver();
    harness.state().usual_answer = Some(answered(500));
    send(&mut harness, "first", 1, ONCE);
    harness.pass(DAY * 5 - Duration::from_secs(1));
    send(&mut harness, "too-soon", 1, ONCE);
    assert_eq!(disabled(&harness), (State::Active, 0));
    harness.pass(Duration::from_secs(1));
    send(&mut harness, "last", 3, ONCE);
    assert_eq!(disabled(&harness), (State::Disabled, 1));
    assert_eq!(health(&harness).failures, 5, "what is known of it is kept");

    let posts = harness.posts_to("m");
    send(&mut harness, "next", 1, "");
    assert_eq!(harness.ended("next-0").1, Some(Reason::EndpointDisabled));
    assert_eq!((harness.posts_to("m"), disabled(&harness).1), (posts, 1));
}

#[test]
fn one_delivery_that_is_retried_for_five_days_is_enough() {
    for (max_retries, reason) in [(3, Reason::RetriesExhausted), (9, Reason::EndpointDisabled)] {
        let mut harness = with_receiver();
        harness.state().usual_answer = Some(retry_after(503, 172_800));
        send(&mut harness, "m", 1, &format!(r#","retry":{{"max_retries":{max_retries}}}"#));
        assert_eq!((harness.posts_to("m"), harness.ended("m-0").1), (4, Some(reason)), "{max_retries}");
        assert_eq!(disabled(&harness), (State::Disabled, 1), "{max_retries}");
    }
}

#[test]
fn a_success_in_between_begins_the_five_days_anew() {
    let mut harness = with_receiver();
    for day in 0..12 {
        harness.will_answer("m", vec![answered(if day % 4 == 3 { 200 } else { 500 })]);
        send(&mut harness, &format!("day{day}"), 1, ONCE);
        harness.pass(DAY);
    }
    assert_eq!(disabled(&harness), (State::Active, 0));
}

#[test]
fn a_success_or_another_address_after_the_dead_letter_saves_the_receiver() {
    for recovers in [true, false] {
        let mut harness = with_receiver();
        harness.will_answer("m", vec![answered(500); 2]);
        send(&mut harness, "first", 1, ONCE);
        harness.pass(DAY * 6);
        harness.produce(&Harness::message_to("m", "second", ONCE));
        harness.run_until(|it| it.dead_letters(Reason::RetriesExhausted) == 2);
        // Cleanup has not seen the second one yet.
        if recovers {
            harness.amend("m", |it| it.health = Health::default());
        } else {
            harness.redirect("m", "https://hooks.example/new");
        }
        harness.run();
        assert_eq!(health(&harness).is_given_up(harness.now(), DAY * 5), !recovers);
        assert_eq!(disabled(&harness), (State::Active, 0), "recovers: {recovers}");
    }
}

#[test]
fn where_giving_up_fails_cleanup_comes_again() {
    for name in ["disable", "subscription.get"] {
        let mut harness = with_receiver();
        harness.state().usual_answer = Some(answered(500));
        send(&mut harness, "first", 1, ONCE);
        harness.pass(DAY * 5);
        harness.memory.fail(name, 1, PortErrorKind::Throttled);
        send(&mut harness, "last", 1, ONCE);
        assert_eq!(disabled(&harness), (State::Disabled, 1), "{name}");
    }
}

#[test]
fn a_receiver_that_the_sdk_switches_off_twice_is_announced() {
    let mut harness = with_receiver();
    harness.state().has_events = true;
    harness.state().usual_answer = Some(answered(500));
    send(&mut harness, "first", 1, ONCE);
    harness.pass(DAY * 5);
    harness.state().made_twice = Some("disable");
    send(&mut harness, "last", 1, ONCE);
    assert_eq!(harness.subscription("m").state, State::Disabled);
    assert_eq!(harness.events.iter().filter(|event| event["state"] == "disabled").count(), 1);
}
