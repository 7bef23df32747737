//! Erasing: what comes up afterwards is dropped or stored nowhere, and no success pays for that.

use redial_core::dead_letter::{DeadLetterKey, Kind, Reference};
use redial_core::erasure::Subject;
use redial_core::identity::Lineage;
use redial_core::ledger::State;
use redial_core::message::ProducerRef;
use redial_core::reason::Reason;
use redial_memory::senders::answered;

use crate::harness::{Harness, Whom, tenant};
use crate::scenarios::retry_after;

const REF: &str = r#","ref":"user 7""#;
const LATER: &str = r#","ref":"user 7","deliver_at":"2026-11-21T13:00:00Z""#;

fn erase_subscription(harness: &Harness, id: &str) {
    let key = Harness::subscription_key(id);
    let mut state = harness.state();
    state.subscriptions.remove(&key);
    state.erased.insert(Subject::Subscription(key));
}

fn erase_ref(harness: &Harness) {
    let text = ProducerRef::parse("user 7").expect("valid");
    harness.state().erased.insert(Subject::Ref(tenant(), text));
}

/// Nothing was posted, and nothing is stored of the message.
#[track_caller]
fn assert_nothing(harness: &Harness, case: &str) {
    assert_eq!(harness.posts_to("m"), 0, "{case}");
    assert!(harness.entry("m").is_none(), "{case}: it has an entry");
    let state = harness.state();
    assert!(state.parked.is_empty() && state.bodies.is_empty() && state.described.is_empty(), "{case}");
    drop(state);
    assert!(harness.queued().is_empty() && harness.redriven.is_empty(), "{case}: it still waits");
}

#[test]
fn a_message_to_an_erased_subscription_is_dropped() {
    for fields in ["", REF, LATER] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        erase_subscription(&harness, "m");
        harness.produce(&Harness::message("m", fields));
        harness.run();
        assert_nothing(&harness, fields);
    }
}

#[test]
fn a_retry_to_an_erased_subscription_is_dropped() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503)], "");
    harness.run_until(|harness| harness.state_of("m") == Some(State::Retrying));
    // The search has removed the entry.
    erase_subscription(&harness, "m");
    harness.state().ledger.remove(&Harness::key("m"));
    harness.run();
    assert_eq!(harness.posts_to("m"), 1);
    assert!(harness.entry("m").is_none() && harness.queued().is_empty());
}

#[test]
fn a_subscription_that_is_stored_again_is_sent_to() {
    let mut harness = Harness::new();
    erase_subscription(&harness, "m");
    harness.state().erased.clear();
    harness.subscribe("m");
    harness.deliver(&Harness::message("m", ""));
    assert_eq!(harness.ended("m"), (State::Sent, None));
}

#[test]
fn what_has_an_erased_ref_is_neither_parked_nor_kept_as_a_dead_letter() {
    let parked = || Harness::prepared(Whom::Browser, vec![], LATER);
    let waits = || Harness::prepared(Whom::Browser, vec![retry_after(503, 3_600)], REF);
    let fails = || Harness::prepared(Whom::Browser, vec![answered(400)], REF);
    for (case, prepared) in
        [("scheduled", &parked as &dyn Fn() -> Harness), ("waits", &waits), ("fails", &fails)]
    {
        let mut harness = prepared();
        erase_ref(&harness);
        harness.run();
        let state = harness.state();
        assert!(state.parked.is_empty() && state.bodies.is_empty(), "{case}");
        assert!(
            !state.trace.contains(&"park") && !state.trace.contains(&"bodies.put"),
            "{case}: {:?}",
            state.trace
        );
        let described: Vec<_> =
            state.described.values().map(|it| it.detail.clone().unwrap_or_default()).collect();
        assert_eq!(described.len(), usize::from(case == "fails"), "{case}");
        assert!(described.iter().all(|it| it.contains("its ref was erased")), "{described:?}");
    }
}

#[test]
fn a_success_reads_no_mark() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], REF);
    erase_ref(&harness);
    harness.run();
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert_eq!(harness.effects("erased"), 0);
}

#[test]
fn the_quarantine_keeps_nothing_that_was_erased() {
    for erase in [&(|harness: &Harness| erase_subscription(harness, "m")) as &dyn Fn(&Harness), &erase_ref] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        erase(&harness);
        harness.poison(&Harness::message("m", REF));
        assert_nothing(&harness, "in the quarantine");
    }
}

#[test]
fn a_reference_that_comes_after_the_erasure_is_not_described() {
    let harness = Harness::new();
    let key = DeadLetterKey::of_delivery(&tenant(), &Harness::key("m").id, Lineage::default());
    let reference = Reference {
        subscription: Some("m".to_owned()),
        ..Reference::new(&key, Kind::Failed, Reason::Rejected, harness.now(), harness.now())
    };
    erase_subscription(&harness, "m");
    harness.clean_reference(&reference.to_body());
    assert!(harness.state().described.is_empty());
    harness.state().erased.clear();
    harness.clean_reference(&reference.to_body());
    assert_eq!(harness.state().described.len(), 1);
}
