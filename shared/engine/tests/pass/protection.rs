//! An origin goes out and comes back, limits hold between workers, and whoever dies in between leaves nothing stuck.

use std::time::Duration;

use futures_util::future::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::{Cooldowns, Count, OriginState, Phase, Rank};
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::time::{Timestamp, Ttl};
use redial_engine::ports::{Clock, Environment, Limited, StoredOrigin};
use redial_engine::protection::{Admission, Ask, EndpointLimit, Seen, Settings};
use redial_testkit::memory::sender::answered;
use redial_testkit::memory::{Death, PortErrorKind, World};

use crate::universe::Universe;

const SHARED: [&str; 5] = ["protection", "look", "exchange", "add", "lease"];

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("valid")
}

fn phase(universe: &Universe) -> Phase {
    let state = universe.world.state();
    let stored = state.origins.get(&origin("https://push.example"));
    stored.map_or(Phase::Closed, |stored| stored.state.breaker().phase(state.now))
}

/// A universe whose push service is out, with so many messages to it.
fn out(messages: usize, fields: &str) -> Universe {
    let mut universe = Universe::new();
    universe.world.state().usual_answer = Some(answered(503));
    for n in 0..messages {
        universe.subscribe(&format!("m{n}"));
        universe.produce(&Universe::message(&format!("m{n}"), fields));
    }
    universe
}

#[test]
fn while_it_is_open_nothing_is_sent_and_no_attempt_is_used_and_in_the_end_all_arrive() {
    let mut universe = out(60, "");
    universe.run_until(|it| matches!(phase(it), Phase::Open { .. }));
    let Phase::Open { until } = phase(&universe) else { panic!("it is open") };
    let posts = universe.world.state().sent.len();
    assert!(posts <= 120, "{posts}: the first attempts, which no time passes between, and some retries");
    universe.run_until(|it| it.world.now() >= until);
    assert_eq!(universe.world.state().sent.len(), posts);
    let entries = (0..60).filter_map(|n| universe.entry(&format!("m{n}")));
    assert_eq!(entries.map(|entry| entry.turn.attempt.0 + 1).sum::<u32>() as usize, posts);
    assert!(universe.world.state().counts[&Metric::Deferred] > 10);
    assert_eq!(universe.world.state().counts[&Metric::BreakersOpened], 1);

    universe.world.state().usual_answer = None;
    universe.run();
    for n in 0..60 {
        assert_eq!(universe.state_of(&format!("m{n}")), Some(State::Sent), "{n}");
        assert!(universe.posts_to(&format!("m{n}")) <= 4, "{n}");
    }
    let told = universe.world.state().breakers.clone();
    assert_eq!(told[..3], [("closed", "open"), ("open", "half_open"), ("half_open", "ramping")]);
}

#[test]
fn a_probe_that_fails_keeps_it_open_for_longer() {
    let mut universe = out(60, "");
    universe.run_until(|it| it.world.state().breakers.contains(&("closed", "open")));
    let posts = universe.world.state().sent.len();
    universe.run_until(|it| it.world.state().breakers.contains(&("half_open", "open")));
    let now = universe.world.now();
    let Phase::Open { until } = phase(&universe) else { panic!("it is open") };
    assert!((60..=66).contains(&until.since(now).as_secs()));
    assert!(universe.world.state().sent.len() <= posts + 5, "a few probes and no more");
}

#[test]
fn another_origin_goes_on() {
    let mut universe = out(60, "");
    universe.run_until(|it| matches!(phase(it), Phase::Open { .. }));
    let now = universe.world.now();
    universe.world.state().answers.insert(Universe::hook("w"), vec![answered(200)]);
    universe.produce(&Universe::message_to_url("w", ""));
    universe.run_until(|it| it.state_of("w") == Some(State::Sent));
    assert!(universe.world.now().since(now) < Duration::from_secs(1));
}

#[test]
fn a_message_that_would_be_over_before_the_cooldown_is_ends_at_once_as_ttl_exceeded() {
    let mut universe = out(60, "");
    universe.run_until(|it| matches!(phase(it), Phase::Open { .. }));
    let (now, posts) = (universe.world.now(), universe.world.state().sent.len());
    universe.subscribe("short");
    universe.produce(&Universe::message("short", r#","ttl":20"#));
    universe.run_until(|it| it.state_of("short").is_some());
    assert_eq!(universe.entry("short").expect("it is there").reason, Some(Reason::TtlExceeded));
    assert!(universe.world.now().since(now) < Duration::from_secs(1));
    assert_eq!(universe.world.state().sent.len(), posts);
}

#[test]
fn a_storm_of_429_is_waited_out_and_uses_few_attempts() {
    let mut universe = out(60, "");
    let busy = redial_testkit::memory::sender::answered_with(429, &[("retry-after", "60")]);
    universe.world.state().usual_answer = Some(busy);
    universe.run_until(|it| matches!(phase(it), Phase::Paused { .. }));
    let posts = universe.world.state().sent.len();
    let Phase::Paused { until } = phase(&universe) else { panic!("it is paused") };
    universe.run_until(|it| it.world.now() >= until);
    assert_eq!(universe.world.state().sent.len(), posts);
    universe.world.state().usual_answer = None;
    universe.run();
    assert!((0..60).all(|n| universe.state_of(&format!("m{n}")) == Some(State::Sent)));
}

#[test]
fn without_the_shared_store_everything_is_sent_all_the_same() {
    let mut universe = Universe::new();
    universe
        .world
        .state()
        .limits
        .insert(Limited::Tenant(Tenant::parse("acme").expect("valid")), Rate::parse("1/h").expect("valid"));
    SHARED.iter().for_each(|name| universe.world.fail(name, 1000, PortErrorKind::Throttled));
    for n in 0..40 {
        universe.subscribe(&format!("m{n}"));
        universe.produce(&Universe::message(&format!("m{n}"), ""));
    }
    universe.world.state().answers.insert(Universe::endpoint("m3"), vec![answered(503)]);
    universe.run();
    assert!((0..40).all(|n| universe.state_of(&format!("m{n}")) == Some(State::Sent)));
}

/// An outage of 40 s, and what became of it.
fn lived_through(death: Option<Death>) -> Universe {
    let mut universe = out(30, "");
    universe.world.state().death = death;
    let back = universe.world.now().plus(Duration::from_secs(40));
    universe.run_until(|it| it.world.now() >= back);
    universe.world.state().usual_answer = None;
    universe.run();
    universe
}

#[test]
fn a_worker_killed_between_any_two_shared_writes_leaves_nothing_stuck() {
    let trace = lived_through(None).world.state().trace.clone();
    let shared = trace.iter().enumerate().filter(|(_, name)| SHARED.contains(name));
    let mut deaths = 0;
    for (at, name) in shared {
        for death in [Death::Before(at + 1), Death::After(at + 1)] {
            deaths += 1;
            let mut universe = lived_through(Some(death));
            let told = format!("{death:?} ({name})");
            for n in 0..30 {
                assert_eq!(universe.state_of(&format!("m{n}")), Some(State::Sent), "{told}: {n}");
            }
            // Two minutes later a new message goes at once.
            universe.world.pass(Duration::from_secs(120));
            let now = universe.world.now();
            assert!(matches!(phase(&universe), Phase::Closed), "{told}: {:?}", phase(&universe));
            assert!(universe.world.state().slots.values().all(|free_from| *free_from <= now), "{told}");
            universe.subscribe("late");
            universe.produce(&Universe::message("late", ""));
            universe.run_until(|it| it.state_of("late") == Some(State::Sent));
            assert!(universe.world.now().since(now) < Duration::from_secs(2), "{told}");
            // And the next outage opens it again.
            universe.world.state().usual_answer = Some(answered(503));
            for n in 0..40 {
                universe.subscribe(&format!("n{n}"));
                universe.produce(&Universe::message(&format!("n{n}"), ""));
            }
            universe.run_until(|it| matches!(phase(it), Phase::Open { .. }));
        }
    }
    assert!(deaths > 40, "{deaths} deaths are too few to be all of them");
}

/// Whatever it had recorded and not handed off: what is held back in its place takes that up.
#[test]
fn a_worker_killed_at_any_effect_of_an_outage_loses_no_message() {
    let trace = lived_through(None).world.state().trace.clone();
    for n in 1..=trace.len() {
        let universe = lived_through(Some(Death::After(n)));
        for m in 0..30 {
            let state = universe.state_of(&format!("m{m}"));
            assert_eq!(state, Some(State::Sent), "after {n} ({}): m{m}", trace[n - 1]);
        }
    }
}

/// The outcome is recorded, the worker dies, and when its message comes back the breaker is open: what is held back is another
/// SQS message by then.
#[test]
fn what_a_crash_left_undone_is_done_by_the_message_in_its_place() {
    for (answer, ends) in [(503, State::Sent), (400, State::Failed)] {
        let begin = || {
            let mut universe = Universe::new();
            universe.subscribe("m");
            universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(answer)]);
            universe.produce(&Universe::message("m", ""));
            universe
        };
        let mut unharmed = begin();
        unharmed.run();
        let record =
            unharmed.world.state().trace.iter().position(|name| *name == "record").expect("it records");
        let mut universe = begin();
        universe.world.state().death = Some(Death::After(record + 1));
        universe.run_until(|it| it.state_of("m").is_some_and(|state| state != State::Sending));
        let now = universe.world.now();
        let mut state = OriginState::default();
        let mut rng = StdRng::seed_from_u64(1);
        state.open(Duration::from_secs(600), now, &Cooldowns::default(), &mut rng);
        let stored = StoredOrigin { state, version: 1 };
        universe.world.state().origins.insert(origin("https://push.example"), stored);
        universe.run();
        assert!(universe.world.state().counts[&Metric::Deferred] > 0, "it was held back");
        assert_eq!(universe.state_of("m"), Some(ends));
        assert_eq!(universe.world.state().bodies.len(), usize::from(ends == State::Failed));
    }
}

fn ask(tenant: &str, now: Timestamp) -> Ask {
    Ask {
        origin: origin("https://push.example"),
        tenant: Tenant::parse(tenant).expect("valid"),
        endpoint: None,
        rank: Rank::Middle,
        is_retry: false,
        is_last: false,
        deadline: Ttl::from_secs(86_400).deadline_from(now),
    }
}

/// Workers that ask for batches of ten as fast as they can; when each message may go, in milliseconds.
fn admitted(world: &World, workers: &[World], seconds: u64, dies: Option<u64>) -> Vec<u64> {
    let start = world.now();
    let mut rng = StdRng::seed_from_u64(1);
    let mut went = Vec::new();
    for step in 0..seconds * 20 {
        for (nth, worker) in workers.iter().enumerate() {
            if nth == 0 && dies.is_some_and(|at| step >= at * 20) {
                continue;
            }
            let now = world.now();
            let asks: Vec<Ask> = (0..10).map(|_| ask("acme", now)).collect();
            let admit = worker.guard().admit(worker, &asks, now, &mut rng);
            let admitted = admit.now_or_never().expect("the store answers at once");
            assert!(admitted.told.errors.is_empty());
            went.extend(admitted.admissions.iter().filter_map(|admission| match admission {
                Admission::Go { at, .. } => u64::try_from(at.since(start).as_millis()).ok(),
                Admission::Later { .. } | Admission::TooLate { .. } => None,
            }));
        }
        world.pass(Duration::from_millis(50));
    }
    went.sort_unstable();
    went
}

/// The most in any five seconds.
fn most_in_five_seconds(went: &[u64]) -> usize {
    let within = |from: &u64| went.iter().filter(|at| **at >= *from && **at < from + 5_000).count();
    went.iter().map(within).max().unwrap_or_default()
}

fn limited_world() -> World {
    let world = World::at(Timestamp::from_secs(1_800_000_000));
    let limit = Rate::parse("50/s").expect("valid");
    world.state().limits.insert(Limited::Origin(origin("https://push.example")), limit);
    world
}

#[test]
fn two_workers_under_a_limit_of_50_a_second_pass_it_by_a_block_each_at_most_and_use_it_up() {
    let world = limited_world();
    let workers = [0, 1].map(|counter| world.with_worker(Settings::default(), counter));
    let went = admitted(&world, &workers, 60, None);
    assert!(most_in_five_seconds(&went) <= 250 + 2 * 10, "{}", most_in_five_seconds(&went));
    assert!(went.len() >= 60 * 50 * 95 / 100, "{} of 3000", went.len());
}

#[test]
fn a_worker_that_dies_takes_its_block_with_it_and_nothing_else() {
    let world = limited_world();
    let workers = [0, 1].map(|counter| world.with_worker(Settings::default(), counter));
    let went = admitted(&world, &workers, 60, Some(30));
    let after = went.iter().filter(|at| **at >= 31_000).count();
    assert!(after >= 29 * 50 * 95 / 100, "{after} in the last 29 s");
}

/// What a worker has seen: so many attempts, of which so many failed.
fn seen(attempts: u64, failures: u64) -> Seen {
    let count = Count { attempts, failures, ..Count::default() };
    Seen { origin: origin("https://push.example"), count, probe: false, retry_after: None }
}

/// What becomes of a message that a worker asks for now.
fn asked(world: &World, ask: Ask) -> Admission {
    let (now, mut rng) = (world.now(), StdRng::seed_from_u64(1));
    let asks = [ask];
    let admit = world.guard().admit(world, &asks, now, &mut rng);
    admit.now_or_never().expect("the store answers at once").admissions[0]
}

fn learn(world: &World, seen: Seen) {
    let (now, mut rng) = (world.now(), StdRng::seed_from_u64(1));
    let learn = world.guard().learn(world, vec![seen], now, &mut rng);
    assert_eq!(learn.now_or_never().expect("the store answers at once").errors, []);
}

fn worker() -> World {
    World::at(Timestamp::from_secs(1_800_000_000)).with_worker(Settings::default(), 3)
}

/// Shared, what one worker sees is no outage yet.
fn much_goes_well_elsewhere() -> World {
    let world = worker();
    let well = Count { attempts: 100_000, ..Count::default() };
    world.state().counters.insert((origin("https://push.example"), 0), well);
    world
}

#[test]
fn a_worker_that_sees_an_outage_itself_does_not_wait_for_the_others_to_see_it() {
    let world = worker();
    // Much goes well elsewhere: shared, it is no outage yet.
    world
        .state()
        .counters
        .insert((origin("https://push.example"), 0), Count { attempts: 100_000, ..Count::default() });
    learn(&world, seen(20, 11));
    assert_eq!(world.state().breakers, []);
    let now = world.now();
    let Admission::Later { at, held_by } = asked(&world, ask("acme", now)) else { panic!("it pauses") };
    assert!((2_000..=4_000).contains(&at.since(now).as_millis()), "{at:?}");
    assert_eq!(held_by, "breaker");
    world.pass(Duration::from_secs(4));
    assert!(matches!(asked(&world, ask("acme", now)), Admission::Go { .. }));
}

#[test]
fn of_an_origin_that_is_well_fifty_attempts_are_one_write_and_less_are_none() {
    let world = worker();
    for _ in 0..4 {
        learn(&world, seen(10, 0));
        world.pass(Duration::from_secs(20));
    }
    assert!(world.state().counters.is_empty());
    learn(&world, seen(10, 0));
    world.pass(Duration::from_secs(1));
    learn(&world, seen(10, 0));
    let counter = (origin("https://push.example"), 3);
    assert_eq!(world.state().counters[&counter], Count { attempts: 50, ..Count::default() });
}

#[test]
fn with_the_first_failure_it_tells_what_went_well_before() {
    let world = worker();
    learn(&world, seen(30, 0));
    world.pass(Duration::from_secs(60));
    learn(&world, seen(10, 1));
    let counter = (origin("https://push.example"), 3);
    let told = Count { attempts: 10, failures: 1, older: 30, ..Count::default() };
    assert_eq!(world.state().counters[&counter], told);
}

#[test]
fn nobody_s_last_attempt_is_spent_on_a_probe_unless_nobody_else_comes() {
    let world = worker();
    learn(&world, seen(100, 100));
    let now = world.now();
    let last = |world: &World| asked(world, Ask { is_last: true, ..ask("acme", now) });
    let until = match world.state().origins[&origin("https://push.example")].state.breaker().phase(now) {
        Phase::Open { until } => until,
        other @ (Phase::Closed | Phase::HalfOpen { .. } | Phase::Ramping { .. } | Phase::Paused { .. }) => {
            panic!("{other:?}")
        }
    };
    world.pass(until.since(now) + Duration::from_secs(2));
    assert!(matches!(last(&world), Admission::Later { .. }));
    assert!(matches!(asked(&world, ask("acme", now)), Admission::Go { probe: true, .. }));

    let world = worker();
    learn(&world, seen(100, 100));
    world.pass(until.since(now) + Duration::from_secs(30));
    assert!(matches!(last(&world), Admission::Go { probe: true, .. }));
}

#[test]
fn a_receiver_s_own_rate_holds_for_it_alone() {
    let world = worker();
    let now = world.now();
    let to = |id: &str| {
        let key = Universe::subscription_key(id);
        let rate = Rate::parse("1/min").expect("valid");
        let endpoint = Some(EndpointLimit { subscription: key, rate });
        asked(&world, Ask { endpoint, ..ask("acme", now) })
    };
    assert!(matches!(to("a"), Admission::Go { .. }));
    let Admission::Later { at, held_by } = to("a") else { panic!("it waits for its slot") };
    assert_eq!((at.since(now).as_secs(), held_by), (60, "endpoint_limit"));
    let Admission::Later { at, .. } = to("a") else { panic!("behind the other") };
    assert_eq!(at.since(now).as_secs(), 120);
    assert!(matches!(to("b"), Admission::Go { .. }));
}

#[test]
fn who_cannot_wait_is_sent_into_a_worker_s_own_pause() {
    let world = much_goes_well_elsewhere();
    learn(&world, seen(20, 11));
    let now = world.now();
    let urgent = Ask { deadline: Ttl::ZERO.deadline_from(now), ..ask("acme", now) };
    assert!(matches!(asked(&world, urgent), Admission::Go { probe: false, .. }));
}
