//! An origin goes out and comes back, and a worker that dies in between leaves nothing stuck.

use std::time::Duration;

use futures_util::future::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::{Count, Phase, Place, Rank, Whose};
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::time::{Timestamp, Ttl};
use redial_engine::ports::{Clock, Limited};
use redial_engine::protection::{Admission, Ask, Guard, ProbeOf, Seen, Settings};
use redial_memory::senders::answered;
use redial_memory::{Death, Memory, PortErrorKind};

use crate::harness::{Harness, Whom, origin, tenant};
use crate::scenarios::retry_after;

const SHARED: [&str; 5] = ["protection", "look", "exchange", "add", "lease"];
pub(crate) const PUSH_SERVICE: &str = "https://push.example";

fn phase(harness: &Harness) -> Phase {
    harness.phase(&origin(PUSH_SERVICE))
}

/// A harness whose push service is out, with `messages` messages to it.
fn out(messages: usize) -> Harness {
    let mut harness = Harness::new();
    harness.state().usual_answer = Some(answered(503));
    harness.push_many("m", messages, "");
    harness
}

/// The same with sixty messages, up to when its breaker opens; and when its cooldown ends.
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
fn a_policy_s_list_of_statuses_does_not_hide_an_outage() {
    for list in [r#""retryable":[503]"#, r#""permanent":[503]"#] {
        let mut harness = Harness::new();
        harness.state().usual_answer = Some(answered(503));
        harness.push_many("m", 60, &format!(r#","retry":{{{list}}}"#));
        harness.run_until(|it| it.count(Metric::BreakersOpened) == 1);
        assert!(matches!(phase(&harness), Phase::Open { .. }), "{list}");
    }
}

#[test]
fn a_policy_s_list_of_statuses_does_not_hide_a_limit() {
    for list in [r#""retryable":[429]"#, r#""permanent":[429]"#] {
        let mut harness = Harness::new();
        harness.state().usual_answer = Some(retry_after(429, 60));
        harness.push_many("m", 60, &format!(r#","retry":{{{list}}}"#));
        harness.run_until(|it| matches!(phase(it), Phase::Paused { .. }));
    }
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
    assert_eq!(harness.count(Metric::BreakersOpened), 1, "a failed probe is no other opening");
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
fn a_message_that_expires_before_the_cooldown_ends_at_once() {
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
fn without_the_shared_store_everything_is_still_sent() {
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
    pub(crate) guard: Guard,
}

/// What a worker has seen: `attempts` attempts, of which `failures` failed.
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
pub(crate) fn with_successes_elsewhere() -> Worker {
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
fn a_message_that_cannot_wait_is_sent_during_a_worker_s_own_pause() {
    let worker = with_successes_elsewhere();
    worker.learn(seen(20, 11));
    let now = worker.memory.now();
    let urgent = Ask { deadline: Ttl::ZERO.deadline_from(now), ..ask(now) };
    assert!(matches!(worker.admit(urgent), Admission::Go { probe: None, .. }));
}
