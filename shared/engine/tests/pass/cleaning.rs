//! After the end: endpoints that are gone, poison, waits that were forgotten, bodies whose time is over.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::ledger::State;
use redial_core::recipient::Recipient;
use redial_core::subscription::State as Standing;
use redial_engine::cleanup::Sweep;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::{answered, answered_with};

use crate::harness::Harness;

/// Longer than a window of the spike guard and its neighbour.
const WINDOWS: Duration = Duration::from_secs(900);

/// A tenant of `all` subscriptions, of which `gone` answer 410 to a message.
fn with_gone(all: u32, gone: u32) -> Harness {
    let mut harness = Harness::new();
    for at in 0..all {
        harness.subscribe(&format!("s{at}"));
    }
    for at in 0..gone {
        let id = format!("s{at}");
        harness.memory.state().answers.insert(Harness::endpoint(&id), vec![answered(410)]);
        harness.produce(&Harness::message(&id, ""));
    }
    harness.run();
    harness
}

#[test]
fn thirty_of_a_hundred_endpoints_are_quarantined_and_none_is_deleted() {
    let mut harness = with_gone(100, 30);
    harness.memory.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (30, 0));
    let state = harness.memory.state();
    assert_eq!(state.subscriptions.len(), 100);
    let quarantined = state.subscriptions.values().filter(|it| it.state == Standing::Quarantined).count();
    assert_eq!(quarantined, 30);
    // The log names whose they are, each once.
    let logged: BTreeSet<_> = state.quarantined.iter().map(|(key, _)| key.clone()).collect();
    let aside = state.subscriptions.values().filter(|it| it.state == Standing::Quarantined);
    assert_eq!(logged, aside.map(|it| it.key.clone()).collect());
    assert_eq!(state.quarantined.len(), 30);
    assert!(state.quarantined.iter().all(|(_, hash)| hash.starts_with("hmac:")));
}

#[test]
fn who_is_quarantined_is_told_though_the_sweep_dies_at_any_moment() {
    for effect in 1.. {
        let mut harness = with_gone(20, 12);
        harness.memory.pass(WINDOWS);
        harness.memory.revive();
        harness.memory.state().death = Some(Death::After(effect));
        harness.sweep(Sweep::Prune);
        let died = harness.memory.state().death.is_none();
        harness.memory.revive();
        harness.sweep(Sweep::Prune);
        let state = harness.memory.state();
        let logged: BTreeSet<_> = state.quarantined.iter().map(|(key, _)| &key.id).collect();
        assert_eq!(logged.len(), 12, "died after {effect} effects");
        if !died {
            assert!(effect > 24, "{effect}");
            return;
        }
    }
}

#[test]
fn three_of_a_thousand_endpoints_are_pruned() {
    let mut harness = with_gone(1000, 3);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0, "the window is not over");
    harness.memory.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (0, 3));
    assert_eq!(harness.memory.state().subscriptions.len(), 997);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0, "once is enough");
}

#[test]
fn whoever_subscribed_again_is_not_pruned() {
    let mut harness = with_gone(1, 1);
    let key = Harness::subscription_key("s0");
    {
        let mut state = harness.memory.state();
        let subscription = state.subscriptions.get_mut(&key).expect("stored");
        let Recipient::WebPush(target) = &mut subscription.recipient else { panic!("a browser") };
        target.endpoint = Endpoint::parse("https://push.example/new").expect("valid");
        subscription.state = Standing::Active;
    }
    harness.memory.pass(WINDOWS);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0);
    assert_eq!(harness.memory.state().subscriptions[&key].state, Standing::Active);
}

#[test]
fn a_404_prunes_only_when_another_confirms_it_an_hour_later() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let endpoint = Harness::endpoint("m");
    harness.memory.state().answers.insert(endpoint, vec![answered(404), answered(404), answered(404)]);
    let send = |harness: &mut Harness, id: &str| {
        harness.produce(&Harness::message("m", "").replace(r#""id":"m""#, &format!(r#""id":"{id}""#)));
        harness.run();
    };
    let standing = |harness: &Harness| {
        let state = harness.memory.state();
        let it = &state.subscriptions[&Harness::subscription_key("m")];
        (it.state, it.flagged_at.is_some())
    };
    send(&mut harness, "one");
    assert_eq!(standing(&harness), (Standing::Active, true));
    harness.memory.pass(Duration::from_secs(1800));
    send(&mut harness, "two");
    assert_eq!(standing(&harness), (Standing::Active, true), "too soon to tell");
    harness.memory.pass(Duration::from_secs(1900));
    send(&mut harness, "three");
    assert_eq!(standing(&harness).0, Standing::Gone);
}

#[test]
fn a_success_takes_the_flag_of_a_404_away() {
    let mut harness = Harness::with_push(vec![answered(404)], "").run_to_the_end();
    harness.produce(&Harness::message("m", "").replace(r#""id":"m""#, r#""id":"again""#));
    harness.run();
    let state = harness.memory.state();
    assert_eq!(state.subscriptions[&Harness::subscription_key("m")].flagged_at, None);
}

#[test]
fn the_sweep_releases_what_a_lost_execution_left_behind() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let answer = answered_with(429, &[("retry-after", "1800")]);
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answer]);
    harness.produce(&Harness::message("m", ""));
    harness.run_without_executions();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    assert!(harness.memory.state().registered.is_empty(), "drained buckets are forgotten");
}

#[test]
fn poison_is_kept_unless_its_delivery_has_moved_on() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.poison(&Harness::message("m", ""));
    harness.poison("\u{0}garbage");
    let lanes: Vec<_> = harness.memory.state().bodies.values().map(|body| body.lane).collect();
    assert_eq!(lanes, [None, None], "the quarantine does not tell where a message came from");

    let mut harness = Harness::with_push(vec![], "").run_to_the_end();
    harness.poison(&Harness::message("m", ""));
    assert!(harness.memory.state().bodies.is_empty(), "it was sent");

    harness.poison(r#"{"release":"w60-transactional-20261121T100500Z"}"#);
    let outbox = harness.memory.state().outbox.len();
    assert_eq!(outbox, 1, "a release is sent again");
}

#[test]
fn bodies_are_deleted_when_their_time_is_over() {
    let mut harness = Harness::with_push(vec![answered(400)], r#","ttl":600"#).run_to_the_end();
    assert_eq!(harness.sweep(Sweep::Bodies).bodies, 0);
    harness.memory.pass(Duration::from_secs(601));
    assert_eq!(harness.sweep(Sweep::Bodies).bodies, 1);
    let state = harness.memory.state();
    assert_eq!((state.bodies.len(), state.described.len()), (0, 1), "the description stays");
}
