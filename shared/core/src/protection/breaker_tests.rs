use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::whose::Place;
use super::*;
use crate::fixtures::{at as secs, rng};

const COOLDOWNS: Cooldowns = Cooldowns { first: Duration::from_secs(30), longest: Duration::from_secs(900) };

fn at(ms: u64) -> Timestamp {
    secs(0).plus(Duration::from_millis(ms))
}

fn judged(breaker: &mut Breaker, fails: bool, now: Timestamp) -> bool {
    breaker.judge(fails, now, &COOLDOWNS, &mut rng())
}

/// Each has a recipient and a tenant of its own.
fn whose(n: u32) -> Whose {
    Whose::numbered(Place::numbered(n as usize % 16), n.into())
}

fn sent(breaker: &mut Breaker, wanted: u32, now: Timestamp) -> u32 {
    let wanted: Vec<Whose> = (0..wanted).map(whose).collect();
    breaker.send_probes(&wanted, now).len() as u32
}

fn probed(breaker: &mut Breaker, succeeded: u32, failed: bool, now: Timestamp) -> bool {
    let succeeded = (0..succeeded).map(|n| (whose(n), true));
    let answers: Vec<_> = succeeded.chain(failed.then_some((whose(9), false))).collect();
    breaker.probed(&answers, now, &COOLDOWNS, &mut rng())
}

fn open_until(breaker: &Breaker, now: Timestamp) -> Timestamp {
    let Phase::Open { until } = breaker.phase(now) else { panic!("{breaker:?}") };
    until
}

/// One that opened at the start, and when its cooldown ends.
fn opened() -> (Breaker, Timestamp) {
    let mut breaker = Breaker::default();
    assert!(judged(&mut breaker, true, secs(0)));
    let until = open_until(&breaker, secs(0));
    (breaker, until)
}

#[test]
fn the_rules_are_broken_by_more_than_their_share_of_enough_attempts() {
    for (rule, attempts, failures, is_broken) in [
        (SLOW, 25, 5, false),
        (SLOW, 26, 6, true),
        (SLOW, 19, 19, false),
        (FAST, 50, 25, false),
        (FAST, 52, 27, true),
        (FAST, 49, 49, false),
    ] {
        let count = Count { attempts, failures, ..Count::default() };
        assert_eq!(rule.is_broken_by(count), is_broken, "{failures} of {attempts}: {rule:?}");
    }
}

#[test]
fn open_it_lets_nothing_through_before_its_cooldown_ends() {
    let (mut breaker, until) = opened();
    assert!(until >= secs(30) && until <= secs(33), "{until:?}");
    let soon = Span { from: until, width: COOLDOWNS.first };
    let later = Decision::LinesUp { soon, far: soon };
    for ms in (0..30_000).step_by(30) {
        assert_eq!(breaker.decide(at(ms), &COOLDOWNS), later);
    }
    // What was under way when it opened neither opens it again nor closes it.
    for fails in [true, false] {
        assert!(!judged(&mut breaker, fails, secs(2)) && !probed(&mut breaker, 9, false, secs(2)));
        assert_eq!(breaker.phase(secs(2)), Phase::Open { until });
    }
}

#[test]
fn a_half_open_breaker_closes_over_a_ramp_when_most_probes_succeed() {
    let (mut breaker, until) = opened();
    assert_eq!([3, 10].map(|wanted| sent(&mut breaker, wanted, until)), [3, 2]);
    assert!(matches!(breaker.decide(until, &COOLDOWNS), Decision::Probes { left: 0, .. }));
    assert_eq!([2, 1].map(|succeeded| probed(&mut breaker, succeeded, false, until)), [false, true]);
    assert_eq!(breaker.phase(until), Phase::Ramping { since: until });
    assert_eq!(breaker.decide(until, &COOLDOWNS), Decision::Go);
    assert_eq!(breaker.phase(until.plus(RAMP)), Phase::Closed);
}

/// One whose probes failed until it had been out for that long, and when the cooldown ends that follows.
fn out_for(secs: u64) -> (Breaker, Timestamp) {
    let (mut breaker, mut until) = opened();
    while until.since(at(0)).as_secs() < secs {
        sent(&mut breaker, 1, until);
        probed(&mut breaker, 0, true, until);
        until = open_until(&breaker, until);
    }
    (breaker, until)
}

#[test]
fn a_cooldown_is_a_twentieth_of_the_time_that_it_has_been_out() {
    let (mut breaker, mut until) = opened();
    for _ in 0..200 {
        assert_eq!(sent(&mut breaker, 1, until), 1);
        assert!(!probed(&mut breaker, 0, true, until));
        let next = open_until(&breaker, until);
        let (took, expected) = (next.since(until), until.since(at(0)) / 20);
        let expected = expected.clamp(COOLDOWNS.first, COOLDOWNS.longest);
        assert!(took >= expected && took <= expected + expected / 10, "{expected:?}: {took:?}");
        until = next;
    }
    assert!(until.since(at(0)).as_secs() > 86_400, "the longest were among them");
    // Once closed, the first cooldown is short again.
    sent(&mut breaker, PROBES, until);
    assert!(probed(&mut breaker, PROBES, false, until));
    assert!(judged(&mut breaker, true, until.plus(RAMP)));
    assert!(open_until(&breaker, until.plus(RAMP)).since(until.plus(RAMP)).as_secs() <= 33);
}

#[test]
fn one_that_opens_again_in_its_ramp_has_been_out_all_the_time() {
    let (mut breaker, until) = out_for(3_600);
    sent(&mut breaker, PROBES, until);
    assert!(probed(&mut breaker, PROBES, false, until));
    let now = until.plus(RAMP / 2);
    assert!(judged(&mut breaker, true, now));
    assert!(open_until(&breaker, now).since(now).as_secs() >= 180);
}

#[test]
fn many_messages_look_again_within_a_third_of_the_time_that_it_has_been_out() {
    for (out, earliest, latest) in
        [(0, 30, 63), (600, 162, 230), (3_600, 970, 1_300), (86_400, 15_000, 20_500)]
    {
        let (breaker, until) = out_for(out);
        let now = until.minus(Duration::from_secs(1));
        let Decision::LinesUp { soon, far } = breaker.decide(now, &COOLDOWNS) else { panic!("{breaker:?}") };
        assert_eq!(soon, Span { from: until, width: COOLDOWNS.first }, "{out}");
        assert!(far.from >= until && far.end() >= soon.end(), "{out}: {far:?}");
        if out > 0 {
            assert!(far.from.since(now).as_secs() >= earliest, "{out}: {far:?}");
        }
        assert!(far.end().since(now).as_secs() <= latest, "{out}: {far:?}");
    }
}

#[test]
fn a_last_attempt_becomes_a_probe_after_a_third_of_the_outage() {
    let may_be_last = |breaker: &Breaker, now| match breaker.decide(now, &COOLDOWNS) {
        Decision::Probes { may_be_last, .. } => may_be_last,
        decision @ (Decision::Go | Decision::Later { .. } | Decision::LinesUp { .. }) => {
            panic!("{decision:?}")
        }
    };
    for (out, first) in [(0, 20), (600, 200), (86_400, 900)] {
        let (mut breaker, until) = out_for(out);
        let after = |secs| until.plus(Duration::from_secs(secs));
        assert!(!may_be_last(&breaker, after(first - 1)), "{out}");
        assert!(may_be_last(&breaker, after(first * 2)), "{out}");
        // Once one has succeeded, the others follow soon.
        let now = after(first * 2);
        sent(&mut breaker, 1, now);
        probed(&mut breaker, 1, false, now);
        let then = |secs| now.plus(Duration::from_secs(secs));
        assert_eq!([19, 20].map(|secs| may_be_last(&breaker, then(secs))), [false, true], "{out}");
    }
}

#[test]
fn closed_gently_it_ramps_and_one_that_lets_pass_stays_as_it_is() {
    let (mut breaker, _) = opened();
    assert!(breaker.close_gently(secs(5)));
    assert_eq!(breaker.phase(secs(5)), Phase::Ramping { since: secs(5) });
    assert!(!breaker.close_gently(secs(20)));
    assert_eq!(breaker.phase(secs(20)), Phase::Ramping { since: secs(5) });
    let mut paused = Breaker::default();
    paused.pause(Duration::from_secs(60), secs(0));
    assert!(paused.close_gently(secs(1)));
    let mut closed = Breaker::default();
    assert!(!closed.close_gently(secs(1)) && closed == Breaker::default());
}

#[test]
fn probes_that_are_never_answered_are_followed_by_others() {
    let (mut breaker, until) = opened();
    let after = |secs| until.plus(Duration::from_secs(secs));
    for (wanted, now, going) in [(PROBES, 0, PROBES), (1, 29, 0), (1, 30, 1)] {
        assert_eq!(sent(&mut breaker, wanted, after(now)), going, "{now}");
    }

    // Looking does not move their clock.
    let (mut breaker, _) = opened();
    sent(&mut breaker, 2, until);
    probed(&mut breaker, 1, false, until);
    for (secs, expected) in [(1, 3), (30, 4), (31, 4), (60, 4), (3600, 4)] {
        let decision = breaker.decide(after(secs), &COOLDOWNS);
        let Decision::Probes { since, left, .. } = decision else { panic!("{decision:?}") };
        assert_eq!((since, left), (until, expected), "{secs} s");
        assert_eq!(sent(&mut breaker, 0, after(secs)), 0);
    }
    assert_eq!(sent(&mut breaker, 1, after(3600)), 1);
    let decision = breaker.decide(after(3600), &COOLDOWNS);
    assert!(matches!(decision, Decision::Probes { since, .. } if since == after(3600)));
}

#[test]
fn a_pause_ends_in_a_ramp() {
    let mut breaker = Breaker::default();
    assert_eq!([0, 1].map(|now| breaker.pause(Duration::from_secs(60), secs(now))), [true, false]);
    let decision = breaker.decide(secs(59), &COOLDOWNS);
    assert!(matches!(decision, Decision::Later { soon } if soon.from == secs(60)));
    assert_eq!(breaker.phase(secs(60)), Phase::Ramping { since: secs(60) });
    assert_eq!(breaker.phase(secs(120)), Phase::Closed);
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let (mut breaker, until) = opened();
    sent(&mut breaker, 2, until);
    let text = serde_json::to_string(&breaker).expect("JSON");
    assert!(
        text.contains(r#""phase":"half_open""#) && text.contains(r#""ballots":[[0,0,null],[1,1,null]]"#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Breaker>(&text).expect("its own JSON"), breaker);
    // An earlier release leaves the votes out: its numbers count on.
    let earlier = r#"{"phase":"half_open","since":1700000000000,"sent":4,"succeeded":3,"openings":1}"#;
    let mut breaker: Breaker = serde_json::from_str(earlier).expect("an earlier release's JSON");
    assert_eq!(breaker.out_for(Timestamp::from_ms(1_700_000_009_000)), Duration::ZERO);
    let now = Timestamp::from_ms(1_700_000_001_000);
    assert_eq!(sent(&mut breaker, 3, now), 1);
    assert!(probed(&mut breaker, 1, false, now));
    assert!(!serde_json::to_string(&breaker).expect("JSON").contains("vote"));
}

proptest! {
    /// However attempts go: nothing passes an open breaker before its time, never more than the probes pass a half-open one,
    /// and none is open for longer than the longest cooldown.
    #[test]
    fn nothing_passes_while_it_is_open(
        steps in prop::collection::vec((0u64..20_000, 0u64..40, 0u64..40, 0u8..3), 1..100), seed: u64,
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut breaker = Breaker::default();
        let mut now = at(0);
        for (later, attempts, failures, what) in steps {
            now = now.plus(Duration::from_millis(later));
            let is_half_open = matches!(breaker.phase(now), Phase::HalfOpen { .. });
            match what {
                0 => prop_assert!(sent(&mut breaker, 3, now) == 0 || is_half_open),
                1 => _ = breaker.judge(failures > attempts, now, &COOLDOWNS, &mut rng),
                _ => _ = breaker.probed(&[(whose(attempts as u32), failures % 2 == 1)], now, &COOLDOWNS, &mut rng),
            }
            match breaker.phase(now) {
                Phase::HalfOpen { sent, succeeded, .. } => prop_assert!(sent <= PROBES && succeeded < PROBES),
                Phase::Open { until } => prop_assert!(until <= now.plus(COOLDOWNS.longest * 2)),
                Phase::Closed | Phase::Ramping { .. } | Phase::Paused { .. } => {}
            }
        }
    }
}
