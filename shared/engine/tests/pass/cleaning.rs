//! After the end: endpoints that are gone, poison, waits that were forgotten, bodies whose time is over.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::ledger;
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::reason::Reason;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;
use redial_engine::cleanup::{Sweep, Swept};
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};

use crate::harness::{Harness, Whom};
use crate::scenarios::retry_after;

/// Longer than a window of the spike guard and its neighbour.
const WINDOWS: Duration = Duration::from_secs(900);

/// A tenant of `all` subscriptions, of which `gone` answer 410 to a message.
fn with_gone(all: u32, gone: u32) -> Harness {
    let mut harness = Harness::new();
    for id in (0..all).map(|at| format!("s{at}")) {
        harness.subscribe(&id);
    }
    for id in (0..gone).map(|at| format!("s{at}")) {
        harness.will_answer(&id, vec![answered(410)]);
        harness.produce(&Harness::message(&id, ""));
    }
    harness.run();
    harness
}

#[test]
fn thirty_of_a_hundred_endpoints_are_quarantined_and_none_is_deleted() {
    let mut harness = with_gone(100, 30);
    harness.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (30, 0));
    let state = harness.state();
    assert_eq!(state.subscriptions.len(), 100);
    let quarantined = state.subscriptions.values().filter(|it| it.state == State::Quarantined);
    let quarantined: BTreeSet<_> = quarantined.map(|it| &it.key).collect();
    // The log names whose they are, each once.
    assert_eq!(state.quarantined.iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), quarantined);
    assert_eq!((quarantined.len(), state.quarantined.len()), (30, 30));
    assert!(state.quarantined.iter().all(|(_, hash)| hash.starts_with("hmac:")));
}

/// A provider's bad day fills cleanup's queue: it gets to a few in each window.
#[test]
fn endpoints_that_turned_gone_together_count_together_however_late_cleanup_is() {
    let mut harness = Harness::new();
    for id in (0..200).map(|at| format!("s{at}")) {
        harness.subscribe(&id);
    }
    let message = |id: &String| {
        harness.will_answer(id, vec![answered(410)]);
        harness.produce(&Harness::message(id, ""))
    };
    let ids: Vec<String> =
        (0..100).map(|at| format!("s{at}")).collect::<Vec<_>>().iter().map(message).collect();
    for id in ids {
        assert!(harness.acknowledges(&id));
    }
    let references: Vec<String> = {
        let mut state = harness.state();
        let is_one = |it: &mut Outgoing| it.queue == Queue::DeadLetters;
        state.outbox.extract_if(.., is_one).map(|it| it.body).collect()
    };
    assert_eq!(references.len(), 100);
    let (mut pruned, mut quarantined) = (0, 0);
    for some in references.chunks(3) {
        some.iter().for_each(|body| harness.clean_reference(body));
        harness.pass(Duration::from_secs(300));
        let swept = harness.sweep(Sweep::Prune);
        pruned += swept.pruned;
        quarantined += swept.quarantined;
    }
    harness.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((pruned + swept.pruned, quarantined + swept.quarantined), (0, 100));
}

/// A provider answers 410 by mistake, and cleanup gets to some of them only after the operator has enabled the subscriptions.
#[test]
fn a_410_from_before_an_operator_enabled_it_does_not_switch_it_off() {
    let mut harness = Harness::new();
    harness.subscribe("s");
    let answered_gone = |harness: &mut Harness, name: &str| {
        harness.will_answer("s", vec![answered(410)]);
        let message = Harness::message_with(name, r#""subscription":"s""#, "x", "");
        let id = harness.produce(&message);
        assert!(harness.acknowledges(&id));
        let mut state = harness.state();
        let reference = state.outbox.extract_if(.., |it| it.queue == Queue::DeadLetters).next();
        reference.expect("a reference").body
    };
    let reference = answered_gone(&mut harness, "early");
    let enable = |harness: &Harness| {
        let now = harness.now();
        harness.amend("s", |it| (it.state, it.enabled_at) = (State::Active, Some(now)));
    };
    enable(&harness);
    harness.pass(Duration::from_secs(60));
    harness.clean_reference(&reference);
    assert_eq!(harness.subscription("s").state, State::Active);
    harness.pass(WINDOWS);
    assert_eq!(harness.sweep(Sweep::Prune), Swept::default());

    // What is answered from then on counts.
    let reference = answered_gone(&mut harness, "late");
    harness.amend("s", |it| it.state = State::Active);
    harness.clean_reference(&reference);
    assert_eq!(harness.subscription("s").state, State::Gone);
}

/// Each has a share of a sweep's time.
#[test]
fn many_candidates_keep_nothing_else_of_the_sweep_from_being_done() {
    let mut harness = with_gone(100, 30);
    harness.subscribe("ended");
    harness.amend("ended", |it| it.ends_at = Some(Timestamp::from_secs(1)));
    harness.pass(WINDOWS);
    harness.state().slow.insert("quarantine", Duration::from_secs(10));
    let swept = harness.sweep(Sweep::Prune);
    assert!(swept.quarantined < 30, "{swept:?}");
    assert_eq!(swept.expired, 1);
}

#[test]
fn a_dozen_new_endpoints_that_are_gone_do_not_keep_older_ones_from_being_removed() {
    let makes_it_new: [fn(&mut Subscription, Timestamp); 2] =
        [|it, at| it.created_at = Some(at), |it, at| it.moved_at = Some(at)];
    for makes_it_new in makes_it_new {
        let mut harness = with_gone(100, 15);
        let yesterday = harness.now().minus(Duration::from_secs(86_400));
        for n in 0..12 {
            harness.amend(&format!("s{n}"), |it| makes_it_new(it, yesterday));
        }
        harness.pass(WINDOWS);
        let swept = harness.sweep(Sweep::Prune);
        assert_eq!((swept.quarantined, swept.pruned), (12, 3));
        let is_stored =
            |n| harness.state().subscriptions.contains_key(&Harness::subscription_key(&format!("s{n}")));
        assert!(!(12..15).any(is_stored));
    }
}

#[test]
fn who_is_quarantined_is_logged_though_the_sweep_dies_at_any_moment() {
    for effect in 1.. {
        let mut harness = with_gone(20, 12);
        harness.pass(WINDOWS);
        harness.memory.revive();
        harness.will_die(Death::After(effect));
        harness.sweep(Sweep::Prune);
        let died = harness.state().death.is_none();
        harness.memory.revive();
        harness.sweep(Sweep::Prune);
        let state = harness.state();
        let logged: BTreeSet<_> = state.quarantined.iter().map(|(key, _)| &key.id).collect();
        assert_eq!(logged.len(), 12, "died after {effect} effects");
        if !died {
            assert!(effect > 24, "{effect}");
            return;
        }
    }
}

#[test]
fn a_decision_that_the_sdk_makes_twice_is_announced() {
    for (call, gone, state) in [("quarantine", 12, "quarantined"), ("remove", 3, "pruned")] {
        let mut harness = with_gone(100, gone);
        harness.pass(WINDOWS);
        harness.state().has_events = true;
        harness.state().made_twice = Some(call);
        harness.sweep(Sweep::Prune);
        harness.run();
        let announced = harness.events.iter().filter(|event| event["state"] == state);
        assert_eq!(announced.count(), gone as usize, "{call}");
        assert_eq!(harness.state().quarantined.len(), if call == "quarantine" { 12 } else { 0 });
    }
}

#[test]
fn an_unreadable_candidate_keeps_no_other_from_being_removed() {
    let mut harness = with_gone(100, 3);
    harness.pass(WINDOWS);
    harness.memory.fail("subscription.get", 1, PortErrorKind::Broken);
    harness.sweep(Sweep::Prune);
    assert_eq!(harness.state().subscriptions.len(), 98, "the first waits");
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 1);
    assert_eq!(harness.state().subscriptions.len(), 97);
}

#[test]
fn three_of_a_thousand_endpoints_are_pruned() {
    let mut harness = with_gone(1000, 3);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0, "the window is not over");
    harness.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.quarantined, swept.pruned), (0, 3));
    assert_eq!(harness.state().subscriptions.len(), 997);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0, "once is enough");
}

#[test]
fn whoever_subscribed_again_is_not_pruned() {
    let mut harness = with_gone(1, 1);
    harness.redirect("s0", "https://push.example/new");
    harness.amend("s0", |it| it.state = State::Active);
    harness.pass(WINDOWS);
    assert_eq!(harness.sweep(Sweep::Prune).pruned, 0);
    assert_eq!(harness.subscription("s0").state, State::Active);
}

#[test]
fn a_404_prunes_only_when_another_confirms_it_an_hour_later() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(404); 3]);
    for (id, later, state) in
        [("one", 0, State::Active), ("too-soon", 1800, State::Active), ("three", 1900, State::Gone)]
    {
        harness.pass(Duration::from_secs(later));
        harness.deliver(&Harness::message_to("m", id, ""));
        let it = harness.subscription("m");
        assert_eq!((it.state, it.flagged_at.is_some()), (state, true), "{id}");
    }
}

#[test]
fn a_404_that_is_handed_off_hours_later_confirms_nothing() {
    for effect in 1..20 {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.will_answer("m", vec![answered(404), answered(404)]);
        harness.deliver(&Harness::message_to("m", "one", ""));
        harness.memory.revive();
        harness.will_die(Death::After(effect));
        let second = harness.produce(&Harness::message_to("m", "two", ""));
        let received = harness.receive(std::slice::from_ref(&second));
        if let Some(back) = harness.invoke_until_death(received) {
            harness.acknowledge(&[second], &back);
        }
        // Its message was hidden for two hours, as after many failures of our own.
        harness.pass(Duration::from_secs(7_200));
        harness.memory.revive();
        harness.run();
        let posts: Vec<Timestamp> = harness.state().sent.iter().map(|push| push.at).collect();
        // A third POST is accepted.
        let is_confirmed = posts.len() == 2 && posts[1].since(posts[0]) >= Duration::from_secs(3_600);
        let state = if is_confirmed { State::Gone } else { State::Active };
        assert_eq!(harness.subscription("m").state, state, "died after {effect} effects, {posts:?}");
    }
}

#[test]
fn a_404_that_cleanup_gets_late_counts_for_nothing() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(404), answered(201), answered(404)]);
    for (id, later) in [("one", 0), ("accepted", 1_800), ("two", 5_400)] {
        harness.pass(Duration::from_secs(later));
        let message = harness.produce(&Harness::message_to("m", id, ""));
        assert!(harness.acknowledges(&message));
    }
    harness.run();
    assert_eq!(harness.posts_to("m"), 3);
    assert_eq!(harness.subscription("m").state, State::Active);
}

#[test]
fn a_success_takes_the_flag_of_a_404_away() {
    let mut harness = Harness::finished(Whom::Browser, vec![answered(404)], "");
    harness.deliver(&Harness::message_to("m", "again", ""));
    assert_eq!(harness.subscription("m").flagged_at, None);
}

#[test]
fn the_sweep_releases_what_a_lost_execution_left_behind() {
    let mut harness = Harness::prepared(Whom::Browser, vec![retry_after(429, 1800)], "");
    harness.run_without_executions();
    assert_eq!(harness.state_of("m"), Some(ledger::State::Sent));
    assert!(harness.state().registered.is_empty(), "drained buckets are forgotten");
}

#[test]
fn poison_is_kept_unless_its_delivery_has_moved_on() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.poison(&Harness::message("m", ""));
    harness.poison("\u{0}garbage");
    let lanes: Vec<_> = harness.state().bodies.values().map(|body| body.lane).collect();
    assert_eq!(lanes, [None, None], "the quarantine does not know where a message came from");

    let mut harness = Harness::finished(Whom::Browser, vec![], "");
    harness.poison(&Harness::message("m", ""));
    assert_eq!(harness.bodies(), 0, "it was sent");
    harness.poison(&Harness::message("m", "").replace("hello", "another"));
    let kept: Vec<_> = harness.state().described.values().map(|it| it.reason.clone()).collect();
    assert_eq!((harness.bodies(), kept), (1, vec!["id_conflict".to_owned()]), "another content of its id");

    harness.poison(r#"{"release":"w60-transactional-20261121T100500Z"}"#);
    let outbox = harness.state().outbox.len();
    assert_eq!(outbox, 1, "a release is sent again");
}

/// Its worker may have died after the push, which a browser shows and acknowledges later.
#[test]
fn what_the_quarantine_ended_is_known_for_as_long_as_it_may_be_acknowledged() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.poison(&Harness::message("m", r#","acks":true,"ttl":2419200"#));
    let kept = harness.state().ledger.values().map(|entry| entry.expires_at).max();
    assert!(kept > Some(harness.now().plus(Duration::from_secs((28 + 7 - 1) * 86_400))), "{kept:?}");
}

#[test]
fn a_message_without_time_comes_back_and_counts_as_a_failure() {
    let harness = Harness::new();
    let timed_out = |time| {
        let cleaned = harness.try_poison_within(Duration::from_secs(time), "no message");
        cleaned.expect_err("it is not done")
    };
    harness.state().unanswered = Some("bodies.put");
    for (nth, time) in [(1, 20), (2, 0)] {
        let error = timed_out(time);
        assert_eq!((error.operation, error.code.as_str()), ("cleanup", "Timeout"));
        assert_eq!(harness.count(Metric::CleanupFailures), nth);
    }
    harness.state().unanswered = None;
    timed_out(0);
    assert!(harness.state().described.is_empty(), "without time it is not begun");
    harness.try_poison_within(Duration::from_secs(1), "no message").expect("nothing fails");
    assert_eq!(harness.count(Metric::CleanupFailures), 3);
}

#[test]
fn the_quarantine_leaves_what_another_release_wrote_to_it_for_a_day() {
    let harness = Harness::new();
    harness.subscribe("m");
    let newer = r#"{"tenant":"acme","a_part_of":"news-17","shard":3}"#;
    let sent = harness.now();
    harness.pass(Duration::from_secs(86_399));
    assert!(harness.try_poison_sent_at(sent, "sqs-1", newer).is_err());
    assert_eq!(harness.count(Metric::CleanupFailures), 1);
    assert_eq!(harness.bodies(), 0);
    harness.pass(Duration::from_secs(1));
    harness.try_poison_sent_at(sent, "sqs-1", newer).expect("nothing fails");
    assert_eq!(harness.bodies(), 1);
}

#[test]
fn a_worker_that_holds_a_message_of_the_quarantine_sends_nothing() {
    let mut harness = Harness::new();
    harness.state().has_events = true;
    harness.subscribe("m");
    let body = Harness::message("m", "");
    let id = harness.produce(&body);
    let held = harness.incoming_of(&id);
    harness.try_poison_as(&id, &body).expect("nothing fails");
    assert!(harness.invoke_with(vec![held]).is_empty(), "the delivery has ended");
    harness.drop_travelling();
    assert_eq!((harness.posts_to("m"), harness.events.len()), (0, 1));
    assert_eq!((harness.bodies(), harness.state().described.len()), (1, 1));
    assert_eq!(harness.ended("m"), (ledger::State::Failed, Some(Reason::Poison)));
}

#[test]
fn the_quarantine_waits_for_a_worker_that_may_be_sending() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let body = Harness::message("m", "");
    let id = harness.produce(&body);
    harness.dies_over(&id, "claim");
    assert!(harness.try_poison_as(&id, &body).is_err(), "its lease is not over");
    assert_eq!(harness.bodies(), 0);
    harness.pass(Duration::from_secs(60));
    for _ in 0..2 {
        harness.try_poison_as(&id, &body).expect("nothing fails");
        assert_eq!(harness.ended("m"), (ledger::State::Failed, Some(Reason::Poison)));
        assert_eq!((harness.bodies(), harness.state().described.len()), (1, 1), "however often it comes");
    }
}

#[test]
fn a_gone_endpoint_is_removed_though_its_message_came_to_the_quarantine() {
    let mut harness = Harness::new();
    harness.state().has_events = true;
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(410)]);
    let body = Harness::message("m", r#","retry":{"dlq_retention_days":3}"#);
    let id = harness.produce(&body);
    harness.dies_over(&id, "record");
    assert_eq!(harness.state_of("m"), Some(ledger::State::Gone));
    harness.drop_travelling();
    for _ in 0..2 {
        harness.try_poison_as(&id, &body).expect("nothing fails");
    }
    let kept_for: Vec<u16> = harness.state().described.values().map(|it| it.retention_days).collect();
    assert_eq!((harness.bodies(), kept_for), (0, vec![3]), "as its policy says");
    harness.pass(Duration::from_secs(900));
    harness.sweep(Sweep::Prune);
    assert!(harness.state().subscriptions.is_empty());
    harness.run();
    let ends: BTreeSet<_> = harness.events.iter().map(|event| event["state"].to_string()).collect();
    assert_eq!(ends, BTreeSet::from([r#""gone""#.to_owned(), r#""pruned""#.to_owned()]));
}

#[test]
fn a_recorded_retry_that_comes_to_the_quarantine_is_handed_off() {
    for answer in [answered(503), retry_after(429, 1800)] {
        let mut harness = Harness::new();
        harness.state().has_events = true;
        harness.subscribe("m");
        harness.will_answer("m", vec![answer]);
        let body = Harness::message("m", "");
        let id = harness.produce(&body);
        harness.dies_over(&id, "record");
        assert_eq!(harness.state_of("m"), Some(ledger::State::Retrying));
        let not_before = harness.entry("m").and_then(|entry| entry.not_before).expect("it waits");
        harness.drop_travelling();
        // However often it comes, and also a copy of it.
        for _ in 0..2 {
            harness.try_poison_as(&id, &body).expect("nothing fails");
            harness.poison(&body);
        }
        assert_eq!((harness.bodies(), harness.state().described.len()), (0, 0));
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(ledger::State::Sent), 2));
        assert!(harness.state().sent[1].at >= not_before);
        let ends: Vec<_> = harness.events.iter().map(|event| event["state"].clone()).collect();
        assert_eq!(ends, ["sent"]);
    }
}

#[test]
fn bodies_are_deleted_when_their_time_is_over() {
    let mut harness = Harness::finished(Whom::Browser, vec![answered(400)], r#","ttl":600"#);
    assert_eq!(harness.sweep(Sweep::Bodies).bodies, 0);
    harness.pass(Duration::from_secs(601));
    assert_eq!(harness.sweep(Sweep::Bodies).bodies, 1);
    let state = harness.state();
    assert_eq!((state.bodies.len(), state.described.len()), (0, 1), "the description stays");
}
