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
use redial_engine::ports::Clock;
use redial_testkit::memory::PortErrorKind;
use redial_testkit::memory::sender::{answered, answered_with};

use crate::universe::Universe;

const ONCE: &str = r#","retry":{"max_retries":0}"#;
const DAY: Duration = Duration::from_secs(86_400);

/// A receiver `m`.
fn with_receiver() -> Universe {
    let universe = Universe::new();
    universe.subscribe_hook("m");
    universe
}

/// What `m` answers next; then it accepts again.
fn will_answer(universe: &Universe, answers: Vec<Outcome>) {
    universe.world.state().answers.insert(Universe::hook("m"), answers);
}

/// `n` messages to `m` in one batch, run to their ends.
fn send(universe: &mut Universe, name: &str, n: usize, fields: &str) {
    for at in 0..n {
        universe.produce(&Universe::message_to("m", &format!("{name}-{at}"), fields));
    }
    universe.run();
}

fn health(universe: &Universe) -> Health {
    universe.subscription("m").health
}

fn disabled(universe: &Universe) -> u64 {
    universe.world.state().counts.get(&Metric::EndpointsDisabled).copied().unwrap_or_default()
}

#[test]
fn the_failures_of_a_batch_are_counted_in_one_effect_and_the_first_success_forgets_them() {
    let mut universe = with_receiver();
    let start = universe.world.now();
    will_answer(&universe, vec![answered(500); 13]);
    send(&mut universe, "first", 10, ONCE);
    assert_eq!(health(&universe), Health { failures: 10, failing_since: Some(start) });
    assert_eq!(universe.effects("failed"), 1);

    universe.world.pass(DAY);
    send(&mut universe, "more", 3, ONCE);
    assert_eq!(health(&universe), Health { failures: 13, failing_since: Some(start) });
    assert_eq!(universe.effects("failed"), 2);

    send(&mut universe, "well", 10, ONCE);
    assert_eq!(health(&universe), Health::default());
    assert_eq!(universe.effects("recovered"), 1);
    send(&mut universe, "still-well", 10, ONCE);
    assert_eq!(universe.effects("recovered"), 1, "there is nothing to forget");
}

#[test]
fn retried_attempts_count_and_the_attempt_that_succeeds_forgets_them() {
    let mut universe = with_receiver();
    will_answer(&universe, vec![answered(500), answered(302), answered(404)]);
    universe.produce(&Universe::message("m", ""));
    universe.run_until(|it| it.posts_to("m") == 3 && it.state_of("m") == Some(State::Retrying));
    assert_eq!(health(&universe).failures, 3);
    universe.run();
    assert_eq!(universe.state_of("m"), Some(State::Sent));
    assert_eq!(health(&universe), Health::default());
}

#[test]
fn what_was_not_attempted_is_no_failure() {
    let mut universe = with_receiver();
    send(&mut universe, "header", 1, r#","headers":{"authorization":"x"}"#);
    send(&mut universe, "waits", 1, r#","deliver_at":"2026-11-21T13:00:00Z""#);
    for at in 0..2 {
        universe.produce(&Universe::message_to("m", &format!("late-{at}"), r#","ttl":60"#));
    }
    universe.world.pass(Duration::from_secs(61));
    universe.run();
    assert_eq!(health(&universe), Health::default());
    assert_eq!(universe.effects("failed"), 0);
}

#[test]
fn a_browser_s_failures_are_not_counted() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(500); 3]);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert_eq!((universe.posts_to("m"), universe.effects("failed")), (4, 0));
}

#[test]
fn a_failure_to_count_holds_no_message_up() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut universe = with_receiver();
        universe.world.fail("failed", 1, kind);
        will_answer(&universe, vec![answered(500)]);
        let id = universe.produce(&Universe::message("m", ONCE));
        let incoming = universe.incoming_of(&id);
        assert_eq!(universe.invoke_with(vec![incoming]), [""; 0], "{kind:?}");
        assert_eq!(universe.state_of("m"), Some(State::Failed), "{kind:?}");
        assert_eq!(universe.world.state().bodies.len(), 1, "{kind:?}");
        assert_eq!(health(&universe), Health::default(), "{kind:?}");
    }
}

#[test]
fn messages_whose_receiver_could_not_be_switched_off_come_back_until_it_is() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut universe = with_receiver();
        universe.world.fail("switch_off", 1, kind);
        will_answer(&universe, vec![answered(410); 2]);
        send(&mut universe, "gone", 2, "");
        assert_eq!(universe.subscription("m").state, Standing::Disabled, "{kind:?}");
        assert_eq!((universe.posts_to("m"), disabled(&universe)), (2, 1), "{kind:?}");
        assert_eq!(universe.world.state().bodies.len(), 2, "{kind:?}");
    }
}

#[test]
fn ten_410s_in_a_batch_switch_the_receiver_off_once() {
    let mut universe = with_receiver();
    will_answer(&universe, vec![answered(410); 10]);
    send(&mut universe, "gone", 10, "");
    assert_eq!(universe.subscription("m").state, Standing::Disabled);
    assert_eq!((universe.effects("switch_off"), disabled(&universe)), (1, 1));
    assert_eq!(universe.world.state().dead_letters.get(&Reason::Gone), Some(&10));
}

#[test]
fn two_410s_of_one_browser_in_a_batch_switch_it_off_once() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(410); 2]);
    send(&mut universe, "gone", 2, "");
    assert_eq!((universe.effects("switch_off"), universe.posts_to("m")), (1, 2));
    assert_eq!(universe.subscription("m").state, Standing::Gone);
}

#[test]
fn a_receiver_that_fails_for_five_days_is_switched_off_by_its_next_dead_letter() {
    let mut universe = with_receiver();
    universe.world.state().usual_answer = Some(answered(500));
    send(&mut universe, "first", 1, ONCE);
    universe.world.pass(DAY * 5 - Duration::from_secs(1));
    send(&mut universe, "too-soon", 1, ONCE);
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Active, 0));
    universe.world.pass(Duration::from_secs(1));
    send(&mut universe, "last", 3, ONCE);
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Disabled, 1));
    assert_eq!(health(&universe).failures, 5, "what is known of it is kept");

    let posts = universe.posts_to("m");
    send(&mut universe, "next", 1, "");
    assert_eq!(universe.entry("next-0").expect("in the ledger").reason, Some(Reason::EndpointDisabled));
    assert_eq!((universe.posts_to("m"), disabled(&universe)), (posts, 1));
}

#[test]
fn one_delivery_that_is_retried_for_five_days_is_enough() {
    let mut universe = with_receiver();
    universe.world.state().usual_answer = Some(answered_with(503, &[("retry-after", "172800")]));
    send(&mut universe, "m", 1, r#","retry":{"max_retries":3}"#);
    assert_eq!(universe.posts_to("m"), 4);
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Disabled, 1));
}

#[test]
fn a_success_in_between_begins_the_five_days_anew() {
    let mut universe = with_receiver();
    for day in 0..12 {
        let well = day % 4 == 3;
        will_answer(&universe, vec![answered(if well { 200 } else { 500 })]);
        send(&mut universe, &format!("day{day}"), 1, ONCE);
        universe.world.pass(DAY);
    }
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Active, 0));
}

#[test]
fn a_success_after_the_dead_letter_saves_the_receiver() {
    let mut universe = with_receiver();
    will_answer(&universe, vec![answered(500); 2]);
    send(&mut universe, "first", 1, ONCE);
    universe.world.pass(DAY * 6);
    universe.produce(&Universe::message_to("m", "second", ONCE));
    let letters = |it: &Universe| it.world.state().dead_letters.values().sum::<u64>();
    universe.run_until(|it| letters(it) == 2);
    // Cleanup has not seen the second one yet.
    universe.amend("m", |it| it.health = Health::default());
    universe.run();
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Active, 0));
}

#[test]
fn a_dead_letter_of_an_address_that_was_replaced_switches_the_new_one_not_off() {
    let mut universe = with_receiver();
    will_answer(&universe, vec![answered(500); 2]);
    send(&mut universe, "first", 1, ONCE);
    universe.world.pass(DAY * 6);
    universe.produce(&Universe::message_to("m", "second", ONCE));
    let letters = |it: &Universe| it.world.state().dead_letters.values().sum::<u64>();
    universe.run_until(|it| letters(it) == 2);
    universe.amend("m", |it| {
        let Recipient::Webhook(target) = &mut it.recipient else { panic!("a webhook") };
        target.endpoint = Endpoint::parse("https://hooks.example/new").expect("valid");
    });
    universe.run();
    assert!(health(&universe).is_given_up(universe.world.now(), DAY * 5), "only its address tells");
    assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Active, 0));
}

#[test]
fn where_giving_up_fails_cleanup_comes_again() {
    for name in ["disable", "subscription.get"] {
        let mut universe = with_receiver();
        universe.world.state().usual_answer = Some(answered(500));
        send(&mut universe, "first", 1, ONCE);
        universe.world.pass(DAY * 5);
        universe.world.fail(name, 1, PortErrorKind::Throttled);
        send(&mut universe, "last", 1, ONCE);
        assert_eq!((universe.subscription("m").state, disabled(&universe)), (Standing::Disabled, 1));
    }
}
