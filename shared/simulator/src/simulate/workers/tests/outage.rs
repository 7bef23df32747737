//! A provider that is out for ten minutes, 100,000 messages, 200 workers, and room for 2,000 requests a second.

use redial_core::{reason::Reason, time::Ttl};

use super::super::super::load::Load;
use super::*;

const MESSAGES: u32 = 100_000;

/// A provider that has just come back gets no more than this in a second: a fifth above its capacity.
const MOST_PER_SECOND: u32 = 2_400;

fn outage(flow: &str, when: &str, seed: u64) -> Scenario {
    Scenario {
        tenants: Tenants::one(MESSAGES),
        rate: rate(flow),
        outage: Some(Outage::parse(when).expect("an outage")),
        capacity: rate("2000/s"),
        seed,
        ..scenario()
    }
}

fn protected(scenario: &Scenario, lag_s: u64) -> Scenario {
    let counter_lag = Duration::from_secs(lag_s);
    Scenario { workers: Some(Workers { counter_lag, ..workers(200) }), ..scenario.clone() }
}

/// A message whose jitter is small every time may use up its attempts before the breaker opens: one or two of the hundred thousand.
const UNLUCKY: u32 = 2;

/// Against retries alone; what all share is at hand at once, or so late.
fn spares_the_provider(policy: &str, flow: &str, when: &str, lag_s: u64) {
    let scenario = outage(flow, when, 1);
    let retries_alone = alone(&scenario, of(policy, false)).attempts_during_outage.expect("an outage");
    let mut figures = alone(&protected(&scenario, lag_s), of(policy, true));
    figures.load = Load::default();
    let in_outage = figures.attempts_during_outage.expect("an outage");
    // From 18 to 24 times fewer, by the seed.
    assert!(in_outage * 17 <= retries_alone, "{retries_alone} without, {figures:?}");
    let unlucky = figures.dead_lettered.get(&Reason::RetriesExhausted).copied().unwrap_or_default();
    assert!(unlucky <= UNLUCKY && figures.sent + unlucky == MESSAGES, "{figures:?}");
    assert!(figures.peak_after_outage_per_second.is_some_and(|peak| peak <= MOST_PER_SECOND), "{figures:?}");
}

#[test]
fn an_outage_from_the_first_message_on() {
    spares_the_provider("web-push", "500/s", "0..10m", 0);
}

#[test]
fn an_outage_from_the_first_message_on_with_what_is_shared_two_seconds_late() {
    spares_the_provider("web-push", "2000/s", "0..10m", 2);
}

#[test]
fn an_outage_in_full_swing() {
    spares_the_provider("web-push", "2000/s", "30s..10m30s", 0);
}

#[test]
fn an_outage_in_full_swing_with_what_is_shared_two_seconds_late() {
    spares_the_provider("web-push", "2000/s", "30s..10m30s", 2);
}

#[test]
fn messages_that_keep_coming_until_the_outage_is_over() {
    spares_the_provider("web-push", "150/s", "30s..10m30s", 2);
}

#[test]
fn an_outage_under_a_policy_without_full_jitter() {
    spares_the_provider("fixed-jitter", "1000/s", "30s..10m30s", 2);
}

#[test]
fn messages_whose_ttl_ends_within_the_outage_end_for_that_reason_and_no_other() {
    for policy in ["web-push", "none"] {
        let scenario = protected(&outage("500/s", "0..10m", 1), 2);
        let short = Contender { ttl: Ttl::from_secs(120), ..of(policy, true) };
        let figures = alone(&scenario, short);
        assert_eq!(figures.sent, 0, "{figures:?}");
        let too_late = figures.dead_lettered.get(&Reason::TtlExceeded).copied().unwrap_or_default();
        let other: u32 = figures.ended_otherwise.values().sum();
        assert_eq!(too_late + other, MESSAGES, "{figures:?}");
        let why = figures.ended_otherwise.keys().copied().collect::<Vec<_>>();
        assert!(why.iter().all(|why| ["expired", "failed_no_retries"].contains(why)), "{figures:?}");
        assert_eq!(why.contains(&"failed_no_retries"), policy == "none");
    }
}

#[test]
fn a_blip_of_a_second_opens_nothing() {
    for seed in 1..=5 {
        let scenario = protected(&outage("500/s", "30s..31s", seed), 0);
        let figures = alone(&scenario, of("web-push", true));
        assert_eq!(figures.sent, MESSAGES, "{figures:?}");
        assert!(figures.drained_at_s.is_some_and(|at| at < 60.0), "seed {seed}: {figures:?}");
    }
}

/// Ten minutes in full swing, with what is shared two seconds late, and messages that keep coming: traffic within half a minute and a
/// twentieth of that time, no more than a fifth above the capacity, and the backlog within 1.3 times the least time of a sender that does
/// not know the capacity. Each message that had to wait was held back twice at most, on average.
#[test]
fn traffic_comes_back_soon_after_an_outage_and_not_at_once() {
    let scenario = Scenario { tenants: Tenants::one(660_000), ..outage("500/s", "2m..12m", 1) };
    let figures = alone(&protected(&scenario, 2), of("web-push", true));
    let recovery = figures.recovery.clone().expect("workers and an outage");
    assert!(recovery.first_traffic_after_s.is_some_and(|secs| secs <= 60.0), "{recovery:?}");
    assert!(figures.peak_after_outage_per_second.is_some_and(|peak| peak <= MOST_PER_SECOND), "{recovery:?}");
    assert!(
        recovery.drained_after_s.is_some_and(|secs| secs <= 1.3 * recovery.least_finding_s),
        "{recovery:?}"
    );
    let deferrals = recovery.deferrals_before_end + recovery.deferrals_after_end;
    assert!(deferrals <= 2 * recovery.held, "{recovery:?}");
    assert_eq!(figures.sent, 660_000);
}
