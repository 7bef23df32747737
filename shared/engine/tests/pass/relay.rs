//! Events by the stack's own queue: each target gets each event at least once, whatever dies or fails on the way.

use std::collections::BTreeSet;

use redial_core::metric::Metric;
use redial_core::outcome::Outcome;
use redial_core::targets::Targets;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};
use serde_json::Value;

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom};

const BOTH: Targets = Targets { queue: true, bus: true, callbacks: false };

/// A stack whose events are relayed like this.
fn relaying(targets: Targets, answers: Vec<Outcome>, fields: &str) -> Harness {
    let mut harness = Harness::prepared(Whom::Browser, answers, fields);
    harness.state().has_events = true;
    harness.cleanup.settings.targets = targets;
    harness
}

fn on_the_bus(harness: &Harness) -> Vec<Value> {
    let state = harness.state();
    state.bus.iter().map(|event| serde_json::from_str(&event.detail).expect("JSON")).collect()
}

fn texts(events: &[Value]) -> BTreeSet<String> {
    events.iter().map(Value::to_string).collect()
}

/// A message whose receiver answers like this, and whose event the bus refuses so often at first.
fn both_get_its_end_though_workers_die(answers: &[Outcome], refusals: usize) {
    let run = |death: Option<Death>| {
        let harness = relaying(BOTH, answers.to_vec(), r#","ref":"order 17""#);
        harness.memory.fail("put_events", refusals, PortErrorKind::Throttled);
        harness.state().death = death;
        harness.run_to_the_end()
    };
    let whole = run(None);
    assert_eq!((whole.events.len(), on_the_bus(&whole)), (1, whole.events.clone()));
    kill_at_every_effect(run, |harness, _, case| {
        assert!(!harness.events.is_empty(), "{case}");
        assert_eq!(texts(&harness.events), texts(&on_the_bus(harness)), "{case}");
        assert_eq!(texts(&harness.events).len(), 1, "{case}");
        assert_eq!(harness.events[0]["state"], harness.entry("m").expect("recorded").state.label());
    });
}

#[test]
fn every_target_gets_every_end_though_workers_die() {
    for answers in [vec![], vec![answered(503), answered(201)], vec![answered(400)], vec![answered(410)]] {
        both_get_its_end_though_workers_die(&answers, 0);
    }
}

#[test]
fn events_go_only_where_there_is_a_target() {
    for (targets, to_queue, to_bus) in
        [(Targets { bus: false, ..BOTH }, 1, 0), (Targets { queue: false, ..BOTH }, 0, 1), (BOTH, 1, 1)]
    {
        let harness = relaying(targets, vec![], "").run_to_the_end();
        assert_eq!((harness.events.len(), harness.state().bus.len()), (to_queue, to_bus), "{targets}");
    }
}

#[test]
fn a_target_that_refuses_an_event_gets_it_later_and_the_other_does_not_wait() {
    for kind in [PortErrorKind::Throttled, PortErrorKind::Broken, PortErrorKind::Lost] {
        let mut harness = relaying(BOTH, vec![], "");
        harness.memory.fail("put_events", 3, kind);
        harness.run_until(|harness| !harness.events.is_empty());
        assert_eq!(harness.state().bus.len(), usize::from(kind == PortErrorKind::Lost), "{kind:?}");
        harness.run();
        assert_eq!(texts(&on_the_bus(&harness)), texts(&harness.events), "{kind:?}");
        let on_the_bus = if kind == PortErrorKind::Lost { 4 } else { 1 };
        let bus = harness.state().bus.len();
        let failures = harness.count(Metric::CleanupFailures);
        assert_eq!((harness.events.len(), bus, failures), (1, on_the_bus, 3), "{kind:?}");
    }
}

#[test]
fn what_some_of_its_targets_lack_reaches_them_though_workers_die() {
    both_get_its_end_though_workers_die(&[], 2);
}

#[test]
fn an_event_for_the_rest_of_its_targets_that_cannot_be_sent_comes_back_whole() {
    // No tenant has a callback, so they have it without a call.
    let mut harness = relaying(Targets { queue: false, bus: true, callbacks: true }, vec![], "");
    harness.run();
    harness.memory.fail("put_events", 1, PortErrorKind::Throttled);
    harness.memory.fail("send", 1, PortErrorKind::Throttled);
    harness.announce(r#"{"tenant":"acme","id":"m2","state":"sent","at":"2026-11-21T10:05:00.000Z"}"#);
    harness.run();
    assert_eq!(harness.state().failing["send"].0, 0, "it was tried");
    assert_eq!(harness.state().bus.len(), 2);
}

#[test]
fn a_target_that_a_stack_no_longer_has_is_given_nothing() {
    let mut harness = relaying(BOTH, vec![], "");
    harness.memory.fail("put_events", 1, PortErrorKind::Throttled);
    harness.run_until(|harness| !harness.events.is_empty());
    harness.cleanup.settings.targets.bus = false;
    harness.run();
    assert_eq!((harness.events.len(), harness.state().bus.len()), (1, 0));
}

#[test]
fn what_is_no_event_is_kept_as_a_dead_letter_and_holds_no_event_up() {
    let mut harness = relaying(BOTH, vec![], "");
    harness.announce("no event");
    harness.run();
    assert_eq!((harness.events.len(), on_the_bus(&harness).len(), harness.bodies()), (1, 1, 1));
    let reasons: Vec<String> = harness.state().described.values().map(|it| it.reason.clone()).collect();
    assert_eq!(reasons, ["poison"]);
}
