//! Events for producers: one for every end at least once, whatever dies in between, and with the same content when it is repeated.

use std::time::Duration;

use redial_core::ledger;
use redial_core::reason::Reason;
use redial_core::subscription::State;
use redial_core::webhook::Health;
use redial_engine::cleanup::Sweep;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};
use serde_json::{Value, json};

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom};
use crate::scenarios::to_all;

fn listening() -> Harness {
    let harness = Harness::new();
    harness.state().has_events = true;
    harness
}

/// The events of deliveries.
fn ends(harness: &Harness) -> Vec<&Value> {
    harness.events.iter().filter(|event| !event["id"].is_null()).collect()
}

#[test]
fn every_end_is_announced_with_the_producer_s_reference_though_workers_die() {
    for scenario in to_all() {
        let run = |death| {
            let fields = format!(r#"{},"ref":"order 17""#, scenario.fields);
            let harness = Harness::prepared(scenario.to, scenario.answers.clone(), &fields);
            harness.state().has_events = true;
            harness.state().death = death;
            harness.run_to_the_end()
        };
        assert_eq!(ends(&run(None)).len(), 1, "{}", scenario.name);
        kill_at_every_effect(run, |harness, _, case| {
            let case = format!("{}, {case}", scenario.name);
            let entry = harness.entry("m").expect("in the ledger");
            let ends = ends(harness);
            let last = *ends.last().unwrap_or_else(|| panic!("{case}: no event"));
            assert!(ends.iter().all(|event| *event == last), "{case}: {ends:?}");
            assert_eq!((&last["id"], &last["ref"]), (&json!("m"), &json!("order 17")), "{case}");
            assert_eq!(last["state"], json!(entry.state.label()), "{case}");
            assert_eq!(last["reason"], json!(entry.reason.map(Reason::label)), "{case}");
            assert_eq!(last["at"], json!(entry.updated_at.to_rfc3339()), "{case}");
            if harness.ended("m") == (ledger::State::Failed, Some(Reason::Gone)) {
                let off = harness.events.iter().filter(|event| event["state"] == "disabled").count();
                assert!(off >= usize::from(scenario.to != Whom::Address), "{case}");
            }
        });
    }
}

#[test]
fn a_message_whose_event_cannot_be_sent_is_not_acknowledged() {
    let mut harness = listening();
    harness.memory.fail("send", 3, PortErrorKind::Throttled);
    harness.push("m", "");
    harness.run();
    assert_eq!((harness.posts_to("m"), ends(&harness).len()), (1, 1));
}

#[test]
fn without_a_queue_of_events_nothing_is_sent() {
    let harness = Harness::finished(Whom::Browser, vec![], "");
    assert_eq!((harness.events.len(), harness.effects("send")), (0, 0));
}

/// A subscription whose endpoint is gone, up to the end of its window.
fn gone_and_watched() -> Harness {
    let mut harness = listening();
    harness.will_answer("m", vec![answered(410)]);
    harness.push("m", "");
    harness.run();
    harness.pass(Duration::from_secs(900));
    harness.memory.revive();
    harness
}

/// The events of subscriptions, after everything that was sent has arrived.
fn of_subscriptions(harness: &mut Harness) -> Vec<Value> {
    harness.run();
    harness.events.iter().filter(|event| event["id"].is_null()).cloned().collect()
}

#[test]
fn a_removed_subscription_is_announced_also_when_the_sweep_dies() {
    let mut whole = gone_and_watched();
    assert_eq!(whole.sweep(Sweep::Prune).pruned, 1);
    let trace = whole.state().trace.clone();
    let [event] = &of_subscriptions(&mut whole)[..] else { panic!("{:?}", whole.events) };
    assert_eq!((&event["subscription"], &event["state"]), (&json!("m"), &json!("pruned")));

    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let mut harness = gone_and_watched();
            harness.will_die(death);
            harness.sweep(Sweep::Prune);
            harness.sweep(Sweep::Prune);
            let events = of_subscriptions(&mut harness);
            let [first, ..] = &events[..] else { panic!("{death:?} of {trace:?}") };
            assert_eq!(first["state"], "pruned", "{death:?}");
            assert!(events.iter().all(|event| event == first), "{death:?}: {events:?}");
        }
    }
}

#[test]
fn the_removal_of_a_user_who_subscribed_again_is_not_announced() {
    let mut harness = gone_and_watched();
    harness.redirect("m", "https://push.example/other");
    harness.amend("m", |it| it.state = State::Active);
    harness.sweep(Sweep::Prune);
    assert!(of_subscriptions(&mut harness).is_empty());
}

#[test]
fn a_receiver_that_failed_for_days_is_announced_when_it_is_switched_off() {
    let mut harness = listening();
    harness.subscribe_hook("m");
    let failing_since = Some(harness.now().minus(Duration::from_secs(6 * 86_400)));
    harness.amend("m", |it| it.health = Health { failures: 9, failing_since });
    harness.state().usual_answer = Some(answered(500));
    harness.produce(&Harness::message("m", r#","retry":"web-push""#));
    let events = of_subscriptions(&mut harness);
    assert_eq!(harness.subscription("m").state, State::Disabled);
    assert_eq!(events.iter().map(|event| event["state"].as_str()).collect::<Vec<_>>(), [Some("disabled")]);

    harness.produce(&Harness::message_to("m", "m2", ""));
    let events = of_subscriptions(&mut harness);
    assert_eq!(events.len(), 1, "a failure because it is off is no news: {events:?}");
    assert_eq!(ends(&harness).len(), 2);
}

#[test]
fn a_poison_message_is_announced_as_failed() {
    let mut harness = listening();
    harness.poison(&Harness::message("m", r#","ref":"order 17""#));
    harness.run();
    let [event] = ends(&harness)[..] else { panic!("{:?}", harness.events) };
    assert_eq!((&event["state"], &event["reason"]), (&json!("failed"), &json!("poison")));
    assert_eq!(event["ref"], json!("order 17"));
}
