//! What producers are told: every end at least once, whatever dies in between, and word for word the same when told again.

use std::time::Duration;

use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_engine::cleanup::Sweep;
use redial_engine::ports::Clock;
use redial_testkit::memory::sender::answered;
use redial_testkit::memory::{Death, PortErrorKind};
use serde_json::{Value, json};

use crate::roads::{Road, roads};
use crate::universe::Universe;
use crate::webhooks;

fn listening() -> Universe {
    let universe = Universe::new();
    universe.world.state().has_events = true;
    universe
}

fn travelled(road: &Road, death: Option<Death>) -> Universe {
    let mut universe = listening();
    let fields = format!(r#"{},"ref":"order 17""#, road.fields);
    let message = road.to.prepare(&universe, road.answers.clone(), &fields);
    universe.world.state().death = death;
    universe.produce(&message);
    universe.run();
    universe
}

/// The events of deliveries.
fn ends(universe: &Universe) -> Vec<&Value> {
    universe.events.iter().filter(|event| !event["id"].is_null()).collect()
}

#[test]
fn every_end_is_told_once_with_the_producer_s_own_reference() {
    for road in roads().into_iter().chain(webhooks::roads()) {
        let universe = travelled(&road, None);
        let entry = universe.entry("m").expect("in the ledger");
        let [event] = ends(&universe)[..] else { panic!("{}: {:?}", road.name, universe.events) };
        assert_eq!((&event["id"], &event["ref"]), (&json!("m"), &json!("order 17")), "{}", road.name);
        assert_eq!(event["state"], json!(road.ends.label()), "{}", road.name);
        assert_eq!(event["reason"], json!(road.reason.map(Reason::label)), "{}", road.name);
        assert_eq!(event["at"], json!(entry.updated_at.to_rfc3339()), "{}", road.name);
    }
}

#[test]
fn killed_at_any_effect_every_end_is_told_and_told_again_in_the_same_words() {
    for road in roads().into_iter().chain(webhooks::roads()) {
        let trace = travelled(&road, None).world.state().trace.clone();
        for n in 1..=trace.len() {
            for death in [Death::Before(n), Death::After(n)] {
                let universe = travelled(&road, Some(death));
                let told = format!("{}, {death:?} ({})", road.name, trace[n - 1]);
                let entry = universe.entry("m").expect("in the ledger");
                let ends = ends(&universe);
                let last = *ends.last().unwrap_or_else(|| panic!("{told}: nothing was told"));
                assert_eq!(last["state"], json!(entry.state.label()), "{told}");
                assert!(ends.iter().all(|event| *event == last), "{told}: {ends:?}");
                if entry.reason == Some(Reason::Gone) && entry.state.label() == "failed" {
                    let off = universe.events.iter().filter(|event| event["state"] == "disabled").count();
                    assert!(off >= usize::from(road.to != crate::roads::Whom::Address), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_message_whose_event_cannot_be_sent_is_not_acknowledged() {
    let mut universe = listening();
    universe.subscribe("m");
    universe.world.fail("send", 3, PortErrorKind::Throttled);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert_eq!(universe.posts_to("m"), 1);
    assert_eq!(ends(&universe).len(), 1);
}

#[test]
fn without_a_queue_of_events_nothing_is_sent() {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert!(universe.events.is_empty());
    assert_eq!(universe.effects("send"), 0);
}

/// A subscription whose endpoint is gone, up to the end of its window.
fn gone_and_watched() -> Universe {
    let mut universe = listening();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(410)]);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    universe.world.pass(Duration::from_secs(900));
    universe
}

/// What was told of subscriptions, after everything that was sent has arrived.
fn of_subscriptions(universe: &mut Universe) -> Vec<Value> {
    universe.run();
    universe.events.iter().filter(|event| event["id"].is_null()).cloned().collect()
}

#[test]
fn a_removed_subscription_is_told_of_also_when_the_sweep_dies() {
    let mut whole = gone_and_watched();
    whole.world.revive();
    assert_eq!(whole.sweep(Sweep::Prune).pruned, 1);
    let trace = whole.world.state().trace.clone();
    let [event] = &of_subscriptions(&mut whole)[..] else { panic!("{:?}", whole.events) };
    assert_eq!((&event["subscription"], &event["state"]), (&json!("m"), &json!("pruned")));

    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let mut universe = gone_and_watched();
            universe.world.revive();
            universe.world.state().death = Some(death);
            universe.sweep(Sweep::Prune);
            universe.sweep(Sweep::Prune);
            let told = of_subscriptions(&mut universe);
            assert!(!told.is_empty(), "{death:?} of {trace:?}");
            assert!(told.iter().all(|event| event["state"] == "pruned"), "{death:?}: {told:?}");
        }
    }
}

#[test]
fn a_user_who_subscribed_again_is_not_told_of_as_removed() {
    let mut universe = gone_and_watched();
    universe.amend("m", |it| {
        let other = redial_core::endpoint::Endpoint::parse("https://push.example/other").expect("valid");
        if let redial_core::recipient::Recipient::WebPush(target) = &mut it.recipient {
            target.endpoint = other;
        }
        it.state = Standing::Active;
    });
    universe.sweep(Sweep::Prune);
    assert!(of_subscriptions(&mut universe).is_empty());
}

#[test]
fn a_receiver_that_failed_for_days_is_told_of_when_it_is_switched_off() {
    let mut universe = listening();
    universe.subscribe_hook("m");
    let long_ago = universe.world.now().minus(Duration::from_secs(6 * 86_400));
    universe.amend("m", |it| {
        it.health.failures = 9;
        it.health.failing_since = Some(long_ago);
    });
    universe.world.state().usual_answer = Some(answered(500));
    universe.produce(&Universe::message("m", r#","retry":"web-push""#));
    universe.run();
    assert_eq!(universe.subscription("m").state, Standing::Disabled);
    let told = of_subscriptions(&mut universe);
    assert_eq!(told.iter().map(|event| event["state"].as_str()).collect::<Vec<_>>(), [Some("disabled")]);

    universe.produce(&Universe::message_to("m", "m2", ""));
    let told = of_subscriptions(&mut universe);
    assert_eq!(told.len(), 1, "what fails because it is off tells nothing new: {told:?}");
    assert_eq!(ends(&universe).len(), 2);
}

#[test]
fn a_poison_message_is_told_of_as_failed() {
    let mut universe = listening();
    universe.poison(&Universe::message("m", r#","ref":"order 17""#));
    universe.run();
    let [event] = ends(&universe)[..] else { panic!("{:?}", universe.events) };
    assert_eq!((&event["state"], &event["reason"]), (&json!("failed"), &json!("poison")));
    assert_eq!(event["ref"], json!("order 17"));
}
