//! Events for producers: one for every end at least once, whatever dies in between, and the same words when it is repeated.

use std::time::Duration;

use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_engine::cleanup::Sweep;
use redial_testkit::memory::sender::answered;
use redial_testkit::memory::{Death, PortErrorKind};
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::roads::{Road, roads};
use crate::webhooks;

fn listening() -> Harness {
    let harness = Harness::new();
    harness.memory.state().has_events = true;
    harness
}

fn travelled(road: &Road, death: Option<Death>) -> Harness {
    let mut harness = listening();
    let fields = format!(r#"{},"ref":"order 17""#, road.fields);
    let message = road.to.prepare(&harness, road.answers.clone(), &fields);
    harness.memory.state().death = death;
    harness.produce(&message);
    harness.run();
    harness
}

/// The events of deliveries.
fn ends(harness: &Harness) -> Vec<&Value> {
    harness.events.iter().filter(|event| !event["id"].is_null()).collect()
}

#[test]
fn every_end_is_told_once_with_the_producer_s_own_reference() {
    for road in roads().into_iter().chain(webhooks::roads()) {
        let harness = travelled(&road, None);
        let entry = harness.entry("m").expect("in the ledger");
        let [event] = ends(&harness)[..] else { panic!("{}: {:?}", road.name, harness.events) };
        assert_eq!((&event["id"], &event["ref"]), (&json!("m"), &json!("order 17")), "{}", road.name);
        assert_eq!(event["state"], json!(road.ends.label()), "{}", road.name);
        assert_eq!(event["reason"], json!(road.reason.map(Reason::label)), "{}", road.name);
        assert_eq!(event["at"], json!(entry.updated_at.to_rfc3339()), "{}", road.name);
    }
}

#[test]
fn killed_at_any_effect_every_end_is_told_and_told_again_in_the_same_words() {
    for road in roads().into_iter().chain(webhooks::roads()) {
        let trace = travelled(&road, None).memory.state().trace.clone();
        for n in 1..=trace.len() {
            for death in [Death::Before(n), Death::After(n)] {
                let harness = travelled(&road, Some(death));
                let case = format!("{}, {death:?} ({})", road.name, trace[n - 1]);
                let entry = harness.entry("m").expect("in the ledger");
                let ends = ends(&harness);
                let last = *ends.last().unwrap_or_else(|| panic!("{case}: no event"));
                assert_eq!(last["state"], json!(entry.state.label()), "{case}");
                assert!(ends.iter().all(|event| *event == last), "{case}: {ends:?}");
                if entry.reason == Some(Reason::Gone) && entry.state.label() == "failed" {
                    let off = harness.events.iter().filter(|event| event["state"] == "disabled").count();
                    assert!(off >= usize::from(road.to != crate::roads::Whom::Address), "{case}");
                }
            }
        }
    }
}

#[test]
fn a_message_whose_event_cannot_be_sent_is_not_acknowledged() {
    let mut harness = listening();
    harness.subscribe("m");
    harness.memory.fail("send", 3, PortErrorKind::Throttled);
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.posts_to("m"), 1);
    assert_eq!(ends(&harness).len(), 1);
}

#[test]
fn without_a_queue_of_events_nothing_is_sent() {
    let harness = Harness::with_push(vec![], "").run_to_the_end();
    assert!(harness.events.is_empty());
    assert_eq!(harness.effects("send"), 0);
}

/// A subscription whose endpoint is gone, up to the end of its window.
fn gone_and_watched() -> Harness {
    let mut harness = listening();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(410)]);
    harness.produce(&Harness::message("m", ""));
    harness.run();
    harness.memory.pass(Duration::from_secs(900));
    harness
}

/// The events of subscriptions, after everything that was sent has arrived.
fn of_subscriptions(harness: &mut Harness) -> Vec<Value> {
    harness.run();
    harness.events.iter().filter(|event| event["id"].is_null()).cloned().collect()
}

#[test]
fn a_removed_subscription_is_told_of_also_when_the_sweep_dies() {
    let mut whole = gone_and_watched();
    whole.memory.revive();
    assert_eq!(whole.sweep(Sweep::Prune).pruned, 1);
    let trace = whole.memory.state().trace.clone();
    let [event] = &of_subscriptions(&mut whole)[..] else { panic!("{:?}", whole.events) };
    assert_eq!((&event["subscription"], &event["state"]), (&json!("m"), &json!("pruned")));

    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let mut harness = gone_and_watched();
            harness.memory.revive();
            harness.memory.state().death = Some(death);
            harness.sweep(Sweep::Prune);
            harness.sweep(Sweep::Prune);
            let events = of_subscriptions(&mut harness);
            assert!(!events.is_empty(), "{death:?} of {trace:?}");
            assert!(events.iter().all(|event| event["state"] == "pruned"), "{death:?}: {events:?}");
        }
    }
}

#[test]
fn a_user_who_subscribed_again_is_not_told_of_as_removed() {
    let mut harness = gone_and_watched();
    harness.amend("m", |it| {
        let other = redial_core::endpoint::Endpoint::parse("https://push.example/other").expect("valid");
        if let redial_core::recipient::Recipient::WebPush(target) = &mut it.recipient {
            target.endpoint = other;
        }
        it.state = Standing::Active;
    });
    harness.sweep(Sweep::Prune);
    assert!(of_subscriptions(&mut harness).is_empty());
}

#[test]
fn a_receiver_that_failed_for_days_is_told_of_when_it_is_switched_off() {
    let mut harness = listening();
    harness.subscribe_hook("m");
    let long_ago = harness.now().minus(Duration::from_secs(6 * 86_400));
    harness.amend("m", |it| {
        it.health.failures = 9;
        it.health.failing_since = Some(long_ago);
    });
    harness.memory.state().usual_answer = Some(answered(500));
    harness.produce(&Harness::message("m", r#","retry":"web-push""#));
    harness.run();
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    let events = of_subscriptions(&mut harness);
    assert_eq!(events.iter().map(|event| event["state"].as_str()).collect::<Vec<_>>(), [Some("disabled")]);

    harness.produce(&Harness::message_to("m", "m2", ""));
    let events = of_subscriptions(&mut harness);
    assert_eq!(events.len(), 1, "a failure because it is off is no news: {events:?}");
    assert_eq!(ends(&harness).len(), 2);
}

#[test]
fn a_poison_message_is_told_of_as_failed() {
    let mut harness = listening();
    harness.poison(&Harness::message("m", r#","ref":"order 17""#));
    harness.run();
    let [event] = ends(&harness)[..] else { panic!("{:?}", harness.events) };
    assert_eq!((&event["state"], &event["reason"]), (&json!("failed"), &json!("poison")));
    assert_eq!(event["ref"], json!("order 17"));
}
