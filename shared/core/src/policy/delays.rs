//! Nominal delays, growing by a factor, a list, or growing by the wait-factor formula; and their random spread, so that a thousand
//! failures do not come back in one second.

use std::time::Duration;

use rand::{Rng, RngExt};

/// The longest single delay that a policy may ask for: a year.
pub const MAX_DELAY: Duration = Duration::from_secs(365 * 86_400);

#[derive(Clone, PartialEq, Debug)]
pub enum Backoff {
    Exponential(Exponential),
    Schedule(Schedule),
    WaitFactor(WaitFactor),
}

impl Backoff {
    /// The nominal delay before retry number `retry` (from 1), at most a year.
    pub fn nominal(&self, retry: u32) -> Duration {
        let past = retry.saturating_sub(1);
        match self {
            // 0 · ∞ has no value; a base of zero stays zero however often it is multiplied.
            Self::Exponential(Exponential { base_delay: Duration::ZERO, .. }) => Duration::ZERO,
            Self::Exponential(Exponential { base_delay, multiplier, max_delay }) => {
                let factor = multiplier.powi(i32::try_from(past).unwrap_or(i32::MAX));
                scaled(*base_delay, factor).min(*max_delay)
            }
            Self::Schedule(Schedule(delays)) => delays[(past as usize).min(delays.len() - 1)],
            Self::WaitFactor(WaitFactor(f)) => {
                // Multiplied first and divided then: whole numbers stay whole, and are not rounded up to the next second.
                let hundredths = |times: u32| f64::from(*f) * f64::from(times) / 100.0;
                let seconds = hundredths(30) + hundredths(retry).exp2();
                Duration::try_from_secs_f64(seconds.ceil()).map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY))
            }
        }
    }

    /// No nominal delay is longer.
    pub(super) fn cap(&self) -> Duration {
        if let Self::Exponential(backoff) = self { backoff.max_delay } else { MAX_DELAY }
    }
}

/// `min(max_delay, base_delay · multiplier^(retry − 1))`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exponential {
    pub base_delay: Duration,
    /// Growth from retry to retry, at least 1.
    pub multiplier: f64,
    pub max_delay: Duration,
}

/// One delay for each retry, in order; at least one. They need not increase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(Vec<Duration>);

impl Schedule {
    pub const MOST: usize = 100;

    /// `None` for an empty list, or one that is longer than [`Self::MOST`].
    pub fn new(delays: Vec<Duration>) -> Option<Self> {
        (1..=Self::MOST).contains(&delays.len()).then_some(Self(delays))
    }

    pub fn retries(&self) -> u32 {
        self.0.len() as u32
    }
}

/// `(f/100) · 30 s + 2^(retry · f/100) s`, rounded up to whole seconds: one number stretches the delays from half a minute to months.
/// The tables that the formula was published with are in whole seconds, and every figure in them is its value rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitFactor(u16);

impl WaitFactor {
    pub const MIN: u16 = 10;
    pub const MAX: u16 = 200;

    /// A factor of this many hundredths; `None` outside 10 to 200.
    pub fn new(f: u16) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&f).then_some(Self(f))
    }

    pub fn hundredths(self) -> u16 {
        self.0
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Anywhere from zero to the nominal delay, before the last retry from its half: the widest spread.
    Full,
    /// From half of the nominal delay to all of it: keeps a minimum distance.
    Equal,
    /// The nominal delay and up to this share of it on top, 0 to 10.
    Additive { fraction: f64 },
    /// The nominal delay and up to that many milliseconds on top; the policy's cap holds for the sum.
    Bounded { ms: u64 },
    /// The nominal delay and a whole number of seconds from 0 to this on top.
    WholeSeconds { most: u16 },
    /// No randomness: for receivers with few messages, and for tables.
    None,
}

impl Jitter {
    /// The delays that can be drawn around `nominal`; `cap` holds for [`Jitter::Bounded`] alone.
    pub fn around(self, nominal: Duration, cap: Duration) -> DelayRange {
        let on_top = |most: Duration| DelayRange::new(nominal, nominal.saturating_add(most));
        match self {
            Self::Full => DelayRange::new(Duration::ZERO, nominal),
            Self::Equal => DelayRange::new(nominal / 2, nominal),
            Self::Additive { fraction } => on_top(scaled(nominal, fraction)),
            Self::Bounded { ms } => on_top(Duration::from_millis(ms)).below(cap),
            Self::WholeSeconds { most } => {
                DelayRange { step_ms: 1000, ..on_top(Duration::from_secs(most.into())) }
            }
            Self::None => on_top(Duration::ZERO),
        }
    }
}

/// The delays that one retry may have, all equally likely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayRange {
    pub min: Duration,
    pub max: Duration,
    /// How far apart they are, in milliseconds.
    step_ms: u64,
}

impl DelayRange {
    /// From `min` to `max`, both included, to the millisecond.
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), step_ms: 1 }
    }

    /// The delays from `floor` on; `floor` alone if all are shorter.
    #[must_use]
    pub fn above(self, floor: Duration) -> Self {
        Self { min: self.min.max(floor), max: self.max.max(floor), ..self }
    }

    /// The delays up to `cap`; `cap` alone if all are longer.
    pub fn below(self, cap: Duration) -> Self {
        let min = self.min.min(cap);
        let steps = self.max.min(cap).saturating_sub(min).as_millis() / u128::from(self.step_ms);
        let span = u64::try_from(steps).unwrap_or(u64::MAX).saturating_mul(self.step_ms);
        Self { min, max: min.saturating_add(Duration::from_millis(span)).min(cap), step_ms: self.step_ms }
    }

    pub fn mean(self) -> Duration {
        self.min + (self.max - self.min) / 2
    }

    pub fn draw(self, rng: &mut dyn Rng) -> Duration {
        let ms = u64::try_from((self.max - self.min).as_millis()).unwrap_or(u64::MAX);
        let steps = rng.random_range(0..=ms / self.step_ms);
        self.min.saturating_add(Duration::from_millis(steps * self.step_ms))
    }
}

/// `duration · factor`, saturating; `factor` is finite and not negative.
pub(super) fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::rng;

    const DOUBLING: Exponential = Exponential {
        base_delay: Duration::from_secs(2),
        multiplier: 2.0,
        max_delay: Duration::from_secs(120),
    };

    #[test]
    fn each_family_has_its_delays() {
        assert_eq!([0, Schedule::MOST + 1].map(|n| Schedule::new(vec![Duration::ZERO; n])), [None, None]);
        assert_eq!([9, 201].map(WaitFactor::new), [None, None]);
        let schedule = Schedule::new([60, 1800, 10_800].map(Duration::from_secs).to_vec()).expect("three");
        let factor = |f| Backoff::WaitFactor(WaitFactor::new(f).expect("in range"));
        let endless = Exponential { multiplier: 1e300, max_delay: Duration::from_secs(7), ..DOUBLING };
        let zero = Exponential { base_delay: Duration::ZERO, ..endless };
        let last = u32::MAX;
        for (backoff, delays) in [
            (Backoff::Exponential(DOUBLING), &[(1, 2), (2, 4), (5, 32), (6, 64), (7, 120), (8, 120)][..]),
            (Backoff::Exponential(endless), &[(2, 7), (last, 7)]),
            (Backoff::Exponential(zero), &[(1, 0), (last, 0)]),
            (Backoff::Schedule(schedule), &[(1, 60), (2, 1800), (3, 10_800), (last, 10_800)]),
            // Whole seconds are not rounded up further.
            (factor(110), &[(10, 33 + 2048)]),
            (factor(200), &[(1, 64), (last, MAX_DELAY.as_secs())]),
            (factor(10), &[(1, 5)]),
        ] {
            for (retry, secs) in delays {
                assert_eq!(backoff.nominal(*retry), Duration::from_secs(*secs), "{backoff:?}, retry {retry}");
            }
        }
    }

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn each_kind_has_its_range() {
        let (none, cap) = (Duration::MAX, Duration::from_millis(10_400));
        for (jitter, cap, min, max) in [
            (Jitter::Full, none, 0, 10_000),
            (Jitter::Equal, none, 5_000, 10_000),
            (Jitter::Additive { fraction: 0.3 }, none, 10_000, 13_000),
            (Jitter::Bounded { ms: 1_000 }, none, 10_000, 11_000),
            (Jitter::WholeSeconds { most: 59 }, none, 10_000, 69_000),
            (Jitter::None, none, 10_000, 10_000),
            // The policy's cap holds for bounded jitter alone.
            (Jitter::Bounded { ms: 1_000 }, cap, 10_000, 10_400),
            (Jitter::Additive { fraction: 0.1 }, cap, 10_000, 11_000),
        ] {
            let range = jitter.around(TEN, cap);
            assert_eq!((range.min.as_millis(), range.max.as_millis()), (min, max), "{jitter:?}");
        }
    }

    #[test]
    fn a_cap_limits_the_range_and_keeps_its_randomness() {
        let cut = Jitter::Full.around(TEN, Duration::MAX).below(Duration::from_secs(4));
        let mut rng = rng();
        let drawn: Vec<Duration> = (0..1_000).map(|_| cut.draw(&mut rng)).collect();
        let at_the_cap = drawn.iter().filter(|delay| **delay == cut.max).count();
        assert!(drawn.iter().all(|delay| *delay <= Duration::from_secs(4)) && at_the_cap < 10);
        let all_above = Jitter::None.around(TEN, Duration::MAX).below(Duration::from_secs(4));
        assert_eq!((all_above.min, all_above.max), (Duration::from_secs(4), Duration::from_secs(4)));
    }

    #[test]
    fn whole_seconds_stay_whole_under_a_cap() {
        let range = Jitter::WholeSeconds { most: 59 }.around(Duration::from_millis(500), Duration::MAX);
        let cut = range.below(Duration::from_millis(3_200));
        assert_eq!(cut.max, Duration::from_millis(2_500));
        let mut rng = rng();
        for _ in 0..100 {
            assert_eq!(cut.draw(&mut rng).subsec_millis(), 500);
        }
    }
}
