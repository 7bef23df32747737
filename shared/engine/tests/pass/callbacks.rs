//! Events posted to a webhook of their tenant: each is one delivery whose end is no event, whatever dies on the way.

use std::collections::BTreeSet;

use redial_core::erasure::Subject;
use redial_core::ledger;
use redial_core::message::{Inbound, ProducerRef, QueueKind, parse};
use redial_core::outcome::Outcome;
use redial_core::reason::Reason;
use redial_core::replay::{Permissions, Stored, replay};
use redial_core::subscription::State;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};
use serde_json::{Value, json};

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, tenant};
use crate::scenarios::retry_after;

const HOOKS: &str = "hooks";

/// What is amiss with the webhook.
type Change = fn(&Harness);

/// A tenant with a callback that answers like this, and a message to a browser of it.
fn with_callback(answers: Vec<Outcome>) -> Harness {
    let mut harness = Harness::prepared(Whom::Browser, vec![], r#","ref":"order 17","tags":["eu"]"#);
    harness.subscribe_hook(HOOKS);
    harness.will_answer(HOOKS, answers);
    harness.cleanup.settings.targets = Targets { queue: true, bus: false, callbacks: true };
    let id = Harness::subscription_key(HOOKS).id;
    let mut state = harness.state();
    state.has_events = true;
    state.callbacks.insert(tenant(), id);
    drop(state);
    harness
}

/// What was posted to it: the ids, and the events.
fn posted(harness: &Harness) -> Vec<(String, Value)> {
    let state = harness.state();
    let to_it = state.webhooks.iter().filter(|webhook| webhook.url == Harness::hook(HOOKS));
    to_it.map(|it| (it.id.clone(), serde_json::from_slice(&it.body).expect("JSON"))).collect()
}

fn callback(harness: &Harness) -> String {
    posted(harness).first().expect("it was posted").0.clone()
}

#[test]
fn each_end_is_posted_as_its_event_once_though_workers_die() {
    let run = |death: Option<Death>| {
        let harness = with_callback(vec![]);
        harness.state().death = death;
        harness.run_to_the_end()
    };
    kill_at_every_effect(run, |harness, may_repeat, case| {
        let posted = posted(harness);
        let ids: BTreeSet<_> = posted.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), 1, "{case}: {posted:?}");
        let most = if may_repeat { 2 } else { 1 };
        assert!(posted.len() <= most, "{case}: {posted:?}");
        assert!(posted.iter().all(|(_, event)| *event == harness.events[0]), "{case}: {posted:?}");
        assert!(harness.events.iter().all(|event| event["id"] == "m"), "{case}: {:?}", harness.events);
        let id = callback(harness);
        assert!(id.starts_with("callback-"), "{id}");
        assert_eq!(harness.state_of(&id), Some(ledger::State::Sent), "{case}");
    });
}

#[test]
fn no_end_of_a_callback_is_an_event() {
    for (answers, state, switched_off) in [
        (vec![], ledger::State::Sent, 0),
        (vec![answered(503), answered(200)], ledger::State::Sent, 0),
        (vec![answered(400); 9], ledger::State::Failed, 0),
        (vec![answered(410)], ledger::State::Failed, 1),
    ] {
        let harness = with_callback(answers).run_to_the_end();
        let (of_deliveries, of_subscriptions): (Vec<_>, Vec<_>) =
            harness.events.iter().partition(|event| !event["id"].is_null());
        assert_eq!(of_deliveries.len(), 1, "{:?}", harness.events);
        assert_eq!((&of_deliveries[0]["id"], &of_deliveries[0]["ref"]), (&json!("m"), &json!("order 17")));
        assert_eq!(of_subscriptions.len(), switched_off, "{:?}", harness.events);
        let posted = posted(&harness);
        assert!(
            posted.iter().all(|(_, event)| event["id"] == "m"),
            "nothing is said to it about itself: {posted:?}"
        );
        assert_eq!(harness.state_of(&callback(&harness)), Some(state));
    }
}

#[test]
fn an_impossible_callback_is_a_dead_letter_and_its_event_is_queued() {
    let cases: [(Change, Reason); 3] = [
        (
            |it| drop(it.state().subscriptions.remove(&Harness::subscription_key(HOOKS))),
            Reason::SubscriptionUnknown,
        ),
        (|it| it.subscribe(HOOKS), Reason::SubscriptionUnknown),
        (|it| it.amend(HOOKS, |it| it.state = State::Disabled), Reason::EndpointDisabled),
    ];
    for (change, reason) in cases {
        let harness = with_callback(vec![]);
        change(&harness);
        let harness = harness.run_to_the_end();
        assert_eq!((harness.events.len(), posted(&harness).len(), harness.posts_to(HOOKS)), (1, 0, 0));
        let state = harness.state();
        let letters: Vec<_> = state.described.values().map(|it| (it.reason(), it.channel.as_str())).collect();
        let channel = if reason == Reason::EndpointDisabled { "webhook" } else { letters[0].1 };
        assert_eq!(letters, [(Some(reason), channel)]);
        assert_eq!(state.bodies.len(), 1, "it can be replayed");
    }
}

/// Its event has the `ref`, and the subscription that the delivery went to.
#[test]
fn nothing_is_kept_of_a_callback_about_someone_who_was_erased() {
    let text = ProducerRef::parse("order 17").expect("valid");
    for answer in [answered(400), retry_after(503, 3_600)] {
        let subscription = Subject::Subscription(Harness::subscription_key("m"));
        for subject in [None, Some(Subject::Ref(tenant(), text.clone())), Some(subscription)] {
            let mut harness = with_callback(vec![answer.clone(); 9]);
            harness.run_until(|harness| harness.state_of("m") == Some(ledger::State::Sent));
            harness.state().erased.extend(subject.clone());
            harness.run();
            let state = harness.state();
            let is_kept = !state.bodies.is_empty() || state.trace.contains(&"park");
            assert_eq!(is_kept, subject.is_none(), "{answer:?} {subject:?}");
        }
    }
}

#[test]
fn a_replayed_or_poisonous_callback_makes_no_event_either() {
    let mut harness = with_callback(vec![answered(400); 4]).run_to_the_end();
    let body = {
        let state = harness.state();
        let (key, body) = state.bodies.iter().next().expect("a body");
        let kept_until = state.now.plus(std::time::Duration::from_secs(86_400));
        let stored = Stored { body: &body.body, lane: body.lane, absent_from: body.absent_from, kept_until };
        let replay = replay(&state.described[key], Some(stored), Permissions::default(), state.now);
        replay.map(|it| it.body).expect("it can be replayed")
    };
    assert!(matches!(parse(&body, QueueKind::Retry, "m", Timestamp::default()), Ok(Inbound::Message(..))));
    harness.produce_retry(&body);
    harness.run();
    assert_eq!((posted(&harness).len(), harness.events.len()), (5, 1));
    assert_eq!(harness.state_of(&callback(&harness)), Some(ledger::State::Sent));

    let other = body.replace("callback-", "callback_");
    harness.poison(&other);
    harness.run();
    assert_eq!(harness.events.len(), 1, "{:?}", harness.events);
    assert_eq!(harness.dead_letters(Reason::Poison), 1);
}

#[test]
fn an_event_waits_while_its_tenant_s_callback_cannot_be_read() {
    let harness = with_callback(vec![]);
    harness.memory.fail("callbacks", 2, PortErrorKind::Throttled);
    let harness = harness.run_to_the_end();
    assert_eq!(posted(&harness).len(), 1);
    assert_eq!(harness.events.len(), 1, "the queue has it already");
}

#[test]
fn other_tenants_events_and_those_without_a_callback_are_not_posted() {
    let mut harness = with_callback(vec![]);
    harness.state().callbacks.clear();
    harness.run();
    assert_eq!((posted(&harness).len(), harness.events.len()), (0, 1));
}
