//! Limits hold between workers, which use them up: an origin's, a receiver's, and that of retries.

use std::time::Duration;

use futures_util::future::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::protection::token_bucket::AHEAD;
use redial_core::protection::{OriginState, Phase};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock, Limited, StoredOrigin};
use redial_engine::protection::{Admission, Admitted, Ask, EndpointLimit, ProbeOf, Seen};
use redial_memory::senders::answered;
use redial_memory::{Memory, PortErrorKind};
use serde_json::json;

use crate::harness::{Harness, origin, tenant};
use crate::protection::{PUSH_SERVICE, Worker, ask, seen, with_successes_elsewhere};

/// An origin with this limit, and workers that ask for batches of ten as fast as they can.
struct UnderALimit {
    memory: Memory,
    workers: Vec<Worker>,
    start: Timestamp,
    rng: StdRng,
}

impl UnderALimit {
    fn of(limit: &str, numbers: &[u32]) -> Self {
        let memory = Memory::at(Timestamp::from_secs(1_800_000_000));
        let limit = Rate::parse(limit).expect("valid");
        memory.state().limits.insert(Limited::Origin(origin(PUSH_SERVICE)), limit);
        let workers = numbers.iter().map(|number| Worker::on(&memory, *number)).collect();
        Self { start: memory.now(), memory, workers, rng: StdRng::seed_from_u64(1) }
    }

    /// Admits a batch of `messages` messages, as the worker with that place does.
    fn batch(&mut self, worker: usize, messages: usize) -> Admitted {
        let now = self.memory.now();
        let asks: Vec<Ask> = (0..messages).map(|_| ask(now)).collect();
        let worker = &self.workers[worker];
        let admit = worker.guard.admit(&worker.memory, &asks, now, &mut self.rng);
        admit.now_or_never().expect("the store answers at once")
    }

    /// When those of a batch of each worker that get slots may go, in milliseconds.
    fn batches(&mut self) -> Vec<u64> {
        let mut went = Vec::new();
        for worker in 0..self.workers.len() {
            let admitted = self.batch(worker, 10);
            assert!(admitted.changes.errors.is_empty());
            went.extend(admitted.admissions.iter().filter_map(|admission| match admission {
                Admission::Go { at, .. } => u64::try_from(at.since(self.start).as_millis()).ok(),
                Admission::Later { .. }
                | Admission::LinesUp { .. }
                | Admission::Seatless { .. }
                | Admission::TooLate => None,
            }));
        }
        went
    }
}

/// When the messages may go of two workers, for a minute at a limit of fifty a second; the first worker may die at that second.
fn admitted_under_a_limit(dies_at: Option<u64>) -> Vec<u64> {
    let mut under = UnderALimit::of("50/s", &[0, 1]);
    let mut went = Vec::new();
    for step in 0..60 * 20 {
        if dies_at.is_some_and(|at| step == at * 20) {
            under.workers.remove(0);
        }
        went.extend(under.batches());
        under.memory.pass(Duration::from_millis(50));
    }
    went.sort_unstable();
    went
}

#[test]
fn two_workers_use_a_limit_up_and_exceed_it_by_one_block_each_at_most() {
    let went = admitted_under_a_limit(None);
    let in_five_seconds = |from: &u64| went.iter().filter(|at| (*from..from + 5_000).contains(*at)).count();
    let most = went.iter().map(in_five_seconds).max();
    assert!(most <= Some(250 + 2 * 10), "{most:?}");
    assert!(went.len() >= 60 * 50 * 95 / 100, "{} of 3000", went.len());
}

#[test]
fn a_worker_that_dies_loses_its_block_and_nothing_else() {
    let after = admitted_under_a_limit(Some(30)).into_iter().filter(|at| *at >= 31_000).count();
    assert!(after >= 29 * 50 * 95 / 100, "{after} in the last 29 s");
}

#[test]
fn workers_use_a_limit_up_that_has_more_parts_than_there_are_workers() {
    // Of four parts; the numbers of two workers name the same one.
    for numbers in [&[5][..], &[1, 5], &[1, 2]] {
        let mut under = UnderALimit::of("2000/s", numbers);
        let mut went = Vec::new();
        for _ in 0..4 * 250 {
            went.extend(under.batches());
            under.memory.pass(Duration::from_millis(4));
        }
        let within = |from: u64, until: u64| went.iter().filter(|at| (from..until).contains(*at)).count();
        let used = within(0, 4_000);
        assert!(used >= 8_000 * 90 / 100, "{numbers:?}: {used} of 8,000");
        let most = (0..4_000).step_by(100).map(|from| within(from, from + 1_000)).max();
        assert!(most <= Some(2_000 * 110 / 100), "{numbers:?}: {most:?} in a second");
        let parts = under.memory.state().slots.keys().filter(|key| key.starts_with("origin#")).count();
        assert_eq!(parts, 4, "{numbers:?}");
    }
}

#[test]
fn all_workers_divide_a_bucket_alike_whenever_they_read_its_pace() {
    let memory = Memory::at(Timestamp::from_secs(1_800_000_000));
    let now = memory.now();
    let pace = json!({
        "limit": 1_100.0, "took": 1_000.0, "at": now, "since": now,
        "parts": {"before": 2, "number": 3, "from": now.plus(Duration::from_secs(4))},
    });
    let mut state = OriginState::default();
    state.pace = serde_json::from_value(pace).expect("a pace");
    state.looked_at = now;
    memory.state().origins.insert(origin(PUSH_SERVICE), StoredOrigin { state, version: 1 });
    let mut rng = StdRng::seed_from_u64(1);
    for (pause, parts) in [(0, vec!["#0", "#1"]), (3_900, vec!["#0", "#1"]), (100, vec!["#0", "#1", "#2"])] {
        memory.pass(Duration::from_millis(pause));
        memory.state().slots.clear();
        for worker in [0, 1, 2].map(|number| Worker::on(&memory, number)) {
            let now = memory.now();
            let asks = [ask(now)];
            let admit = worker.guard.admit(&memory, &asks, now, &mut rng);
            admit.now_or_never().expect("the store answers at once");
        }
        let slots = memory.state().slots.clone();
        let (taken, free_from): (Vec<&str>, Vec<Timestamp>) =
            slots.iter().filter_map(|(key, at)| Some((key.strip_prefix("origin#")?, *at))).unzip();
        let expected: Vec<String> = parts.iter().map(|part| format!("{PUSH_SERVICE}{part}")).collect();
        assert_eq!(taken, expected, "{pause}");
        // A part that was not in use begins behind what was taken ahead of the others.
        let ahead = memory.now().plus(AHEAD);
        assert!(free_from.iter().all(|at| *at > ahead), "{pause}");
    }
}

#[test]
fn a_limit_that_could_not_be_read_is_read_again_soon() {
    let mut under = UnderALimit::of("1/s", &[0]);
    under.memory.fail("protection", 1, PortErrorKind::Throttled);
    let mut admitted = |pause: u64| {
        under.memory.pass(Duration::from_millis(pause));
        under.batch(0, 10).admissions.iter().filter(|it| matches!(it, Admission::Go { .. })).count()
    };
    assert_eq!(
        (admitted(0), admitted(1_000)),
        (10, 10),
        "it is not known, and protection never stops the sending"
    );
    assert!(admitted(500) <= 2);
}

/// What was turned away at an old limit has places for hours; what comes under a new one does not wait behind them.
#[test]
fn no_message_waits_behind_places_of_a_limit_that_was_raised() {
    let mut under = UnderALimit::of("1/s", &[0]);
    let latest = |under: &mut UnderALimit| {
        let now = under.memory.now();
        let place = |admission: &Admission| match admission {
            Admission::Later { at } => Some(at.since(now)),
            Admission::Go { .. }
            | Admission::LinesUp { .. }
            | Admission::Seatless { .. }
            | Admission::TooLate => None,
        };
        under.batch(0, 1_000).admissions.iter().filter_map(place).max().expect("some wait")
    };
    assert!(latest(&mut under) > Duration::from_secs(900));
    let limit = Rate::parse("100/s").expect("valid");
    under.memory.state().limits.insert(Limited::Origin(origin(PUSH_SERVICE)), limit);
    under.memory.pass(Duration::from_secs(60));
    assert!(latest(&mut under) < Duration::from_secs(30));
}

#[test]
fn a_limit_holds_for_probes_too() {
    let worker = Worker::new();
    worker.learn(seen(100, 100));
    let limit = Rate::parse("1/min").expect("valid");
    worker.memory.state().limits.insert(Limited::Tenant(tenant()), limit);
    worker.memory.pass(Duration::from_secs(40));
    let now = worker.memory.now();
    assert_eq!(worker.admit(ask(now)), Admission::Go { at: now, probe: Some(ProbeOf::Origin) });
    assert!(matches!(worker.admit(ask(now)), Admission::Later { .. }));
    let phase = worker.memory.state().origins[&origin(PUSH_SERVICE)].state.breaker().phase(now);
    assert!(matches!(phase, Phase::HalfOpen { sent: 1, .. }), "{phase:?}");
}

#[test]
fn a_receiver_s_own_rate_holds_for_it_alone() {
    let worker = Worker::new();
    let now = worker.memory.now();
    let to = |id: &str| {
        let key = Harness::subscription_key(id);
        let rate = Rate::parse("1/min").expect("valid");
        let endpoint = Some(EndpointLimit { subscription: key, rate: Some(rate) });
        worker.admit(Ask { endpoint, ..ask(now) })
    };
    assert!(matches!(to("a"), Admission::Go { .. }));
    let Admission::Later { at } = to("a") else { panic!("it waits for its slot") };
    assert_eq!(at.since(now).as_secs(), 60);
    let Admission::Later { at } = to("a") else { panic!("behind the other") };
    assert_eq!(at.since(now).as_secs(), 120);
    assert!(matches!(to("b"), Admission::Go { .. }));
}

#[test]
fn a_failing_endpoint_s_retries_are_limited_and_first_attempts_are_not() {
    let worker = with_successes_elsewhere();
    let key = |id: &str| Harness::subscription_key(id);
    let retry = |id: &str| {
        let endpoint = Some(EndpointLimit { subscription: key(id), rate: None });
        worker.admit(Ask { endpoint, is_retry: true, ..ask(worker.memory.now()) })
    };
    let fails = |times: u32| {
        let failed = Seen { failed_again: Some(key("a")), ..seen(1, 0) };
        (0..times).for_each(|_| worker.learn(failed.clone()));
    };
    fails(9);
    (0..30).for_each(|_| assert!(matches!(retry("a"), Admission::Go { .. })));
    fails(1);
    let now = worker.memory.now();
    let waits = |admission| match admission {
        Admission::Later { at } => Some(at.since(now).as_millis()),
        Admission::Go { .. }
        | Admission::LinesUp { .. }
        | Admission::Seatless { .. }
        | Admission::TooLate => None,
    };
    let waiting: Vec<u128> = (0..100).filter_map(|_| waits(retry("a"))).collect();
    assert!(waiting.len() >= 70, "{waiting:?}");
    assert!(waiting.is_sorted() && waiting.last().is_some_and(|last| *last >= 7_000), "{waiting:?}");
    assert!(matches!(retry("b"), Admission::Go { .. }));
    assert!(matches!(worker.admit(ask(now)), Admission::Go { .. }));
    worker.memory.pass(Duration::from_secs(11));
    assert!(matches!(retry("a"), Admission::Go { .. }), "it has not failed for ten seconds");
}

#[test]
fn messages_that_a_webhook_refuses_at_once_take_turns() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.state().usual_answer = Some(answered(404));
    let fields = r#","retry":{"base_delay_ms":0,"max_retries":100,"jitter":"none"}"#;
    for n in 0..50 {
        harness.produce(&Harness::message_to("m", &format!("m{n}"), fields));
    }
    let begin = harness.now();
    harness.run_to(begin.plus(Duration::from_secs(60)));
    let posts = harness.state().webhooks.len();
    println!("{posts} posts in a minute");
    // The first attempts, two rounds of retries until a worker knows better, and ten a second.
    assert!((400..50 + 2 * 50 + 60 * 10).contains(&posts), "{posts}");
    assert_eq!(harness.phase(&origin("https://hooks.example")), Phase::Closed);
}
