//! What holds for every simulation.

use std::time::Duration;

use proptest::prelude::*;
use redial_core::{
    policy::{Jitter, catalogue, parse},
    reason::Reason,
    time::Ttl,
};

use super::fixtures::{alone, contender, rate, scenario};
use super::*;

fn max_retries(contender: &Contender) -> u32 {
    contender.policy.retries.as_ref().map_or(0, |retries| retries.max_retries)
}

fn outage(text: &str) -> Option<Outage> {
    Some(Outage::parse(text).expect("an outage"))
}

#[test]
fn without_an_outage_and_within_the_capacity_every_message_is_sent_at_once() {
    let calm = Scenario { outage: None, ..scenario() };
    let figures = alone(&calm, contender("web-push"));
    assert_eq!((figures.attempts_per_message, figures.sent, figures.peak_per_second), (1.0, 20_000, 2_000));
    assert_eq!((figures.p50_s, figures.p99_s, figures.drained_at_s), (Some(0.1), Some(0.1), None));
    assert!(figures.dead_lettered.is_empty() && figures.peak_after_outage_per_second.is_none());
}

#[test]
fn without_jitter_attempts_are_made_to_the_millisecond() {
    let mut flat = contender("web-push");
    flat.policy.retries.as_mut().expect("enabled").jitter = Jitter::None;
    let one = Scenario { tenants: Tenants::one(1), outage: outage("0..20"), ..scenario() };
    let figures = alone(&one, flat);
    // Answers at 0.1, delays of 2, 4, 8 and 16 s: attempts at 0, 2.1, 6.2, 14.3 and 30.4 s.
    let attempted: Vec<usize> =
        figures.load.every_second().iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, _)| at).collect();
    assert_eq!(attempted, [0, 2, 6, 14, 30]);
    assert_eq!((figures.p50_s, figures.drained_at_s), (Some(30.5), Some(30.5)));
    assert_eq!((figures.waits_in_sqs, figures.waits_parked), (4, 0));
}

#[test]
fn a_wait_beyond_what_sqs_delays_is_parked_and_still_ends_when_it_is_due() {
    let mut patient = contender("schedule-patient");
    patient.policy.retries.as_mut().expect("enabled").jitter = Jitter::None;
    patient.ttl = Ttl::from_secs(86_400);
    let one = Scenario { tenants: Tenants::one(1), outage: outage("0..1h"), ..scenario() };
    let figures = alone(&one, patient);
    // 300 s over SQS, an hour parked, and three answers.
    assert_eq!((figures.waits_in_sqs, figures.waits_parked), (1, 1));
    assert_eq!(figures.p50_s, Some(3_900.3));
}

#[test]
fn a_retry_after_is_kept_by_everyone() {
    let asking = Scenario { retry_after_s: Some(60), outage: outage("0..10"), ..scenario() };
    let figures = alone(&asking, contender("web-push"));
    // All fail before 10 s, and none is back before a minute later, nor more than the smear after that.
    let every = figures.load.every_second();
    assert_eq!(every[10..60].iter().sum::<u32>(), 0);
    assert_eq!(figures.sent, 20_000);
    assert!(every.len() <= 77, "{}", every.len());
}

#[test]
fn a_ttl_that_ends_before_the_outage_ends_the_message() {
    let short = Contender { ttl: Ttl::from_secs(10), ..contender("web-push") };
    let long_outage = Scenario { outage: outage("0..10m"), ..scenario() };
    let figures = alone(&long_outage, short);
    assert_eq!(figures.sent, 0);
    assert!(figures.dead_lettered[&Reason::TtlExceeded] > 10_000, "{:?}", figures.dead_lettered);
    assert!(figures.drained_at_s.is_some_and(|at| at <= 20.1), "{:?}", figures.drained_at_s);
}

#[test]
fn a_policy_s_result_does_not_depend_on_what_runs_beside_it() {
    let scenario = scenario();
    let together: Vec<Contender> =
        ["web-push", "additive", "none", "otp", "wait-factor"].map(contender).into();
    let figures = simulate(&scenario, &together, &|_| {});
    for (contender, figures) in together.into_iter().zip(figures) {
        assert_eq!(alone(&scenario, contender), figures);
    }
}

#[test]
fn every_end_is_reported_once() {
    let reported = AtomicUsize::new(0);
    let ended = |n: u64| {
        reported.fetch_add(usize::try_from(n).expect("few"), Ordering::Relaxed);
    };
    simulate(&scenario(), &[contender("web-push"), contender("otp")], &ended);
    assert_eq!(reported.into_inner(), 40_000);
}

#[test]
fn another_seed_is_another_result() {
    let other = Scenario { seed: 2, ..scenario() };
    assert_ne!(alone(&scenario(), contender("web-push")), alone(&other, contender("web-push")));
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let rates = || prop::sample::select(vec!["1/s", "7/min", "50", "333/s", "2000/s", "100000/s"]);
    let outages = prop::option::of((0u32..100, 1u32..2_000));
    let limits = prop::option::of(prop::sample::select(vec!["20/min", "5/s", "50/s", "2000/s"]));
    let workers = prop::option::of((1u32..40, limits, 0u64..5));
    (1u32..600, rates(), outages, rates(), prop::option::of(0u32..5_000), 0u64..3_000, any::<u64>(), workers)
        .prop_map(|(messages, arrivals, outage, capacity, retry_after_s, latency_ms, seed, workers)| {
            Scenario {
                tenants: Tenants::one(messages),
                rate: rate(arrivals),
                outage: outage.map(|(start, length)| {
                    Outage::parse(&format!("{start}..{}", start + length)).expect("an outage")
                }),
                capacity: rate(capacity),
                retry_after_s,
                latency: Duration::from_millis(latency_ms),
                seed,
                workers: workers.map(|(number, limit, lag)| Workers {
                    number,
                    limit: limit.map(rate),
                    counter_lag: Duration::from_secs(lag),
                }),
            }
        })
}

fn any_contender() -> impl Strategy<Value = Contender> {
    let names: Vec<&str> = catalogue::presets().names().collect();
    let jitters =
        vec![r#""full""#, r#""equal""#, r#""none""#, r#"{"additive":0.3}"#, r#"{"bounded_ms":1000}"#];
    let own =
        (0u64..2_000_000, 1u32..5, 0u64..5_000_000, 0u32..12, prop::sample::select(jitters), any::<bool>())
            .prop_map(|(base, multiplier, max, max_retries, jitter, final_503)| {
                let permanent = if final_503 { "[503]" } else { "[]" };
                let text = format!(
                    r#"{{"base_delay_ms":{base},"multiplier":{multiplier},"max_delay_ms":{max},
                    "max_retries":{max_retries},"jitter":{jitter},"permanent":{permanent}}}"#
                );
                parse::document(&text, "own").expect("a valid policy")
            });
    let preset = prop::sample::select(names).prop_map(|name| contender(name).policy);
    (prop_oneof![preset, own], 0u32..100_000, any::<bool>()).prop_map(|(policy, ttl, breaker)| Contender {
        name: policy.name.clone(),
        policy,
        ttl: Ttl::from_secs(ttl),
        breaker,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_same_seed_has_the_same_result_and_every_message_ends_once(
        scenario in any_scenario(), contender in any_contender(),
    ) {
        let figures = alone(&scenario, contender.clone());
        prop_assert_eq!(&figures, &alone(&scenario, contender.clone()));

        let dead: u32 = figures.dead_lettered.values().sum();
        let other: u32 = figures.ended_otherwise.values().sum();
        prop_assert_eq!(figures.sent + dead + other, scenario.messages());

        let attempts: u64 = figures.load.every_second().iter().map(|n| u64::from(*n)).sum();
        prop_assert_eq!(figures.attempts_per_message, attempts as f64 / f64::from(scenario.messages()));
        prop_assert!(attempts <= u64::from(scenario.messages()) * u64::from(max_retries(&contender) + 1));
        prop_assert!(attempts <= u64::from(scenario.messages()) + figures.waits_in_sqs + figures.waits_parked);
        prop_assert!(scenario.workers.is_some() || figures.deferrals == 0);
        prop_assert!(figures.attempts_during_outage.unwrap_or(0) <= attempts);
        prop_assert!(figures.peak_after_outage_per_second.unwrap_or(0) <= figures.peak_per_second);
        let most_s = f64::from(contender.ttl.as_secs()) + scenario.latency.as_secs_f64();
        prop_assert!(figures.p99_s.is_none_or(|p99| figures.p50_s <= Some(p99) && p99 <= most_s));
    }
}
