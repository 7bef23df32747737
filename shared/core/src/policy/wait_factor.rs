//! Delays that one number stretches: from half a minute to months.

use std::time::Duration;

use super::MAX_DELAY;

/// `(f/100) · 30 s + 2^(retry · f/100) s`, rounded up to whole seconds (article 004).
///
/// The article's tables are in whole seconds, and every figure in them is the formula's value rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitFactor(u16);

impl WaitFactor {
    /// The smallest factor.
    pub const MIN: u16 = 10;
    /// The largest factor.
    pub const MAX: u16 = 200;

    /// A factor of this many hundredths; `None` outside 10 to 200.
    pub fn new(f: u16) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&f).then_some(Self(f))
    }

    /// The factor, in hundredths.
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// The nominal delay before retry number `retry` (from 1), at most a year.
    pub fn nominal(self, retry: u32) -> Duration {
        // Multiplied first and divided then: what is whole stays whole, and is not rounded up to the next second.
        let hundredths = |times: u32| f64::from(self.0) * f64::from(times) / 100.0;
        let seconds = hundredths(30) + hundredths(retry).exp2();
        Duration::try_from_secs_f64(seconds.ceil()).map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_not_rounded_up_further() {
        let it = WaitFactor::new(110).expect("in range");
        assert_eq!(it.nominal(10), Duration::from_secs(33 + 2048));
    }

    #[test]
    fn the_ends_of_its_range_stay_within_a_year() {
        assert_eq!(WaitFactor::new(9), None);
        assert_eq!(WaitFactor::new(201), None);
        let slowest = WaitFactor::new(200).expect("in range");
        assert_eq!(slowest.nominal(1), Duration::from_secs(64));
        assert_eq!(slowest.nominal(u32::MAX), MAX_DELAY);
        let fastest = WaitFactor::new(10).expect("in range");
        assert_eq!(fastest.nominal(1), Duration::from_secs(5));
    }
}
