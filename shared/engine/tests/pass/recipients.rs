//! One recipient of a host that many share is in trouble: it is held back itself, and the others go on.

use std::time::Duration;

use redial_core::endpoint::EndpointHash;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::{Circuit, Phase, Whose};
use redial_core::reason::Reason;
use redial_engine::ports::Clock;
use redial_engine::protection::Seen;
use redial_memory::senders::answered;

use crate::harness::{Harness, origin};
use crate::protection::{Worker, seen};
use crate::scenarios::retry_after;

const HOST: &str = "https://hooks.example";
const RECEIVERS: usize = 12;

/// The dead one of them.
const DEAD: &str = "r0";

/// A tenant's twelve receivers at one host, of which the first answers with this status.
fn host(status: u16) -> Harness {
    let harness = Harness::new();
    (0..RECEIVERS).for_each(|n| harness.subscribe_hook(&format!("r{n}")));
    harness.will_answer(DEAD, vec![answered(status); 2_000]);
    harness
}

/// In each of `seconds` seconds, sends a message to each receiver and `to_the_dead` messages to the dead one.
fn traffic(harness: &mut Harness, seconds: u64, to_the_dead: usize) {
    let begin = harness.now();
    for second in 0..seconds {
        let at = Duration::from_secs(second);
        for n in 1..RECEIVERS {
            let id = format!("m{n}-{}-{second}", begin.as_secs());
            harness.produce_after(at, &Harness::message_to(&format!("r{n}"), &id, ""));
        }
        for n in 0..to_the_dead {
            let id = format!("d{n}-{}-{second}", begin.as_secs());
            harness.produce_after(at, &Harness::message_to(DEAD, &id, ""));
        }
    }
    // What comes in the last of them is delivered, too.
    harness.produce_after(
        Duration::from_secs(seconds),
        &Harness::message_to("r1", &format!("end-{}", begin.as_secs()), ""),
    );
    harness.run_to(begin.plus(Duration::from_secs(seconds)));
}

fn phase(harness: &Harness) -> Option<Phase> {
    let now = harness.now();
    let state = harness.state();
    let mut of = state.recipients.iter().filter(|(circuit, _)| matches!(circuit, Circuit::Recipient(_)));
    let found = of.next().map(|(_, stored)| stored.state.breaker().phase(now));
    assert!(of.next().is_none(), "only one is in trouble");
    found
}

#[test]
fn one_failing_receiver_of_twelve_is_held_back_and_the_others_are_sent_at_once() {
    let mut harness = host(503);
    traffic(&mut harness, 10, 4);
    let Some(Phase::Open { until }) = phase(&harness) else { panic!("{:?}", phase(&harness)) };
    assert_eq!(harness.phase(&origin(HOST)), Phase::Closed);
    let (posts, now) = (harness.posts_to(DEAD), harness.now());
    let left = until.since(now).as_secs();
    traffic(&mut harness, left, 4);
    let during = harness.posts_to(DEAD) - posts;
    println!("{posts} posts until it was held back, {during} in the {left} s after it");
    assert!(posts <= 45 && during == 0, "{posts} {during}");
    assert!(harness.count(Metric::Deferred) > 20);
    assert_eq!(harness.count(Metric::BreakersOpened), 0, "one recipient's wakes no operator");
    for n in 1..RECEIVERS {
        assert_eq!(
            harness.state_of(&format!("m{n}-{}-{}", now.as_secs(), left - 1)),
            Some(State::Sent),
            "{n}"
        );
    }
    // First attempts wait, too, and none was used.
    let last = format!("d0-{}-{}", now.as_secs(), left - 1);
    assert_eq!(harness.state_of(&last), Some(State::Deferred));
}

#[test]
fn a_receiver_that_recovers_gets_probes_and_then_all_that_waited() {
    let mut harness = host(503);
    traffic(&mut harness, 60, 2);
    assert!(
        matches!(phase(&harness), Some(Phase::Open { .. } | Phase::HalfOpen { .. })),
        "{:?}",
        phase(&harness)
    );
    harness.will_answer(DEAD, Vec::new());
    let back = harness.now();
    traffic(&mut harness, 150, 1);
    assert!(matches!(phase(&harness), Some(Phase::Ramping { .. } | Phase::Closed)), "{:?}", phase(&harness));
    harness.run();
    assert_eq!(harness.dead_letters(Reason::RetriesExhausted), 0);
    let all_arrive = harness.state().ledger.values().all(|entry| entry.state == State::Sent);
    assert!(all_arrive);
    let breakers = harness.state().breakers.clone();
    println!("{:?}, closed within {} s", &breakers[..3], harness.now().since(back).as_secs());
    assert_eq!(breakers[0], ("closed", "open"));
    assert!(breakers.contains(&("half_open", "ramping")), "{breakers:?}");
}

#[test]
fn a_receiver_that_asks_for_a_pause_is_paused_alone() {
    let mut harness = host(503);
    harness.will_answer(DEAD, vec![retry_after(429, 120); 2_000]);
    traffic(&mut harness, 10, 8);
    assert!(matches!(phase(&harness), Some(Phase::Paused { .. })), "{:?}", phase(&harness));
    assert!(!matches!(harness.phase(&origin(HOST)), Phase::Paused { .. }));
}

#[test]
fn the_only_receiver_of_a_host_has_no_breaker_besides_its_origin_s() {
    let mut harness = Harness::new();
    harness.subscribe_hook(DEAD);
    harness.will_answer(DEAD, vec![answered(503); 2_000]);
    for n in 0..60 {
        harness.produce(&Harness::message_to(DEAD, &format!("d{n}"), ""));
    }
    harness.run_until(|it| matches!(it.phase(&origin(HOST)), Phase::Open { .. }));
    assert_eq!(phase(&harness), None);
}

/// The worker sees this many attempts to a numbered recipient, and failures among them.
fn learn_of(worker: &Worker, recipient: u64, attempts: u64, failures: u64) {
    let address = EndpointHash::parse(&format!("hmac:k1:{recipient:064x}"));
    let whose = Whose::numbered(seen(1, 0).whose.tenant(), recipient);
    worker.learn(Seen { whose, address, ..seen(attempts, failures) });
}

/// The first that fail of all look like the only ones.
#[test]
fn what_others_fail_of_soon_after_opens_no_breaker_of_a_recipient() {
    let worker = Worker::new();
    let meets = |recipient, attempts, failures| {
        learn_of(&worker, recipient, attempts, failures);
        worker.memory.pass(Duration::from_secs(2));
    };
    let failed_of_recipients = || {
        let now = worker.memory.now();
        let state = worker.memory.state();
        let of: Vec<_> = state.recipients.values().map(|it| it.state.five_minutes(now).failures).collect();
        assert!(state.recipients.values().all(|it| it.state.breaker().phase(now) == Phase::Closed));
        of
    };
    meets(3, 60, 0);
    meets(0, 10, 10);
    meets(0, 1, 1);
    assert_eq!(failed_of_recipients(), [11], "others succeed: it is followed");
    (1..3).for_each(|recipient| meets(recipient, 9, 9));
    (0..20).for_each(|_| meets(0, 1, 1));
    assert_eq!(failed_of_recipients(), [11], "others fail, too: it is the origin's trouble");
}

/// A recipient that most messages are for is the first to fail, and fails most. Of those that succeed again first, one is enough to show
/// that it concerns no others.
#[test]
fn what_all_failed_of_opens_no_breaker_of_a_recipient_when_they_succeed_again() {
    let worker = Worker::new();
    let meets = |recipient, attempts, failures| {
        learn_of(&worker, recipient, attempts, failures);
        worker.memory.pass(Duration::from_secs(1));
    };
    meets(2, 20, 0);
    meets(0, 5, 5);
    (0..10).for_each(|_| (0..3).for_each(|recipient| meets(recipient, 2, 2)));
    worker.memory.pass(Duration::from_secs(30));
    // A probe fails, and then all is well.
    (0..2).for_each(|recipient| meets(recipient, 2, 2));
    worker.memory.pass(Duration::from_secs(10));
    (0..20).for_each(|_| [2, 1, 0].into_iter().for_each(|recipient| meets(recipient, 1, 0)));
    let now = worker.memory.now();
    let state = worker.memory.state();
    let opened: Vec<_> = state.recipients.values().map(|it| it.state.breaker().phase(now)).collect();
    assert_eq!(opened, [], "it was everyone's trouble");
}

#[test]
fn receivers_that_succeed_cost_no_call_and_no_memory() {
    let mut harness = host(200);
    traffic(&mut harness, 5, 2);
    assert_eq!(phase(&harness), None);
    let guard = format!("{:?}", harness.worker.guard);
    assert!(guard.contains("recipients: {}") && guard.contains("doubts: {}"), "{guard}");
}

/// Eight of nineteen messages a second go to the failing one, and are there first: a worker that judges by the first ten has seen two others.
#[test]
fn a_flood_to_one_failing_receiver_holds_back_none_of_the_others_of_its_tenant() {
    for (every, flood) in [(1, 8), (2, 8), (5, 8)] {
        let mut harness = host(500);
        let begin = harness.now();
        for second in 0..60 {
            let at = Duration::from_secs(second);
            let to_the_dead = if second % every == 0 { flood } else { 0 };
            for n in 0..to_the_dead {
                harness.produce_after(at, &Harness::message_to(DEAD, &format!("d{n}-{second}"), ""));
            }
            for n in 1..RECEIVERS {
                let id = format!("m{n}-{second}");
                harness.produce_after(at, &Harness::message_to(&format!("r{n}"), &id, ""));
            }
        }
        let is_open = |harness: &Harness| matches!(phase(harness), Some(Phase::Open { .. }));
        let opened = (1..60).find(|second| {
            harness.run_to(begin.plus(Duration::from_secs(*second)));
            is_open(&harness)
        });
        harness.run_to(begin.plus(Duration::from_secs(60)));
        let posts = harness.posts_to(DEAD);
        println!(
            "every {every} s {flood}: open after {opened:?} s and {posts} posts, origin {:?}",
            harness.phase(&origin(HOST))
        );
        assert!(opened.is_some_and(|second| second <= 20), "{opened:?}");
        assert_eq!(harness.phase(&origin(HOST)), Phase::Closed);
        for n in 1..RECEIVERS {
            assert_eq!(harness.state_of(&format!("m{n}-30")), Some(State::Sent), "{n}");
        }
    }
}
