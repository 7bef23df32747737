//! Random spread of delays, so that a thousand failures do not come back in one second.

use std::time::Duration;

use rand::{Rng, RngExt};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Anywhere from zero to the nominal delay: the widest spread.
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
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn each_kind_has_its_range() {
        for (jitter, min, max) in [
            (Jitter::Full, 0, 10_000),
            (Jitter::Equal, 5_000, 10_000),
            (Jitter::Additive { fraction: 0.3 }, 10_000, 13_000),
            (Jitter::Bounded { ms: 1_000 }, 10_000, 11_000),
            (Jitter::WholeSeconds { most: 59 }, 10_000, 69_000),
            (Jitter::None, 10_000, 10_000),
        ] {
            let range = jitter.around(TEN, Duration::MAX);
            assert_eq!((range.min.as_millis(), range.max.as_millis()), (min, max), "{jitter:?}");
        }
    }

    #[test]
    fn a_cap_limits_the_range_and_keeps_its_randomness() {
        let cut = Jitter::Full.around(TEN, Duration::MAX).below(Duration::from_secs(4));
        let mut rng = StdRng::seed_from_u64(1);
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
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..100 {
            assert_eq!(cut.draw(&mut rng).subsec_millis(), 500);
        }
    }

    #[test]
    fn the_policy_s_cap_holds_for_bounded_jitter_alone() {
        let cap = Duration::from_millis(10_400);
        assert_eq!(Jitter::Bounded { ms: 1_000 }.around(TEN, cap).max, cap);
        assert_eq!(Jitter::Additive { fraction: 0.1 }.around(TEN, cap).max, Duration::from_secs(11));
    }
}
