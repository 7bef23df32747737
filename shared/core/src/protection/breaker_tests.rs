use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const COOLDOWNS: Cooldowns = Cooldowns { first: Duration::from_secs(30), longest: Duration::from_secs(900) };

fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000).plus(Duration::from_millis(ms))
}

fn secs(secs: u64) -> Timestamp {
    at(secs * 1000)
}

fn counted(attempts: u64, failures: u64) -> Count {
    Count { attempts, failures, ..Count::default() }
}

fn fails(breaker: &mut Breaker, now: Timestamp) -> bool {
    breaker.judge(true, now, &COOLDOWNS, &mut rng())
}

/// One that opened at the start, and when its cooldown ends.
fn opened() -> (Breaker, Timestamp) {
    let mut breaker = Breaker::default();
    assert!(fails(&mut breaker, secs(0)));
    let Phase::Open { until } = breaker.phase(secs(0)) else { panic!("{breaker:?}") };
    (breaker, until)
}

#[test]
fn the_rules_are_broken_by_more_than_their_share_of_enough_attempts() {
    assert!(!SLOW.is_broken_by(counted(25, 5)), "5 of 25 are 20 %");
    assert!(SLOW.is_broken_by(counted(26, 6)));
    assert!(!SLOW.is_broken_by(counted(19, 19)), "too few to tell");
    assert!(!FAST.is_broken_by(counted(50, 25)), "half is not more than half");
    assert!(FAST.is_broken_by(counted(52, 27)));
    assert!(!FAST.is_broken_by(counted(49, 49)), "too few to tell");
}

#[test]
fn open_it_lets_nothing_through_before_its_cooldown_ends() {
    let (breaker, until) = opened();
    assert!(until >= secs(30) && until <= secs(33), "{until:?}");
    for ms in (0..30_000).step_by(30) {
        let says = breaker.says(at(ms), &COOLDOWNS);
        assert_eq!(says, Says::Later { from: until, width: COOLDOWNS.first, longest: COOLDOWNS.first });
    }
}

#[test]
fn half_open_it_lets_a_few_probes_through_and_closes_over_a_ramp_when_all_succeed() {
    let (mut breaker, until) = opened();
    assert_eq!((breaker.send_probes(3, until), breaker.send_probes(10, until)), (3, 2));
    assert!(matches!(breaker.says(until, &COOLDOWNS), Says::Probes { left: 0, .. }));
    assert!(!breaker.probed(4, false, until, &COOLDOWNS, &mut rng()));
    assert!(breaker.probed(1, false, until, &COOLDOWNS, &mut rng()));
    assert_eq!(breaker.phase(until), Phase::Ramping { since: until });
    assert_eq!(breaker.says(until, &COOLDOWNS), Says::Go);
    assert_eq!(breaker.phase(until.plus(RAMP)), Phase::Closed);
}

#[test]
fn a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_quarter_of_an_hour() {
    let (mut breaker, mut until) = opened();
    for cooldown in [60, 120, 240, 480, 900, 900] {
        assert_eq!(breaker.send_probes(1, until), 1);
        assert!(!breaker.probed(0, true, until, &COOLDOWNS, &mut rng()));
        let Phase::Open { until: next } = breaker.phase(until) else { panic!("{breaker:?}") };
        let took = next.since(until).as_secs();
        assert!((cooldown..=cooldown + cooldown / 10).contains(&took), "{cooldown}: {took}");
        until = next;
    }
}

#[test]
fn the_longest_spread_is_a_quarter_of_the_time_that_it_has_been_out() {
    let (mut breaker, start) = (Breaker::default(), secs(0));
    let mut now = start;
    for opening in 1..1_000 {
        breaker.open(None, now, &COOLDOWNS, &mut rng());
        let Says::Later { from, width, longest } = breaker.says(now, &COOLDOWNS) else {
            panic!("{breaker:?}")
        };
        assert!((30..=225).contains(&width.as_secs()) && longest >= width, "{opening}: {width:?}");
        let out_for = now.since(start) + COOLDOWNS.first;
        if opening <= 5 {
            assert_eq!(longest, width, "{opening}: as before, while cooldowns double");
        } else {
            assert!(longest <= out_for / 4 && longest.as_secs() <= 7 * 86_400, "{opening}: {longest:?}");
            assert!(longest >= out_for.min(Duration::from_secs(28 * 86_400)) / 5, "{opening}: {longest:?}");
        }
        now = from;
    }
}

#[test]
fn once_closed_the_first_cooldown_is_short_again() {
    let (mut breaker, mut until) = opened();
    breaker.send_probes(1, until);
    breaker.probed(0, true, until, &COOLDOWNS, &mut rng());
    until = until.plus(Duration::from_secs(70));
    breaker.send_probes(PROBES, until);
    breaker.probed(PROBES, false, until, &COOLDOWNS, &mut rng());
    assert!(fails(&mut breaker, until.plus(RAMP)));
    let Phase::Open { until: next } = breaker.phase(until.plus(RAMP)) else { panic!("{breaker:?}") };
    assert!(next.since(until.plus(RAMP)).as_secs() <= 33);
}

#[test]
fn probes_that_are_never_answered_are_followed_by_others() {
    let (mut breaker, until) = opened();
    assert_eq!(breaker.send_probes(PROBES, until), PROBES);
    assert_eq!(breaker.send_probes(1, until.plus(Duration::from_secs(29))), 0);
    assert_eq!(breaker.send_probes(1, until.plus(PROBES_ANSWERED_WITHIN)), 1);
}

#[test]
fn looking_does_not_move_the_clock_of_probes() {
    let (mut breaker, until) = opened();
    breaker.send_probes(2, until);
    breaker.probed(1, false, until, &COOLDOWNS, &mut rng());
    for seconds in [1, 30, 31, 60, 3600] {
        let now = until.plus(Duration::from_secs(seconds));
        let Says::Probes { since, left, .. } = breaker.says(now, &COOLDOWNS) else { panic!("{breaker:?}") };
        assert_eq!((since, left), (until, if seconds < 30 { 3 } else { 4 }), "{seconds} s");
        assert_eq!(breaker.send_probes(0, now), 0);
    }
    let later = until.plus(Duration::from_secs(3600));
    assert_eq!(breaker.send_probes(1, later), 1);
    assert!(matches!(breaker.says(later, &COOLDOWNS), Says::Probes { since, .. } if since == later));
}

#[test]
fn what_was_under_way_when_it_opened_neither_opens_it_again_nor_closes_it() {
    let (mut breaker, until) = opened();
    for failing in [true, false] {
        assert!(!breaker.judge(failing, secs(2), &COOLDOWNS, &mut rng()));
        assert!(!breaker.probed(9, false, secs(2), &COOLDOWNS, &mut rng()));
        assert_eq!(breaker.phase(secs(2)), Phase::Open { until });
    }
}

#[test]
fn a_pause_ends_in_a_ramp() {
    let mut breaker = Breaker::default();
    assert!(breaker.pause(Duration::from_secs(60), secs(0)));
    assert!(!breaker.pause(Duration::from_secs(60), secs(1)), "it is paused");
    assert!(matches!(breaker.says(secs(59), &COOLDOWNS), Says::Later { from, .. } if from == secs(60)));
    assert_eq!(breaker.phase(secs(60)), Phase::Ramping { since: secs(60) });
    assert_eq!(breaker.phase(secs(120)), Phase::Closed);
}

#[test]
fn an_operator_opens_and_closes_it() {
    let mut breaker = Breaker::default();
    breaker.open(Some(Duration::from_secs(600)), secs(0), &COOLDOWNS, &mut rng());
    assert!(matches!(breaker.says(secs(599), &COOLDOWNS), Says::Later { .. }));
    breaker.close();
    assert_eq!(breaker.says(secs(1), &COOLDOWNS), Says::Go);
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let (mut breaker, until) = opened();
    breaker.send_probes(2, until);
    let text = serde_json::to_string(&breaker).expect("JSON");
    assert!(text.contains(r#""phase":"half_open""#), "{text}");
    assert_eq!(serde_json::from_str::<Breaker>(&text).expect("its own JSON"), breaker);
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
        let mut now = 0;
        for (later, attempts, failures, what) in steps {
            now += later;
            let before = breaker.phase(at(now));
            match what {
                0 => {
                    let going = breaker.send_probes(3, at(now));
                    let half_open = matches!(before, Phase::HalfOpen { .. });
                    prop_assert!(going == 0 || half_open);
                }
                1 => {
                    breaker.judge(failures > attempts, at(now), &COOLDOWNS, &mut rng);
                }
                _ => {
                    breaker.probed(1, failures % 2 == 0, at(now), &COOLDOWNS, &mut rng);
                }
            }
            match breaker.phase(at(now)) {
                Phase::HalfOpen { sent, succeeded, .. } => prop_assert!(sent <= PROBES && succeeded < PROBES),
                Phase::Open { until } => prop_assert!(until <= at(now).plus(COOLDOWNS.longest * 2)),
                Phase::Closed | Phase::Ramping { .. } | Phase::Paused { .. } => {}
            }
        }
    }
}
