//! Suspect subscriptions: which dead letters count, what is shared by all, what is held, and what verifies.

use std::time::Duration;

use redial_core::event;
use redial_core::ledger;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::subscription::{Doubts, State, Suspects};
use redial_engine::cleanup::Sweep;
use redial_memory::Death;
use redial_memory::senders::answered;

use crate::harness::Harness;
use crate::scenarios::retry_after;

const HOUR: Duration = Duration::from_secs(3_600);

/// Producers listen to events.
fn listening() -> Harness {
    let harness = Harness::new();
    harness.state().has_events = true;
    harness
}

/// `m` is refused so often, by messages an hour apart.
fn refused(status: u16, times: usize) -> Harness {
    let mut harness = listening();
    harness.subscribe("m");
    refuse(&mut harness, status, times);
    harness
}

fn refuse(harness: &mut Harness, status: u16, times: usize) {
    harness.will_answer("m", vec![answered(status); times]);
    for at in 0..times {
        harness.deliver(&Harness::message_to("m", &format!("refused-{at}"), ""));
        harness.pass(HOUR);
    }
}

fn state(harness: &Harness, id: &str) -> State {
    harness.subscription(id).state_at(harness.now())
}

/// The events of subscriptions' states.
fn announced(harness: &Harness, state: event::State) -> usize {
    harness.events.iter().filter(|event| event["state"] == state.label()).count()
}

#[test]
fn the_third_refusal_makes_a_subscription_suspect_and_it_is_still_sent_to() {
    for status in [400, 403] {
        let mut harness = refused(status, 2);
        assert_eq!(state(&harness, "m"), State::Active);
        harness.will_answer("m", vec![answered(status)]);
        harness.deliver(&Harness::message_to("m", "third", ""));
        assert_eq!(state(&harness, "m"), State::Suspect, "{status}");
        assert_eq!(announced(&harness, event::State::Suspect), 1);
        assert_eq!(harness.count(Metric::SubscriptionsSuspect), 1);
        let event = harness.events.iter().find(|event| event["state"] == "suspect").expect("one");
        let reason = if status == 400 { "rejected" } else { "forbidden" };
        assert_eq!((&event["subscription"], &event["reason"]), (&"m".into(), &reason.into()));
        harness.deliver(&Harness::message_to("m", "sent", ""));
        assert_eq!(harness.state_of("sent"), Some(ledger::State::Sent));
        assert_eq!(harness.subscription("m").doubts, Doubts::default());
        assert_eq!((state(&harness, "m"), announced(&harness, event::State::Verified)), (State::Active, 1));
    }
}

#[test]
fn exhausted_retries_count_and_those_of_a_limited_rate_do_not() {
    for (status, expected) in [(503, State::Suspect), (429, State::Active)] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.will_answer("m", vec![retry_after(status, 1); 6]);
        for at in 0..3 {
            harness.deliver(&Harness::message_to("m", &format!("m{at}"), r#","retry":{"max_retries":1}"#));
            harness.pass(HOUR);
        }
        assert_eq!(harness.posts_to("m"), 6);
        assert_eq!(state(&harness, "m"), expected, "{status}");
    }
}

#[test]
fn a_burst_counts_once_and_a_success_between_begins_again() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(400); 10]);
    for at in 0..10 {
        harness.produce(&Harness::message_to("m", &format!("burst-{at}"), ""));
    }
    harness.run();
    assert_eq!(harness.subscription("m").doubts.count, 1);
    harness.pass(HOUR);
    harness.will_answer("m", vec![answered(400), answered(201), answered(400), answered(400)]);
    for at in 0..4 {
        harness.deliver(&Harness::message_to("m", &format!("later-{at}"), ""));
        harness.pass(HOUR);
    }
    assert_eq!((harness.subscription("m").doubts.count, state(&harness, "m")), (2, State::Active));
    assert_eq!(harness.effects("recovered"), 1);
    harness.deliver(&Harness::message_to("m", "well", ""));
    harness.deliver(&Harness::message_to("m", "still-well", ""));
    assert_eq!(harness.effects("recovered"), 2, "a success that has nothing to forget writes nothing");
}

#[test]
fn what_everybody_is_refused_makes_nobody_suspect() {
    for alone in [false, true] {
        let mut harness = Harness::new();
        let ids: Vec<String> = (0..9).map(|at| format!("s{at}")).collect();
        for id in &ids {
            harness.subscribe(id);
        }
        for round in 0..4 {
            for (at, id) in ids.iter().enumerate() {
                let status = if alone && at > 0 { 201 } else { 403 };
                harness.will_answer(id, vec![answered(status)]);
                harness.produce(&Harness::message_to(id, &format!("{id}-{round}"), ""));
            }
            harness.run();
            harness.pass(HOUR);
        }
        let suspects = ids.iter().filter(|id| state(&harness, id) == State::Suspect).count();
        assert_eq!(suspects, usize::from(alone));
    }
}

#[test]
fn workers_that_remember_nothing_make_ten_suspect_in_a_day() {
    let mut harness = Harness::new();
    let ids: Vec<String> = (0..15).map(|at| format!("s{at}")).collect();
    for id in &ids {
        harness.subscribe(id);
    }
    let suspects = |harness: &Harness| ids.iter().filter(|id| state(harness, id) == State::Suspect).count();
    for (round, expected) in [(0, 0), (1, 0), (2, 10), (24, 15)] {
        harness.pass(if round == 24 { HOUR * 22 } else { HOUR });
        for id in &ids {
            harness.replace_worker(1);
            harness.will_answer(id, vec![answered(403)]);
            harness.deliver(&Harness::message_to(id, &format!("{id}-{round}"), ""));
        }
        assert_eq!(suspects(&harness), expected, "{round}");
    }
}

#[test]
fn a_dead_letter_that_is_handed_off_again_counts_once_and_is_announced() {
    for effect in 1..40 {
        let mut harness = refused(400, 2);
        harness.memory.revive();
        harness.will_answer("m", vec![answered(400); 3]);
        harness.will_die(Death::After(effect));
        harness.deliver(&Harness::message_to("m", "third", ""));
        let died = harness.state().death.is_none();
        assert_eq!(state(&harness, "m"), State::Suspect, "died after {effect} effects");
        assert!(announced(&harness, event::State::Suspect) >= 1, "died after {effect} effects");
        if !died {
            assert!(effect > 8, "{effect}");
            return;
        }
    }
}

#[test]
fn a_verified_subscription_is_announced_though_its_worker_dies_at_any_moment() {
    for effect in 1..40 {
        let mut harness = refused(400, 3);
        harness.memory.revive();
        harness.will_die(Death::After(effect));
        harness.deliver(&Harness::message_to("m", "sent", ""));
        let died = harness.state().death.is_none();
        harness.memory.revive();
        assert_eq!(state(&harness, "m"), State::Active, "died after {effect} effects");
        assert!(announced(&harness, event::State::Verified) >= 1, "died after {effect} effects");
        if !died {
            assert!(effect > 3, "{effect}");
            return;
        }
    }
}

#[test]
fn a_held_suspect_gets_one_message_in_six_hours_until_it_succeeds() {
    let mut harness = refused(400, 3);
    harness.worker.settings.suspects = Suspects::Hold;
    harness.will_answer("m", vec![answered(400)]);
    for (id, later, posts) in [("probe", 0, 1), ("held", 1, 0), ("held-too", 4, 0), ("works", 1, 1)] {
        harness.pass(HOUR * later);
        let before = harness.posts_to("m");
        harness.deliver(&Harness::message_to("m", id, ""));
        assert_eq!(harness.posts_to("m") - before, posts, "{id}");
    }
    assert_eq!(harness.ended("held"), (ledger::State::Failed, Some(Reason::SubscriptionSuspect)));
    assert_eq!(state(&harness, "m"), State::Active);
    harness.deliver(&Harness::message_to("m", "all-go", ""));
    assert_eq!(harness.state_of("all-go"), Some(ledger::State::Sent));
    assert_eq!(harness.effects("probe"), 2);
}

#[test]
fn of_a_batch_one_message_is_the_probe_and_keeps_its_retries() {
    let mut harness = refused(400, 3);
    harness.worker.settings.suspects = Suspects::Hold;
    harness.will_answer("m", vec![retry_after(503, 1), answered(201)]);
    for at in 0..5 {
        harness.produce(&Harness::message_to("m", &format!("m{at}"), ""));
    }
    harness.run();
    assert_eq!(harness.posts_to("m"), 5, "three refusals, the probe and its retry");
    assert_eq!(harness.dead_letters(Reason::SubscriptionSuspect), 4);
    assert_eq!((harness.state_of("m0"), state(&harness, "m")), (Some(ledger::State::Sent), State::Active));
}

#[test]
fn a_probe_whose_worker_dies_is_still_the_probe() {
    for effect in 1..40 {
        let mut harness = refused(400, 3);
        harness.worker.settings.suspects = Suspects::Hold;
        harness.memory.revive();
        harness.will_die(Death::After(effect));
        harness.deliver(&Harness::message_to("m", "probe", ""));
        let died = harness.state().death.is_none();
        assert_eq!(harness.state_of("probe"), Some(ledger::State::Sent), "died after {effect} effects");
        if !died {
            assert!(effect > 3, "{effect}");
            return;
        }
    }
}

/// Its dead letter made the subscription suspect before it came back.
#[test]
fn a_message_that_is_over_already_does_not_use_up_the_probe() {
    let mut harness = refused(400, 2);
    harness.worker.settings.suspects = Suspects::Hold;
    harness.will_answer("m", vec![answered(400)]);
    let id = harness.produce(&Harness::message_to("m", "third", ""));
    harness.dies_over(&id, "send");
    harness.run();
    assert_eq!((state(&harness, "m"), harness.posts_to("m")), (State::Suspect, 3));
    assert_eq!((harness.effects("probe"), harness.subscription("m").doubts.probe), (1, None));
    harness.deliver(&Harness::message_to("m", "next", ""));
    assert_eq!(harness.state_of("next"), Some(ledger::State::Sent));
    assert_eq!(state(&harness, "m"), State::Active);
}

#[test]
fn a_410_of_a_suspect_switches_it_off() {
    let mut harness = refused(403, 3);
    harness.will_answer("m", vec![answered(410)]);
    harness.deliver(&Harness::message_to("m", "gone", ""));
    assert_eq!(state(&harness, "m"), State::Gone);
}

#[test]
fn what_an_operator_confirmed_as_gone_is_removed_by_the_walk() {
    let mut harness = listening();
    for id in ["confirmed", "gone", "kept"] {
        harness.subscribe(id);
    }
    let now = harness.now();
    harness.amend("confirmed", |it| (it.state, it.gone_confirmed_at) = (State::Gone, Some(now)));
    harness.amend("gone", |it| it.state = State::Gone);
    harness.amend("kept", |it| it.state = State::Quarantined);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 1);
    harness.run();
    let left: Vec<String> = harness.state().subscriptions.keys().map(|key| key.id.to_string()).collect();
    assert_eq!(left, ["gone", "kept"]);
    assert_eq!(announced(&harness, event::State::Pruned), 1);
}
