//! Nominal delays: growing by a factor, a list, or growing by the wait-factor formula.

use std::time::Duration;

use super::jitter::scaled;

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
        match self {
            Self::Exponential(backoff) => backoff.nominal(retry),
            Self::Schedule(backoff) => backoff.nominal(retry),
            Self::WaitFactor(backoff) => backoff.nominal(retry),
        }
    }

    pub(super) fn cap(&self) -> Duration {
        match self {
            Self::Exponential(backoff) => backoff.max_delay,
            Self::Schedule(_) | Self::WaitFactor(_) => MAX_DELAY,
        }
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

impl Exponential {
    /// The nominal delay before retry number `retry` (from 1).
    pub fn nominal(&self, retry: u32) -> Duration {
        let exponent = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.multiplier.powi(exponent);
        // 0 · ∞ has no value; a base of zero stays zero however often it is multiplied.
        if self.base_delay.is_zero() {
            return Duration::ZERO;
        }
        scaled(self.base_delay, factor).min(self.max_delay)
    }
}

/// One delay for each retry, in order; they need not increase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    delays: Vec<Duration>,
}

impl Schedule {
    pub const MOST: usize = 100;

    /// `None` for an empty list, or one that is longer than [`Self::MOST`].
    pub fn new(delays: Vec<Duration>) -> Option<Self> {
        (1..=Self::MOST).contains(&delays.len()).then_some(Self { delays })
    }

    pub fn retries(&self) -> u32 {
        u32::try_from(self.delays.len()).unwrap_or(u32::MAX)
    }

    /// The nominal delay before retry number `retry` (from 1).
    pub fn nominal(&self, retry: u32) -> Duration {
        let place = usize::try_from(retry.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.delays.len().saturating_sub(1);
        self.delays.get(place.min(last)).copied().unwrap_or(Duration::ZERO)
    }
}

/// `(f/100) · 30 s + 2^(retry · f/100) s`, rounded up to whole seconds: one number stretches the delays from half a minute to months.
///
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

    /// The nominal delay before retry number `retry` (from 1), at most a year.
    pub fn nominal(self, retry: u32) -> Duration {
        // Multiplied first and divided then: whole numbers stay whole, and are not rounded up to the next second.
        let hundredths = |times: u32| f64::from(self.0) * f64::from(times) / 100.0;
        let seconds = hundredths(30) + hundredths(retry).exp2();
        Duration::try_from_secs_f64(seconds.ceil()).map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLING: Exponential = Exponential {
        base_delay: Duration::from_secs(2),
        multiplier: 2.0,
        max_delay: Duration::from_secs(120),
    };

    #[test]
    fn each_family_has_its_delays() {
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

    #[test]
    fn a_schedule_has_1_to_100_delays_and_a_wait_factor_10_to_200_hundredths() {
        assert_eq!([0, Schedule::MOST + 1].map(|n| Schedule::new(vec![Duration::ZERO; n])), [None, None]);
        assert_eq!([9, 201].map(WaitFactor::new), [None, None]);
    }
}
