//! A tenant's most concurrent attempts: a bound that any number of workers keep together, and messages that wait for it and are sent.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::FutureExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::seats::CLOCKS_DIFFER;
use redial_core::share::{Concurrency, Share};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use redial_engine::protection::{Admission, Ask, Guard, Seat, Settings};
use redial_memory::{Memory, PortErrorKind};

use crate::harness::{Harness, tenant};
use crate::protection::ask;

const LONGEST: Duration = Duration::from_secs(20);

fn may_have(memory: &Memory, tenant: &Tenant, most: &str) {
    let share = Share { concurrency: Concurrency::parse(most).ok(), ..Share::default() };
    memory.state().shares.insert(tenant.clone(), share);
}

/// A worker whose clock is ahead by so much, with its attempts and when they end.
struct Busy {
    guard: Guard,
    ahead: Duration,
    attempts: Vec<(Timestamp, Option<Seat>)>,
}

/// Workers that ask for batches of ten for two minutes, and attempts that take up to the longest time; how many of them were under way at
/// the most, and how many there were.
fn most_at_once(workers: u32, most: &str, seed: u64, skewed: bool) -> (usize, usize) {
    let memory = Memory::at(Timestamp::from_secs(1_800_000_000 + (seed % 30) as i64));
    may_have(&memory, &tenant(), most);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut busy: Vec<Busy> = (0..workers)
        .map(|number| Busy {
            guard: Guard::new(Settings { longest_attempt: LONGEST, ..Settings::default() }, number),
            ahead: if skewed { CLOCKS_DIFFER.mul_f64(rng.random()) } else { Duration::ZERO },
            attempts: Vec::new(),
        })
        .collect();
    let is_slow = seed.is_multiple_of(2);
    let (mut highest, mut all) = (0, 0);
    for _ in 0..2 * 60 * 2 {
        let now = memory.now();
        for worker in &mut busy {
            worker.attempts.retain(|(end, _)| *end > now);
            if !rng.random_bool(0.7) {
                continue;
            }
            let clock = now.plus(worker.ahead);
            let asks: Vec<Ask> = (0..10).map(|_| ask(clock)).collect();
            let admit = worker.guard.admit_some(&memory, &asks, true, clock, &mut rng);
            let admitted = admit.now_or_never().expect("the store answers at once");
            for (admission, seat) in admitted.admissions.into_iter().zip(admitted.seats) {
                if let Admission::Go { .. } = admission {
                    let seat = seat.expect("it has a seat");
                    // By its clock it may begin a while after it was admitted, and take the longest time.
                    let begins = clock.plus(Duration::from_secs_f64(rng.random_range(0.0..6.0)));
                    if begins > seat.until().minus(LONGEST) {
                        continue;
                    }
                    let takes = if is_slow { LONGEST } else { LONGEST.mul_f64(rng.random_range(0.0..0.2)) };
                    worker.attempts.push((begins.minus(worker.ahead).plus(takes), Some(seat)));
                    all += 1;
                }
            }
        }
        highest = highest.max(busy.iter().map(|worker| worker.attempts.len()).sum());
        memory.pass(Duration::from_millis(500));
    }
    (highest, all)
}

#[test]
fn workers_never_have_more_attempts_under_way_than_their_tenant_may() {
    for (workers, most) in [(1, "5"), (3, "8"), (12, "20"), (40, "7"), (5, "1")] {
        for seed in 0..4 {
            let (highest, all) = most_at_once(workers, most, seed, seed >= 2);
            let bound: usize = most.parse().expect("a number");
            assert!(highest <= bound, "{workers} workers, seed {seed}: {highest} of {bound}");
            // It is used, too: no fewer than half of the seats are taken at some time.
            assert!(2 * highest >= bound && all > 0, "{workers} workers, seed {seed}: {highest} of {bound}");
        }
    }
}

#[test]
fn a_lone_worker_gets_all_seats() {
    let (highest, _) = most_at_once(1, "20", 2, false);
    assert_eq!(highest, 20);
}

#[test]
fn without_the_shared_store_concurrency_is_not_limited() {
    let mut harness = Harness::new();
    may_have(&harness.memory, &tenant(), "1");
    harness.memory.fail("lease", 1_000, PortErrorKind::Throttled);
    harness.push_many("m", 40, "");
    harness.run();
    assert!(harness.all_are("m", 40, State::Sent));
    assert_eq!(harness.count(Metric::Deferred), 0);
}

#[test]
fn what_finds_no_seat_follows_in_the_same_invocation_and_uses_no_attempt() {
    for most in ["1", "3", "100"] {
        let mut harness = Harness::new();
        may_have(&harness.memory, &tenant(), most);
        harness.push_many("m", 10, "");
        harness.deliver_together();
        let ids = harness.queued();
        let incoming = harness.receive(&ids);
        assert_eq!(harness.invoke_with(incoming), [""; 0], "{most}: all are acknowledged");
        assert!(harness.all_are("m", 10, State::Sent), "{most}");
        let posts = harness.state().sent.len();
        assert_eq!((posts, harness.count(Metric::Deferred)), (10, 0), "{most}");
    }
}

#[test]
fn what_other_workers_have_no_seat_left_for_comes_back_and_is_sent() {
    let mut harness = Harness::new();
    may_have(&harness.memory, &tenant(), "2");
    // Another worker has all seats of this window and the next one.
    let other = Guard::new(Settings::default(), 9);
    let mut held = Vec::new();
    for _ in 0..3 {
        let (now, mut rng) = (harness.now(), StdRng::seed_from_u64(1));
        let asks = [ask(now), ask(now)];
        let admit = other.admit(&harness.memory, &asks, now, &mut rng);
        held.push(admit.now_or_never().expect("the store answers at once").seats);
    }
    assert_eq!(held.iter().flatten().flatten().count(), 2);
    harness.push_many("m", 10, "");
    let began = harness.now();
    harness.run();
    assert!(harness.all_are("m", 10, State::Sent));
    assert!(harness.count(Metric::Deferred) >= 10 && harness.state().sent.len() == 10);
    let attempts: BTreeMap<usize, u32> =
        (0..10).filter_map(|n| Some((n, harness.entry(&format!("m{n}"))?.turn.attempt.0))).collect();
    assert!(attempts.values().all(|attempt| *attempt == 0), "none has used an attempt: {attempts:?}");
    let first = harness.state().sent.iter().map(|push| push.at).min();
    assert!(first > Some(began), "{first:?}");
}

#[test]
fn another_tenant_does_not_wait_for_seats() {
    let mut harness = Harness::new();
    may_have(&harness.memory, &Tenant::parse("other").expect("valid"), "1");
    harness.push_many("m", 10, "");
    harness.run();
    assert!(harness.all_are("m", 10, State::Sent));
    assert!(!harness.state().trace.contains(&"lease"), "no call is made for it");
}
