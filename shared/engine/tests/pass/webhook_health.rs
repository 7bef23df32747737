//! The health of webhooks' receivers: what is counted, what forgets it, and who is switched off.

use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::Outcome;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::State as Standing;
use redial_core::webhook::Health;
use redial_testkit::memory::PortErrorKind;
use redial_testkit::memory::sender::{answered, answered_with};

use crate::harness::Harness;

const ONCE: &str = r#","retry":{"max_retries":0}"#;
const DAY: Duration = Duration::from_secs(86_400);

/// A receiver `m`.
fn with_receiver() -> Harness {
    let harness = Harness::new();
    harness.subscribe_hook("m");
    harness
}

/// What `m` answers next; then it accepts again.
fn will_answer(harness: &Harness, answers: Vec<Outcome>) {
    harness.memory.state().answers.insert(Harness::hook("m"), answers);
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

fn disabled(harness: &Harness) -> u64 {
    harness.memory.state().counts.get(&Metric::EndpointsDisabled).copied().unwrap_or_default()
}

#[test]
fn the_failures_of_a_batch_are_counted_in_one_effect_and_the_first_success_forgets_them() {
    let mut harness = with_receiver();
    let start = harness.now();
    will_answer(&harness, vec![answered(500); 13]);
    send(&mut harness, "first", 10, ONCE);
    assert_eq!(health(&harness), Health { failures: 10, failing_since: Some(start) });
    assert_eq!(harness.effects("failed"), 1);

    harness.memory.pass(DAY);
    send(&mut harness, "more", 3, ONCE);
    assert_eq!(health(&harness), Health { failures: 13, failing_since: Some(start) });
    assert_eq!(harness.effects("failed"), 2);

    send(&mut harness, "well", 10, ONCE);
    assert_eq!(health(&harness), Health::default());
    assert_eq!(harness.effects("recovered"), 1);
    send(&mut harness, "still-well", 10, ONCE);
    assert_eq!(harness.effects("recovered"), 1, "there is nothing to forget");
}

#[test]
fn retried_attempts_count_and_the_attempt_that_succeeds_forgets_them() {
    let mut harness = with_receiver();
    will_answer(&harness, vec![answered(500), answered(302), answered(404)]);
    harness.produce(&Harness::message("m", ""));
    harness.run_until(|it| it.posts_to("m") == 3 && it.state_of("m") == Some(State::Retrying));
    assert_eq!(health(&harness).failures, 3);
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    assert_eq!(health(&harness), Health::default());
}

#[test]
fn what_was_not_attempted_is_no_failure() {
    let mut harness = with_receiver();
    send(&mut harness, "header", 1, r#","headers":{"authorization":"x"}"#);
    send(&mut harness, "waits", 1, r#","deliver_at":"2026-11-21T13:00:00Z""#);
    for at in 0..2 {
        harness.produce(&Harness::message_to("m", &format!("late-{at}"), r#","ttl":60"#));
    }
    harness.memory.pass(Duration::from_secs(61));
    harness.run();
    assert_eq!(health(&harness), Health::default());
    assert_eq!(harness.effects("failed"), 0);
}

#[test]
fn a_browser_s_failures_are_not_counted() {
    let harness = Harness::with_push(vec![answered(500); 3], "").run_to_the_end();
    assert_eq!((harness.posts_to("m"), harness.effects("failed")), (4, 0));
}

#[test]
fn a_failure_to_count_holds_no_message_up() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut harness = with_receiver();
        harness.memory.fail("failed", 1, kind);
        will_answer(&harness, vec![answered(500)]);
        let id = harness.produce(&Harness::message("m", ONCE));
        let incoming = harness.incoming_of(&id);
        assert_eq!(harness.invoke_with(vec![incoming]), [""; 0], "{kind:?}");
        assert_eq!(harness.state_of("m"), Some(State::Failed), "{kind:?}");
        assert_eq!(harness.memory.state().bodies.len(), 1, "{kind:?}");
        assert_eq!(health(&harness), Health::default(), "{kind:?}");
    }
}

#[test]
fn messages_whose_receiver_could_not_be_switched_off_come_back_until_it_is() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut harness = with_receiver();
        harness.memory.fail("switch_off", 1, kind);
        will_answer(&harness, vec![answered(410); 2]);
        send(&mut harness, "gone", 2, "");
        assert_eq!(harness.subscription("m").state, Standing::Disabled, "{kind:?}");
        assert_eq!((harness.posts_to("m"), disabled(&harness)), (2, 1), "{kind:?}");
        assert_eq!(harness.memory.state().bodies.len(), 2, "{kind:?}");
    }
}

#[test]
fn ten_410s_in_a_batch_switch_the_receiver_off_once() {
    let mut harness = with_receiver();
    will_answer(&harness, vec![answered(410); 10]);
    send(&mut harness, "gone", 10, "");
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    assert_eq!((harness.effects("switch_off"), disabled(&harness)), (1, 1));
    assert_eq!(harness.memory.state().dead_letters.get(&Reason::Gone), Some(&10));
}

#[test]
fn two_410s_of_one_browser_in_a_batch_switch_it_off_once() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(410); 2]);
    send(&mut harness, "gone", 2, "");
    assert_eq!((harness.effects("switch_off"), harness.posts_to("m")), (1, 2));
    assert_eq!(harness.subscription("m").state, Standing::Gone);
}

#[test]
fn a_receiver_that_fails_for_five_days_is_switched_off_by_its_next_dead_letter() {
    let mut harness = with_receiver();
    harness.memory.state().usual_answer = Some(answered(500));
    send(&mut harness, "first", 1, ONCE);
    harness.memory.pass(DAY * 5 - Duration::from_secs(1));
    send(&mut harness, "too-soon", 1, ONCE);
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Active, 0));
    harness.memory.pass(Duration::from_secs(1));
    send(&mut harness, "last", 3, ONCE);
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Disabled, 1));
    assert_eq!(health(&harness).failures, 5, "what is known of it is kept");

    let posts = harness.posts_to("m");
    send(&mut harness, "next", 1, "");
    assert_eq!(harness.entry("next-0").expect("in the ledger").reason, Some(Reason::EndpointDisabled));
    assert_eq!((harness.posts_to("m"), disabled(&harness)), (posts, 1));
}

#[test]
fn one_delivery_that_is_retried_for_five_days_is_enough() {
    let mut harness = with_receiver();
    harness.memory.state().usual_answer = Some(answered_with(503, &[("retry-after", "172800")]));
    send(&mut harness, "m", 1, r#","retry":{"max_retries":3}"#);
    assert_eq!(harness.posts_to("m"), 4);
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Disabled, 1));
}

#[test]
fn a_success_in_between_begins_the_five_days_anew() {
    let mut harness = with_receiver();
    for day in 0..12 {
        let well = day % 4 == 3;
        will_answer(&harness, vec![answered(if well { 200 } else { 500 })]);
        send(&mut harness, &format!("day{day}"), 1, ONCE);
        harness.memory.pass(DAY);
    }
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Active, 0));
}

#[test]
fn a_success_after_the_dead_letter_saves_the_receiver() {
    let mut harness = with_receiver();
    will_answer(&harness, vec![answered(500); 2]);
    send(&mut harness, "first", 1, ONCE);
    harness.memory.pass(DAY * 6);
    harness.produce(&Harness::message_to("m", "second", ONCE));
    let dead_letters = |it: &Harness| it.memory.state().dead_letters.values().sum::<u64>();
    harness.run_until(|it| dead_letters(it) == 2);
    // Cleanup has not seen the second one yet.
    harness.amend("m", |it| it.health = Health::default());
    harness.run();
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Active, 0));
}

#[test]
fn a_dead_letter_of_an_address_that_was_replaced_switches_the_new_one_not_off() {
    let mut harness = with_receiver();
    will_answer(&harness, vec![answered(500); 2]);
    send(&mut harness, "first", 1, ONCE);
    harness.memory.pass(DAY * 6);
    harness.produce(&Harness::message_to("m", "second", ONCE));
    let dead_letters = |it: &Harness| it.memory.state().dead_letters.values().sum::<u64>();
    harness.run_until(|it| dead_letters(it) == 2);
    harness.amend("m", |it| {
        let Recipient::Webhook(target) = &mut it.recipient else { panic!("a webhook") };
        target.endpoint = Endpoint::parse("https://hooks.example/new").expect("valid");
    });
    harness.run();
    assert!(health(&harness).is_given_up(harness.now(), DAY * 5), "only its address tells");
    assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Active, 0));
}

#[test]
fn where_giving_up_fails_cleanup_comes_again() {
    for name in ["disable", "subscription.get"] {
        let mut harness = with_receiver();
        harness.memory.state().usual_answer = Some(answered(500));
        send(&mut harness, "first", 1, ONCE);
        harness.memory.pass(DAY * 5);
        harness.memory.fail(name, 1, PortErrorKind::Throttled);
        send(&mut harness, "last", 1, ONCE);
        assert_eq!((harness.subscription("m").state, disabled(&harness)), (Standing::Disabled, 1));
    }
}
