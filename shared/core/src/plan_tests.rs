use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::fixtures::{at, preset, rng};
use crate::policy::{Backoff, Exponential, Jitter, MAX_DELAY, Retries, Schedule, WaitFactor, catalogue};

const SOME_RETRY: Retry = Retry { reason: Reason::ServerError, in_doubt: false, retry_after: None };

fn situation(policy: &Policy, attempt: u32, ttl_secs: u32) -> Situation<'_> {
    let ttl = Ttl::from_secs(ttl_secs);
    let deadline = ttl.deadline_from(at(0));
    Situation { policy, attempt: Attempt(attempt), ttl, deadline, now: at(0) }
}

#[test]
fn a_failure_that_is_not_retried_ends_as_its_policy_says() {
    let (retrying, none) = (preset("web-push"), preset("none"));
    let no_repetition = Policy { retry_in_doubt: false, ..retrying.clone() };
    let retry = Verdict::Retry(SOME_RETRY);
    let later = Verdict::Retry(Retry { retry_after: Some(Duration::from_secs(60)), ..SOME_RETRY });
    let doubtful = Verdict::Retry(Retry { in_doubt: true, reason: Reason::InDoubt, retry_after: None });
    let gone = Verdict::Gone { confirmed: true };
    for (name, policy, verdict, attempt, ttl, expected) in [
        ("last", retrying, &retry, 5, 14_400, Plan::DeadLetter(Reason::RetriesExhausted)),
        ("a Retry-After beyond the TTL", retrying, &later, 0, 60, Plan::DeadLetter(Reason::TtlExceeded)),
        ("a TTL of zero", retrying, &retry, 0, 0, Plan::DeadLetter(Reason::TtlExceeded)),
        ("in doubt", &no_repetition, &doubtful, 0, 60, Plan::DeadLetter(Reason::InDoubtNotRetried)),
        ("no retries", none, &retry, 0, 60, Plan::FailedNoRetries(Reason::ServerError)),
        (
            "no retries of a rejection",
            none,
            &Verdict::Failed(Reason::Rejected),
            0,
            60,
            Plan::FailedNoRetries(Reason::Rejected),
        ),
        ("gone", none, &gone, 0, 60, Plan::Gone { confirmed: true }),
    ] {
        assert_eq!(after(verdict, &situation(policy, attempt, ttl), &mut rng()), expected, "{name}");
    }
    for attempt in 0..5 {
        let plan = after(&retry, &situation(retrying, attempt, 14_400), &mut rng());
        assert!(matches!(plan, Plan::Retry { .. }), "{attempt}: {plan:?}");
    }
    for (may_have_arrived, retries, expected) in [
        (false, retrying.retries.clone(), None),
        (true, retrying.retries.clone(), Some(Plan::DeadLetter(Reason::InDoubtNotRetried))),
        (true, None, Some(Plan::FailedNoRetries(Reason::InDoubtNotRetried))),
    ] {
        assert_eq!(in_doubt(true, retrying), None);
        let forbids = Policy { retries, ..no_repetition.clone() };
        assert_eq!(in_doubt(may_have_arrived, &forbids), expected);
    }
}

#[test]
fn a_ttl_of_zero_is_not_retried_by_a_clock_that_is_behind() {
    let at_once = Backoff::Exponential(Exponential {
        base_delay: Duration::ZERO,
        multiplier: 1.0,
        max_delay: Duration::ZERO,
    });
    let retries = Retries { max_retries: 3, backoff: at_once, jitter: Jitter::None };
    let policy = Policy { retries: Some(retries), ..preset("web-push").clone() };
    let situation = situation(&policy, 0, 0);
    let behind = Situation { now: situation.now.minus(Duration::from_secs(2)), ..situation };
    let plan = after(&Verdict::Retry(SOME_RETRY), &behind, &mut rng());
    assert_eq!(plan, Plan::DeadLetter(Reason::TtlExceeded));
}

#[test]
fn a_hundred_retries_without_a_delay_are_spread_over_minutes() {
    let backoff = Backoff::Exponential(Exponential {
        base_delay: Duration::ZERO,
        multiplier: 1.0,
        max_delay: Duration::ZERO,
    });
    let retries = Retries { max_retries: 100, backoff, jitter: Jitter::None };
    let policy = Policy { retries: Some(retries), ..preset("web-push").clone() };
    for retry_after in [None, Some(Duration::ZERO)] {
        let verdict = Verdict::Retry(Retry { retry_after, ..SOME_RETRY });
        let delays = (0..100).map(|attempt| {
            let plan = after(&verdict, &situation(&policy, attempt, 3_600), &mut rng());
            let Plan::Retry { not_before, .. } = plan else { panic!("{attempt}: {plan:?}") };
            not_before.since(at(0))
        });
        let delays: Vec<Duration> = delays.collect();
        assert_eq!(delays[0], Duration::ZERO, "the first retry may come at once");
        assert!(delays.is_sorted(), "{delays:?}");
        assert!(delays.iter().sum::<Duration>() >= Duration::from_secs(500), "{retry_after:?}: {delays:?}");
    }
}

#[test]
fn a_retry_after_that_ends_within_the_ttl_is_always_retried() {
    let policy = preset("web-push");
    let second = Duration::from_secs(1);
    // 60 s of Retry-After and up to 6 s of smear, with less than that left.
    for (left_ms, latest_ms) in [(63_000, 62_000), (61_000, 60_000), (60_500, 60_000), (60_001, 60_000)] {
        let retry = Retry { retry_after: Some(60 * second), ..SOME_RETRY };
        let full = situation(policy, 0, 3_600);
        let now = full.deadline.at().minus(Duration::from_millis(left_ms));
        let situation = Situation { now, ..full };
        let mut rng = rng();
        for _ in 0..1_000 {
            let plan = after(&Verdict::Retry(retry), &situation, &mut rng);
            let Plan::Retry { not_before, .. } = plan else { panic!("{left_ms} ms left: {plan:?}") };
            assert!(now.plus(60 * second) <= not_before, "not before Retry-After");
            assert!(not_before <= now.plus(Duration::from_millis(latest_ms)), "{left_ms} ms left: {plan:?}");
        }
    }
}

#[test]
fn a_smear_that_the_ttl_limits_still_spreads() {
    let policy = preset("web-push");
    let retry = Retry { retry_after: Some(Duration::from_secs(60)), ..SOME_RETRY };
    let situation = situation(policy, 0, 63);
    let mut rng = rng();
    let mut seconds = [0; 2];
    for _ in 0..1_000 {
        let plan = after(&Verdict::Retry(retry), &situation, &mut rng);
        let wait = plan.not_before().expect("a retry").since(situation.now);
        seconds[usize::from(wait >= Duration::from_secs(61))] += 1;
    }
    assert!(seconds.iter().all(|n| *n > 400), "{seconds:?}");
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let a_delay = || (0u64..=31_536_000_000).prop_map(Duration::from_millis);
    prop_oneof![
        (a_delay(), 1.0..=1000.0f64, a_delay()).prop_map(|(base_delay, multiplier, max_delay)| {
            Backoff::Exponential(Exponential { base_delay, multiplier, max_delay })
        }),
        prop::collection::vec(a_delay(), 1..=Schedule::MOST)
            .prop_map(|delays| Backoff::Schedule(Schedule::new(delays).expect("a list"))),
        (WaitFactor::MIN..=WaitFactor::MAX)
            .prop_map(|f| Backoff::WaitFactor(WaitFactor::new(f).expect("in range"))),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let jitter = prop_oneof![
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::None),
        (0.0..=10.0f64).prop_map(|fraction| Jitter::Additive { fraction }),
        (0u64..=31_536_000_000).prop_map(|ms| Jitter::Bounded { ms }),
        (0u16..=3600).prop_map(|most| Jitter::WholeSeconds { most }),
    ];
    (any_backoff(), jitter, 0u32..=100, prop::option::of(0.0..=1.0f64), 0.0..=1.0f64).prop_map(
        |(backoff, jitter, max_retries, fraction, smear)| {
            let mut policy = preset("web-push").clone();
            policy.retries = Some(Retries { max_retries, backoff, jitter });
            policy.max_delay_ttl_fraction = fraction;
            policy.retry_after_smear = smear;
            policy
        },
    )
}

/// One of the presets, or any other policy: two in three.
fn a_preset_or_any() -> impl Strategy<Value = Policy> {
    let presets: Vec<Policy> =
        catalogue::presets().entries().iter().map(|named| Policy::clone(&named.policy)).collect();
    prop_oneof![1 => prop::sample::select(presets), 2 => any_policy()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Never before Retry-After, never at or past the TTL, never more than `max_retries + 1` attempts, each path ends once.
    #[test]
    fn every_path_of_every_policy_keeps_its_limits(
        policy in a_preset_or_any(), ttl in 0u32..2_419_200, seed: u64,
        asked in prop::collection::vec(prop::option::of(0u64..5_000_000), 1..4),
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        let deadline = Ttl::from_secs(ttl).deadline_from(at(0));
        let max_retries = policy.retries.as_ref().map_or(0, |retries| retries.max_retries);
        let mut now = at(0);
        let mut attempts = 0;
        loop {
            let situation = Situation { policy: &policy, attempt: Attempt(attempts), ttl: Ttl::from_secs(ttl), deadline, now };
            let retry_after = asked[attempts as usize % asked.len()].map(Duration::from_secs);
            let verdict = Verdict::Retry(Retry { reason: Reason::RateLimited, in_doubt: false, retry_after });
            attempts += 1;
            prop_assert!(attempts <= max_retries + 1);
            match after(&verdict, &situation, &mut rng) {
                Plan::Retry { not_before, .. } => {
                    prop_assert!(not_before >= now.plus(retry_after.unwrap_or_default()));
                    prop_assert!(not_before < deadline.at());
                    now = not_before;
                }
                Plan::DeadLetter(reason) => {
                    prop_assert!(policy.retries.is_some());
                    prop_assert!(matches!(reason, Reason::RetriesExhausted | Reason::TtlExceeded));
                    prop_assert!(reason != Reason::RetriesExhausted || attempts == max_retries + 1);
                    break;
                }
                Plan::Expand => panic!("an attempt is not handed on"),
                Plan::Cancelled => panic!("an attempt is not cancelled"),
                Plan::FailedNoRetries(_) => {
                    prop_assert!(policy.retries.is_none());
                    break;
                }
                other @ (Plan::Sent | Plan::Gone { .. } | Plan::Expired | Plan::Defer { .. }) => {
                    prop_assert!(false, "{other:?}");
                }
            }
        }
    }

    /// No delay overflows, is negative or outlasts a year, and what is drawn stays in its range.
    #[test]
    fn every_delay_of_every_policy_is_from_nothing_to_a_year(
        policy in any_policy(), retry in prop_oneof![0u32..=101, Just(u32::MAX)], ttl in 0u32..=u32::MAX, seed: u64,
    ) {
        let ttl = Ttl::from_secs(ttl);
        let retries = policy.retries.as_ref().expect("enabled");
        prop_assert!(retries.range(retry).max <= MAX_DELAY);
        if let Some(range) = policy.delay_range(retry, ttl) {
            let drawn = range.draw(&mut StdRng::seed_from_u64(seed));
            prop_assert!(range.min <= drawn && drawn <= range.max && range.max <= MAX_DELAY);
            prop_assert!(range.min <= range.mean() && range.mean() <= range.max);
            if let Some(fraction) = policy.max_delay_ttl_fraction {
                prop_assert!(range.max.as_secs_f64() <= ttl.duration().as_secs_f64() * fraction + 1e-6);
            }
        } else {
            prop_assert!(retry == 0 || retry > retries.max_retries);
        }
    }
}

#[test]
fn a_recorded_state_gives_back_the_plan_that_left_it() {
    let not_before = Timestamp::from_secs(7);
    for plan in [
        Plan::Sent,
        Plan::Gone { confirmed: true },
        Plan::Gone { confirmed: false },
        Plan::Expired,
        Plan::FailedNoRetries(Reason::ServerError),
        Plan::DeadLetter(Reason::RetriesExhausted),
        Plan::Expand,
        Plan::Retry { not_before, reason: Reason::ServerError, in_doubt: true },
    ] {
        assert_eq!(Plan::recorded(plan.state(), plan.reason(), not_before, true), plan);
    }
}
