//! A webhook receiver that is out for hours or for good: what that costs, and what becomes of the messages that wait for it.

use std::time::Duration;

use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::protection::Phase;
use redial_core::reason::Reason;
use redial_core::subscription;
use redial_core::webhook::Health;
use redial_memory::PortErrorKind;
use redial_memory::senders::answered;

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, origin};

const HOUR: Duration = Duration::from_secs(3600);

/// A dead receiver `m`, and `messages` messages to it: one each `every`, the first now.
fn dead(messages: u32, every: Duration, fields: &str) -> Harness {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.state().usual_answer = Some(answered(503));
    for n in 0..messages {
        harness.produce_after(every * n, &Harness::message_to("m", &format!("m{n}"), fields));
    }
    harness
}

/// Four messages a minute for `hours` hours.
fn four_a_minute(hours: u32) -> Harness {
    dead(hours * 240, Duration::from_secs(15), "")
}

fn phase(harness: &Harness) -> Phase {
    harness.phase(&origin("https://hooks.example"))
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
        let effects = harness.state().effects as u64;
        (hours, [harness.count(Metric::Deferred), harness.invocations(), effects])
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
    harness.state().has_events = true;
    let start = harness.now();
    harness.run_to(start.plus(HOUR * 2));
    assert!(matches!(phase(&harness), Phase::Open { .. }));
    assert_eq!(harness.subscription("m").state, subscription::State::Active);
    // A cooldown later a probe has failed.
    harness.run_to(start.plus(HOUR * 2 + HOUR / 3));
    assert_eq!(harness.subscription("m").state, subscription::State::Disabled);
    assert_eq!(harness.count(Metric::EndpointsDisabled), 1);
    let posts = harness.state().webhooks.len();

    // Some were probes, and wait for their next attempts for three hours.
    harness.run_to(start.plus(HOUR * 6));
    assert_eq!(how_many(&harness, 960, State::Failed), 960);
    assert!(harness.dead_letters(Reason::EndpointDisabled) > 900);
    assert_eq!(harness.state().webhooks.len(), posts);
    assert!(harness.state().parked.is_empty());
    let disabled = harness.events.iter().filter(|event| event["state"] == "disabled");
    let subscriptions: Vec<_> = disabled.map(|event| event["subscription"].as_str()).collect();
    assert_eq!(subscriptions, [Some("m")]);
}

#[test]
fn a_dead_receiver_of_messages_without_retries_is_switched_off() {
    let mut harness = dead(3, HOUR, r#","retry":"none""#);
    harness.switch_off_after(HOUR * 2);
    harness.run();
    assert_eq!(harness.subscription("m").state, subscription::State::Disabled);
    assert_eq!(harness.count(Metric::EndpointsDisabled), 1);
}

#[test]
fn a_first_attempt_that_fails_after_a_quiet_week_is_retried() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.will_answer("m", vec![answered(503); 2]);
    harness.deliver(&Harness::message_to("m", "before", r#","retry":{"max_retries":0}"#));
    harness.pass(HOUR * 24 * 7);
    harness.deliver(&Harness::message_to("m", "after", ""));
    assert_eq!(harness.state_of("after"), Some(State::Sent));
    assert_eq!(harness.subscription("m").state, subscription::State::Active);
}

/// The breaker is open for a minute, its receiver has failed for six days, and the one probe that is sent fails, too.
fn last_probe(prepare: impl FnOnce(&Harness)) -> Harness {
    let harness = Harness::prepared(Whom::Hook, vec![], "");
    let failing_since = Some(harness.now().minus(HOUR * 24 * 6));
    harness.amend("m", |it| it.health = Health { failures: 100, failing_since });
    harness.open_breaker(&origin("https://hooks.example"), Duration::from_secs(60));
    harness.state().has_events = true;
    harness.state().usual_answer = Some(answered(503));
    prepare(&harness);
    harness.run_to_the_end()
}

fn announced(harness: &Harness) -> usize {
    harness.events.iter().filter(|event| event["state"] == "disabled").count()
}

#[test]
fn a_worker_killed_at_any_effect_leaves_no_receiver_switched_off_unannounced() {
    let unharmed = last_probe(|_| {});
    assert_eq!((unharmed.effects("give_up"), unharmed.posts_to("m"), announced(&unharmed)), (1, 1, 1));
    let run = |death| last_probe(|it| it.state().death = death);
    kill_at_every_effect(run, |harness, _, case| {
        assert_eq!(harness.subscription("m").state, subscription::State::Disabled, "{case}");
        assert!(announced(harness) > 0, "{case}");
        assert_eq!(harness.state_of("m"), Some(State::Failed), "{case}");
    });
}

#[test]
fn a_receiver_that_could_not_be_given_up_is_given_up_by_the_next_failure() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let harness = last_probe(|it| it.memory.fail("give_up", 1, kind));
        assert_eq!(harness.subscription("m").state, subscription::State::Disabled, "{kind:?}");
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
    harness.state().usual_answer = None;
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
    harness.state().usual_answer = None;
    let back = harness.now();
    harness.run_to(back.plus(HOUR / 3));
    assert!(matches!(phase(&harness), Phase::Closed | Phase::Ramping { .. }), "{:?}", phase(&harness));
    harness.run_to(back.plus(HOUR * 5 / 4 + HOUR / 3));
    let failed = how_many(&harness, 4 * 240, State::Failed);
    assert!(failed < 60, "{failed} were probes whose retries are used up");
    assert_eq!(how_many(&harness, 4 * 240, State::Sent) + failed, 4 * 240);
    assert!(harness.all_are("short", 10, State::Sent));
}

/// A breaker whose whole traffic is last attempts: messages that are never tried again if a probe fails.
#[test]
fn a_healthy_receiver_gets_all_twelve_messages_that_have_one_attempt_each() {
    for (to, url, ttl) in
        [("push", "https://push.example", r#","ttl":3600"#), ("hook", "https://hooks.example", "")]
    {
        for policy in [r#","retry":"none""#, r#","retry":{"max_retries":0}"#] {
            for every in [0, 1, 15, 25, 40, 300] {
                let case = format!("to a {to}, {policy}, one each {every} s");
                let (mut harness, origin) = (Harness::new(), origin(url));
                harness.open_breaker(&origin, Duration::from_secs(60));
                harness.subscribe_hook("hook");
                for n in 0..12 {
                    let id = format!("m{n}");
                    harness.subscribe(&id);
                    let receiver = if to == "hook" { "hook" } else { &id };
                    let body = Harness::message_to(receiver, &id, &format!("{ttl}{policy}"));
                    harness.produce_after(Duration::from_secs(every * n), &body);
                }
                harness.run_to(harness.now().plus(Duration::from_secs(7200)));
                assert!(harness.all_are("m", 12, State::Sent), "{case}");
                let phase = harness.phase(&origin);
                assert!(matches!(phase, Phase::Ramping { .. } | Phase::Closed), "{case}: {phase:?}");
            }
        }
    }
}
