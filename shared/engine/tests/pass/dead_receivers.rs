//! A webhook receiver that is out for hours or for good: what that costs, and what becomes of the messages that wait for it.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::endpoint::Origin;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::{Cooldowns, OriginState, Phase};
use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_core::webhook::Health;
use redial_engine::ports::StoredOrigin;
use redial_testkit::memory::sender::{answered, answered_with};
use redial_testkit::memory::{Death, PortErrorKind};

use crate::harness::Harness;

const HOUR: Duration = Duration::from_secs(3600);

/// A dead receiver `m`, and the messages to it: so many, one each `every`, the first now.
fn dead(messages: u32, every: Duration, fields: &str) -> Harness {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.memory.state().usual_answer = Some(answered(503));
    for n in 0..messages {
        harness.produce_after(every * n, &Harness::message_to("m", &format!("m{n}"), fields));
    }
    harness
}

/// Four messages a minute for so many hours.
fn four_a_minute(hours: u32) -> Harness {
    dead(hours * 240, Duration::from_secs(15), "")
}

fn count(harness: &Harness, metric: Metric) -> u64 {
    harness.memory.state().counts.get(&metric).copied().unwrap_or_default()
}

fn origin() -> Origin {
    Origin::parse("https://hooks.example").expect("valid")
}

fn phase(harness: &Harness) -> Phase {
    let now = harness.now();
    let origins = harness.memory.state().origins.clone();
    let stored = origins.get(&origin());
    stored.map_or(Phase::Closed, |stored| stored.state.breaker().phase(now))
}

/// How many of these messages are in a state.
fn how_many(harness: &Harness, messages: u32, state: State) -> u32 {
    let is_in = |n: &u32| harness.state_of(&format!("m{n}")) == Some(state);
    u32::try_from((0..messages).filter(is_in).count()).expect("few")
}

#[test]
fn the_cost_of_a_dead_receiver_grows_linearly_with_time() {
    let mut harness = four_a_minute(0);
    let start = harness.now();
    let mut hour = 0;
    let costs = [6, 12, 24].map(|hours| {
        while hour < hours {
            for n in hour * 240..(hour + 1) * 240 {
                let after = Duration::from_secs(15) * (n % 240);
                harness.produce_after(after, &Harness::message_to("m", &format!("m{n}"), ""));
            }
            hour += 1;
            harness.run_to(start.plus(HOUR * hour));
        }
        let effects = harness.memory.state().effects as u64;
        (hours, [count(&harness, Metric::Deferred), harness.invocations(), effects])
    });
    println!("after hours: [deferrals, invocations, effects]: {costs:?}");
    for (hours, [deferrals, ..]) in costs {
        assert!(deferrals <= u64::from(hours) * 240 * 9, "{costs:?}");
    }
    for at in 0..3 {
        let [first, second, third] = costs.map(|(_, cost)| cost[at]);
        assert!(second - first <= first * 3 / 2, "{costs:?}");
        assert!(third - second <= (second - first) * 9 / 4, "{costs:?}");
    }
}

#[test]
fn a_dead_receiver_behind_an_open_breaker_is_switched_off() {
    let mut harness = four_a_minute(4);
    harness.switch_off_after(HOUR * 2);
    harness.memory.state().has_events = true;
    let start = harness.now();
    harness.run_to(start.plus(HOUR * 2));
    assert!(matches!(phase(&harness), Phase::Open { .. }));
    assert_eq!(harness.subscription("m").state, Standing::Active);
    // A cooldown later a probe has failed.
    harness.run_to(start.plus(HOUR * 2 + HOUR / 3));
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    assert_eq!(count(&harness, Metric::EndpointsDisabled), 1);
    let posts = harness.memory.state().webhooks.len();

    harness.run_to(start.plus(HOUR * 5));
    assert_eq!(how_many(&harness, 960, State::Failed), 960);
    let ended_so = harness.memory.state().dead_letters.get(&Reason::EndpointDisabled).copied();
    assert!(ended_so.is_some_and(|n| n > 900), "{ended_so:?}");
    assert_eq!(harness.memory.state().webhooks.len(), posts);
    assert!(harness.memory.state().parked.is_empty());
    let disabled = harness.events.iter().filter(|event| event["state"] == "disabled");
    let subscriptions: Vec<_> = disabled.map(|event| event["subscription"].as_str()).collect();
    assert_eq!(subscriptions, [Some("m")]);
}

#[test]
fn a_dead_receiver_of_messages_without_retries_is_switched_off() {
    let mut harness = dead(3, HOUR, r#","retry":"none""#);
    harness.switch_off_after(HOUR * 2);
    harness.run();
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    assert_eq!(count(&harness, Metric::EndpointsDisabled), 1);
}

#[test]
fn one_delivery_that_fails_for_five_days_is_enough_while_retries_are_left() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    let busy = answered_with(503, &[("retry-after", "172800")]);
    harness.memory.state().usual_answer = Some(busy);
    harness.produce(&Harness::message("m", r#","retry":{"max_retries":9}"#));
    harness.run();
    assert_eq!(harness.posts_to("m"), 4);
    assert_eq!(harness.entry("m").expect("in the ledger").reason, Some(Reason::EndpointDisabled));
}

#[test]
fn a_first_attempt_that_fails_after_a_quiet_week_is_retried() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.memory.state().answers.insert(Harness::hook("m"), vec![answered(503); 2]);
    harness.produce(&Harness::message_to("m", "before", r#","retry":{"max_retries":0}"#));
    harness.run();
    harness.memory.pass(HOUR * 24 * 7);
    harness.produce(&Harness::message_to("m", "after", ""));
    harness.run();
    assert_eq!(harness.state_of("after"), Some(State::Sent));
    assert_eq!(harness.subscription("m").state, Standing::Active);
}

/// The breaker is open for a minute, its receiver has failed for six days, and the one probe that is sent fails, too.
fn last_probe(prepare: impl FnOnce(&Harness)) -> Harness {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.memory.state().has_events = true;
    let now = harness.now();
    let since = now.minus(HOUR * 24 * 6);
    harness.amend("m", |it| it.health = Health { failures: 100, failing_since: Some(since) });
    let (mut state, mut rng) = (OriginState::default(), StdRng::seed_from_u64(1));
    state.open(Duration::from_secs(60), now, &Cooldowns::default(), &mut rng);
    harness.memory.state().origins.insert(origin(), StoredOrigin { state, version: 1 });
    harness.memory.state().usual_answer = Some(answered(503));
    harness.produce(&Harness::message("m", ""));
    prepare(&harness);
    harness.run();
    harness
}

fn announced(harness: &Harness) -> usize {
    harness.events.iter().filter(|event| event["state"] == "disabled").count()
}

#[test]
fn a_worker_killed_at_any_effect_leaves_no_receiver_switched_off_unannounced() {
    let unharmed = last_probe(|_| {});
    let trace = unharmed.memory.state().trace.clone();
    assert!(trace.contains(&"give_up"));
    assert_eq!((unharmed.posts_to("m"), announced(&unharmed)), (1, 1));
    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let harness = last_probe(|it| it.memory.state().death = Some(death));
            let case = format!("{death:?} ({})", trace[n - 1]);
            assert_eq!(harness.subscription("m").state, Standing::Disabled, "{case}");
            assert!(announced(&harness) > 0, "{case}");
            assert_eq!(harness.state_of("m"), Some(State::Failed), "{case}");
        }
    }
}

#[test]
fn a_receiver_that_could_not_be_given_up_is_given_up_by_the_next_failure() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let harness = last_probe(|it| it.memory.fail("give_up", 1, kind));
        assert_eq!(harness.subscription("m").state, Standing::Disabled, "{kind:?}");
        assert!(harness.posts_to("m") > 1, "{kind:?}: its message was retried");
        assert_eq!(harness.state_of("m"), Some(State::Failed), "{kind:?}");
    }
}

#[test]
fn few_messages_that_wait_for_long_are_sent_soon_after_a_recovery() {
    // Retried soon, so that what waits is held back by the breaker and not by its policy.
    let mut harness = dead(20, Duration::from_secs(3), r#","retry":{"max_retries":60}"#);
    let start = harness.now();
    harness.run_to(start.plus(HOUR * 12));
    assert!(matches!(phase(&harness), Phase::Open { .. } | Phase::HalfOpen { .. }));
    harness.memory.state().usual_answer = None;
    harness.run_to(start.plus(HOUR * 12 + HOUR / 2));
    assert_eq!(how_many(&harness, 20, State::Sent), 20);
}

#[test]
fn the_many_that_wait_for_an_origin_are_sent_within_a_quarter_of_its_outage() {
    let mut harness = four_a_minute(4);
    let start = harness.now();
    harness.run_to(start.plus(HOUR * 4));
    let deadline = r#","ttl":5400"#;
    for n in 0..10 {
        harness.produce(&Harness::message_to("m", &format!("short{n}"), deadline));
    }
    harness.run_to(start.plus(HOUR * 5));
    harness.memory.state().usual_answer = None;
    let back = harness.now();
    harness.run_to(back.plus(HOUR / 3));
    assert!(matches!(phase(&harness), Phase::Closed | Phase::Ramping { .. }), "{:?}", phase(&harness));
    harness.run_to(back.plus(HOUR * 5 / 4 + HOUR / 3));
    let failed = how_many(&harness, 4 * 240, State::Failed);
    assert!(failed < 60, "{failed} were probes whose retries are used up");
    assert_eq!(how_many(&harness, 4 * 240, State::Sent) + failed, 4 * 240);
    let short = (0..10).map(|n| harness.state_of(&format!("short{n}")));
    assert!(short.clone().all(|state| state == Some(State::Sent)), "{:?}", short.collect::<Vec<_>>());
}
