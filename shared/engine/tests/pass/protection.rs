//! An origin goes out and comes back, limits hold between workers, and a worker that dies in between leaves nothing stuck.

use std::time::Duration;

use futures_util::future::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::token_bucket::AHEAD;
use redial_core::protection::{Count, OriginState, Phase, Place, Rank, Whose};
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::time::{Timestamp, Ttl};
use redial_engine::ports::{Clock, Limited, StoredOrigin};
use redial_engine::protection::{Admission, Ask, EndpointLimit, Guard, ProbeOf, Seen, Settings};
use redial_memory::senders::answered;
use redial_memory::{Death, Memory, PortErrorKind};
use serde_json::json;

use crate::harness::{Harness, Whom, origin, tenant};
use crate::scenarios::retry_after;

const SHARED: [&str; 5] = ["protection", "look", "exchange", "add", "lease"];
pub(crate) const PUSH_SERVICE: &str = "https://push.example";

fn phase(harness: &Harness) -> Phase {
    harness.phase(&origin(PUSH_SERVICE))
}

/// A harness whose push service is out, with so many messages to it.
fn out(messages: usize) -> Harness {
    let mut harness = Harness::new();
    harness.state().usual_answer = Some(answered(503));
    harness.push_many("m", messages, "");
    harness
}

/// The same with sixty messages, up to when its breaker opens; and until when it is open.
fn opened() -> (Harness, Timestamp) {
    let mut harness = out(60);
    harness.run_until(|it| matches!(phase(it), Phase::Open { .. }));
    let Phase::Open { until } = phase(&harness) else { panic!("it is open") };
    (harness, until)
}

#[test]
fn while_it_is_open_nothing_is_sent_and_no_attempt_is_used_and_in_the_end_all_arrive() {
    let (mut harness, until) = opened();
    let posts = harness.state().sent.len();
    assert!(posts <= 120, "{posts}: the first attempts, which no time passes between, and some retries");
    harness.run_until(|it| it.now() >= until);
    assert_eq!(harness.state().sent.len(), posts);
    let entries = (0..60).filter_map(|n| harness.entry(&format!("m{n}")));
    // Those that wait for their first attempt have an entry, too.
    let entries = entries.filter(|entry| entry.state != State::Deferred);
    assert_eq!(entries.map(|entry| entry.turn.attempt.0 + 1).sum::<u32>() as usize, posts);
    assert!(harness.count(Metric::Deferred) > 10);
    assert_eq!(harness.count(Metric::BreakersOpened), 1);

    harness.state().usual_answer = None;
    harness.run();
    assert!(harness.all_are("m", 60, State::Sent));
    assert!((0..60).all(|n| harness.posts_to(&format!("m{n}")) <= 4));
    let transitions = harness.state().breakers.clone();
    assert_eq!(transitions[..3], [("closed", "open"), ("open", "half_open"), ("half_open", "ramping")]);
}

#[test]
fn a_probe_that_fails_opens_it_again() {
    let mut harness = out(60);
    harness.run_until(|it| it.state().breakers.contains(&("closed", "open")));
    let posts = harness.state().sent.len();
    harness.run_until(|it| it.state().breakers.contains(&("half_open", "open")));
    let now = harness.now();
    let Phase::Open { until } = phase(&harness) else { panic!("it is open") };
    assert!((30..=33).contains(&until.since(now).as_secs()));
    assert!(harness.state().sent.len() <= posts + 5, "a few probes and no more");
}

#[test]
fn another_origin_goes_on() {
    let (mut harness, _) = opened();
    let now = harness.now();
    harness.will_answer("w", vec![answered(200)]);
    harness.produce(&Harness::message_to_url("w", "w", ""));
    harness.run_until(|it| it.state_of("w") == Some(State::Sent));
    assert!(harness.now().since(now) < Duration::from_secs(1));
}

#[test]
fn a_message_that_would_be_over_before_the_cooldown_is_ends_at_once_as_ttl_exceeded() {
    let (mut harness, _) = opened();
    let (now, posts) = (harness.now(), harness.state().sent.len());
    harness.push("short", r#","ttl":20"#);
    harness.run_until(|it| it.state_of("short").is_some());
    assert_eq!(harness.ended("short").1, Some(Reason::TtlExceeded));
    assert!(harness.now().since(now) < Duration::from_secs(1));
    assert_eq!(harness.state().sent.len(), posts);
}

#[test]
fn a_storm_of_429_is_waited_out_and_uses_few_attempts() {
    let mut harness = out(60);
    harness.state().usual_answer = Some(retry_after(429, 60));
    harness.run_until(|it| matches!(phase(it), Phase::Paused { .. }));
    let posts = harness.state().sent.len();
    let Phase::Paused { until } = phase(&harness) else { panic!("it is paused") };
    harness.run_until(|it| it.now() >= until);
    assert_eq!(harness.state().sent.len(), posts);
    harness.state().usual_answer = None;
    harness.run();
    assert!(harness.all_are("m", 60, State::Sent));
}

#[test]
fn without_the_shared_store_everything_is_sent_all_the_same() {
    let mut harness = Harness::new();
    let limit = Rate::parse("1/h").expect("valid");
    harness.state().limits.insert(Limited::Tenant(tenant()), limit);
    SHARED.iter().for_each(|name| harness.memory.fail(name, 1000, PortErrorKind::Throttled));
    harness.push_many("m", 40, "");
    harness.will_answer("m3", vec![answered(503)]);
    harness.run();
    assert!(harness.all_are("m", 40, State::Sent));
}

/// An outage of 40 s, and what became of it.
fn lived_through(death: Option<Death>) -> Harness {
    let mut harness = out(30);
    harness.state().death = death;
    let back = harness.now().plus(Duration::from_secs(40));
    harness.run_until(|it| it.now() >= back);
    harness.state().usual_answer = None;
    harness.run();
    harness
}

#[test]
fn a_worker_killed_between_any_two_shared_writes_leaves_nothing_stuck() {
    let trace = lived_through(None).state().trace.clone();
    let shared = trace.iter().enumerate().filter(|(_, name)| SHARED.contains(name));
    let mut deaths = 0;
    for (at, name) in shared {
        for death in [Death::Before(at + 1), Death::After(at + 1)] {
            deaths += 1;
            let mut harness = lived_through(Some(death));
            let case = format!("{death:?} ({name})");
            assert!(harness.all_are("m", 30, State::Sent), "{case}");
            // Two minutes later a new message goes at once.
            harness.pass(Duration::from_secs(120));
            let now = harness.now();
            assert!(matches!(phase(&harness), Phase::Closed), "{case}: {:?}", phase(&harness));
            assert!(harness.state().slots.values().all(|free_from| *free_from <= now), "{case}");
            harness.push("late", "");
            harness.run_until(|it| it.state_of("late") == Some(State::Sent));
            assert!(harness.now().since(now) < Duration::from_secs(2), "{case}");
            // And the next outage opens it again.
            harness.state().usual_answer = Some(answered(503));
            harness.push_many("n", 40, "");
            harness.run_until(|it| matches!(phase(it), Phase::Open { .. }));
        }
    }
    assert!(deaths > 40, "{deaths} deaths are too few to be all of them");
}

/// Whatever it had recorded and not handed off: what is held back in its place takes that up.
#[test]
fn a_worker_killed_at_any_effect_of_an_outage_loses_no_message() {
    let trace = lived_through(None).state().trace.clone();
    for n in 1..=trace.len() {
        let harness = lived_through(Some(Death::After(n)));
        assert!(harness.all_are("m", 30, State::Sent), "after {n} ({})", trace[n - 1]);
    }
}

/// The outcome is recorded, the worker dies, and when its message comes back the breaker is open: what is held back is another
/// SQS message by then.
#[test]
fn what_a_crash_left_undone_is_done_by_the_message_in_its_place() {
    for (answer, ends) in [(503, State::Sent), (400, State::Failed)] {
        let mut harness = Harness::prepared(Whom::Browser, vec![answered(answer)], "");
        harness.will_die(Death::AfterNext("record"));
        harness.run_until(|it| it.state_of("m").is_some_and(|state| state != State::Sending));
        harness.open_breaker(&origin(PUSH_SERVICE), Duration::from_secs(600));
        harness.run();
        assert!(harness.count(Metric::Deferred) > 0, "it was held back");
        assert_eq!(harness.state_of("m"), Some(ends));
        assert_eq!(harness.bodies(), usize::from(ends == State::Failed));
    }
}

pub(crate) fn ask(now: Timestamp) -> Ask {
    Ask {
        origin: origin(PUSH_SERVICE),
        tenant: tenant(),
        whose: Whose::numbered(Place::of(&origin(PUSH_SERVICE), &tenant()), 0),
        endpoint: None,
        rank: Rank::Middle,
        address: None,
        is_retry: false,
        is_last: false,
        deadline: Ttl::from_secs(86_400).deadline_from(now),
        posting: None,
    }
}

/// One worker's guard, and the ports that it uses.
pub(crate) struct Worker {
    pub(crate) memory: Memory,
    guard: Guard,
}

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

    /// When those of a batch of each worker that get slots may go, in milliseconds.
    fn batches(&mut self) -> Vec<u64> {
        let now = self.memory.now();
        let asks: Vec<Ask> = (0..10).map(|_| ask(now)).collect();
        let mut went = Vec::new();
        for worker in &self.workers {
            let admit = worker.guard.admit(&worker.memory, &asks, now, &mut self.rng);
            let admitted = admit.now_or_never().expect("the store answers at once");
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
fn workers_take_slots_of_as_many_parts_of_a_bucket_whenever_they_read_of_a_pace() {
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

/// What a worker has seen: so many attempts, of which so many failed.
pub(crate) fn seen(attempts: u64, failures: u64) -> Seen {
    let count = Count { attempts, failures, ..Count::default() };
    let origin = origin(PUSH_SERVICE);
    let whose = Whose::numbered(Place::of(&origin, &tenant()), 0);
    Seen {
        origin,
        count,
        whose,
        tenant: tenant(),
        address: None,
        probe: None,
        retry_after: None,
        failed_again: None,
        posted: None,
    }
}

impl Worker {
    pub(crate) fn on(memory: &Memory, number: u32) -> Self {
        Self { memory: memory.clone(), guard: Guard::new(Settings::default(), number) }
    }

    pub(crate) fn new() -> Self {
        Self::on(&Memory::at(Timestamp::from_secs(1_800_000_000)), 3)
    }

    /// What it has added to its counter.
    fn shared(&self) -> Count {
        self.memory.state().counters[&(origin(PUSH_SERVICE).into(), 3)].count
    }

    /// What becomes of a message that it asks for now.
    pub(crate) fn admit(&self, ask: Ask) -> Admission {
        self.admit_all(&[ask])[0]
    }

    /// What becomes of the messages of a batch.
    pub(crate) fn admit_all(&self, asks: &[Ask]) -> Vec<Admission> {
        let (now, mut rng) = (self.memory.now(), StdRng::seed_from_u64(1));
        let admit = self.guard.admit(&self.memory, asks, now, &mut rng);
        admit.now_or_never().expect("the store answers at once").admissions
    }

    pub(crate) fn learn(&self, seen: Seen) {
        let (now, mut rng) = (self.memory.now(), StdRng::seed_from_u64(1));
        let learn = self.guard.learn(&self.memory, vec![seen], now, &mut rng);
        assert_eq!(learn.now_or_never().expect("the store answers at once").errors, []);
    }
}

/// Shared, what one worker sees is no outage yet.
fn with_successes_elsewhere() -> Worker {
    let worker = Worker::new();
    let well = Count { attempts: 100_000, ..Count::default() };
    worker.memory.state().counters.insert((origin(PUSH_SERVICE).into(), 0), well.into());
    worker
}

#[test]
fn a_worker_that_sees_an_outage_pauses_before_the_others_see_it() {
    let worker = with_successes_elsewhere();
    worker.learn(seen(20, 11));
    assert_eq!(worker.memory.state().breakers, []);
    let now = worker.memory.now();
    let Admission::Later { at } = worker.admit(ask(now)) else { panic!("it pauses") };
    assert!((2_000..=4_000).contains(&at.since(now).as_millis()), "{at:?}");
    worker.memory.pass(Duration::from_secs(4));
    assert!(matches!(worker.admit(ask(now)), Admission::Go { .. }));
}

#[test]
fn fifty_attempts_of_a_healthy_origin_are_one_write_and_fewer_are_none() {
    let worker = Worker::new();
    for _ in 0..4 {
        worker.learn(seen(10, 0));
        worker.memory.pass(Duration::from_secs(20));
    }
    assert!(worker.memory.state().counters.is_empty());
    worker.learn(seen(10, 0));
    worker.memory.pass(Duration::from_secs(1));
    worker.learn(seen(10, 0));
    assert_eq!(worker.shared(), Count { attempts: 50, ..Count::default() });
}

#[test]
fn the_first_failure_shares_the_successes_before_it() {
    let worker = Worker::new();
    worker.learn(seen(30, 0));
    worker.memory.pass(Duration::from_secs(60));
    worker.learn(seen(10, 1));
    assert_eq!(worker.shared(), Count { attempts: 10, failures: 1, older: 30, ..Count::default() });
}

#[test]
fn a_last_attempt_is_a_probe_only_if_no_other_message_comes() {
    let worker = Worker::new();
    worker.learn(seen(100, 100));
    let now = worker.memory.now();
    let last = |worker: &Worker| worker.admit(Ask { is_last: true, ..ask(now) });
    let phase = worker.memory.state().origins[&origin(PUSH_SERVICE)].state.breaker().phase(now);
    let Phase::Open { until } = phase else { panic!("{phase:?}") };
    worker.memory.pass(until.since(now) + Duration::from_secs(2));
    assert!(matches!(last(&worker), Admission::Later { .. }));
    assert!(matches!(worker.admit(ask(now)), Admission::Go { probe: Some(ProbeOf::Origin), .. }));

    let worker = Worker::new();
    worker.learn(seen(100, 100));
    worker.memory.pass(until.since(now) + Duration::from_secs(30));
    assert!(matches!(last(&worker), Admission::Go { probe: Some(ProbeOf::Origin), .. }));
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
fn a_message_that_cannot_wait_is_sent_during_a_worker_s_own_pause() {
    let worker = with_successes_elsewhere();
    worker.learn(seen(20, 11));
    let now = worker.memory.now();
    let urgent = Ask { deadline: Ttl::ZERO.deadline_from(now), ..ask(now) };
    assert!(matches!(worker.admit(urgent), Admission::Go { probe: None, .. }));
}

#[test]
fn retries_to_an_endpoint_that_fails_are_ten_a_second_and_its_first_attempts_any_number() {
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
