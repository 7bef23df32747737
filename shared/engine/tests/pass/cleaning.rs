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

use crate::universe::Universe;

/// Longer than a window of the spike guard and its neighbour.
const WINDOWS: Duration = Duration::from_secs(900);

/// A tenant of `all` subscriptions, of which `gone` answer 410 to a message.
fn with_gone(all: u32, gone: u32) -> Universe {
    let mut universe = Universe::new();
    for at in 0..all {
        universe.subscribe(&format!("s{at}"));
    }
    for at in 0..gone {
        let id = format!("s{at}");
        universe.world.state().answers.insert(Universe::endpoint(&id), vec![answered(410)]);
        universe.produce(&Universe::message(&id, ""));
    }
    universe.run();
    universe
}

#[test]
fn thirty_of_a_hundred_endpoints_are_quarantined_and_none_is_deleted() {
    let mut universe = with_gone(100, 30);
    universe.world.pass(WINDOWS);
    let swept = universe.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (30, 0));
    let state = universe.world.state();
    assert_eq!(state.subscriptions.len(), 100);
    let quarantined = state.subscriptions.values().filter(|it| it.state == Standing::Quarantined).count();
    assert_eq!(quarantined, 30);
    // It is told whose they are, each once.
    let told: BTreeSet<_> = state.quarantined.iter().map(|(key, _)| key.clone()).collect();
    let aside = state.subscriptions.values().filter(|it| it.state == Standing::Quarantined);
    assert_eq!(told, aside.map(|it| it.key.clone()).collect());
    assert_eq!(state.quarantined.len(), 30);
    assert!(state.quarantined.iter().all(|(_, hash)| hash.starts_with("hmac:")));
}

#[test]
fn who_is_quarantined_is_told_though_the_sweep_dies_at_any_moment() {
    for effect in 1.. {
        let mut universe = with_gone(20, 12);
        universe.world.pass(WINDOWS);
        universe.world.revive();
        universe.world.state().death = Some(Death::After(effect));
        universe.sweep(Sweep::Prune);
        let died = universe.world.state().death.is_none();
        universe.world.revive();
        universe.sweep(Sweep::Prune);
        let state = universe.world.state();
        let told: BTreeSet<_> = state.quarantined.iter().map(|(key, _)| &key.id).collect();
        assert_eq!(told.len(), 12, "died after {effect} effects");
        if !died {
            assert!(effect > 24, "{effect}");
            return;
        }
    }
}

#[test]
fn three_of_a_thousand_endpoints_are_pruned() {
    let mut universe = with_gone(1000, 3);
    assert_eq!(universe.sweep(Sweep::Prune).pruned, 0, "the window is not over");
    universe.world.pass(WINDOWS);
    let swept = universe.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (0, 3));
    assert_eq!(universe.world.state().subscriptions.len(), 997);
    assert_eq!(universe.sweep(Sweep::Prune).pruned, 0, "once is enough");
}

#[test]
fn whoever_subscribed_again_is_not_pruned() {
    let mut universe = with_gone(1, 1);
    let key = Universe::subscription_key("s0");
    {
        let mut state = universe.world.state();
        let subscription = state.subscriptions.get_mut(&key).expect("stored");
        let Recipient::WebPush(target) = &mut subscription.recipient else { panic!("a browser") };
        target.endpoint = Endpoint::parse("https://push.example/new").expect("valid");
        subscription.state = Standing::Active;
    }
    universe.world.pass(WINDOWS);
    assert_eq!(universe.sweep(Sweep::Prune).pruned, 0);
    assert_eq!(universe.world.state().subscriptions[&key].state, Standing::Active);
}

#[test]
fn a_404_prunes_only_when_another_confirms_it_an_hour_later() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    let endpoint = Universe::endpoint("m");
    universe.world.state().answers.insert(endpoint, vec![answered(404), answered(404), answered(404)]);
    let send = |universe: &mut Universe, id: &str| {
        universe.produce(&Universe::message("m", "").replace(r#""id":"m""#, &format!(r#""id":"{id}""#)));
        universe.run();
    };
    let standing = |universe: &Universe| {
        let state = universe.world.state();
        let it = &state.subscriptions[&Universe::subscription_key("m")];
        (it.state, it.flagged_at.is_some())
    };
    send(&mut universe, "one");
    assert_eq!(standing(&universe), (Standing::Active, true));
    universe.world.pass(Duration::from_secs(1800));
    send(&mut universe, "two");
    assert_eq!(standing(&universe), (Standing::Active, true), "too soon to tell");
    universe.world.pass(Duration::from_secs(1900));
    send(&mut universe, "three");
    assert_eq!(standing(&universe).0, Standing::Gone);
}

#[test]
fn a_success_takes_the_flag_of_a_404_away() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(404)]);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    universe.produce(&Universe::message("m", "").replace(r#""id":"m""#, r#""id":"again""#));
    universe.run();
    let state = universe.world.state();
    assert_eq!(state.subscriptions[&Universe::subscription_key("m")].flagged_at, None);
}

#[test]
fn the_sweep_releases_what_a_lost_execution_left_behind() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    let answer = answered_with(429, &[("retry-after", "1800")]);
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answer]);
    universe.produce(&Universe::message("m", ""));
    universe.run_without_executions();
    assert_eq!(universe.state_of("m"), Some(State::Sent));
    assert!(universe.world.state().registered.is_empty(), "drained buckets are forgotten");
}

#[test]
fn poison_is_kept_unless_its_delivery_has_moved_on() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.poison(&Universe::message("m", ""));
    universe.poison("\u{0}garbage");
    let lanes: Vec<_> = universe.world.state().bodies.values().map(|body| body.lane).collect();
    assert_eq!(lanes, [None, None], "the quarantine does not tell where a message came from");

    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.produce(&Universe::message("m", ""));
    universe.run();
    universe.poison(&Universe::message("m", ""));
    assert!(universe.world.state().bodies.is_empty(), "it was sent");

    universe.poison(r#"{"release":"w60-transactional-20261121T100500Z"}"#);
    let outbox = universe.world.state().outbox.len();
    assert_eq!(outbox, 1, "a release is sent again");
}

#[test]
fn bodies_are_deleted_when_their_time_is_over() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(400)]);
    universe.produce(&Universe::message("m", r#","ttl":600"#));
    universe.run();
    assert_eq!(universe.sweep(Sweep::Bodies).bodies, 0);
    universe.world.pass(Duration::from_secs(601));
    assert_eq!(universe.sweep(Sweep::Bodies).bodies, 1);
    let state = universe.world.state();
    assert_eq!((state.bodies.len(), state.described.len()), (0, 1), "the description stays");
}
