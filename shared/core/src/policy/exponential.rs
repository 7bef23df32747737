//! Delays that grow by a factor from retry to retry.

use std::time::Duration;

use super::jitter::scaled;

/// `min(max_delay, base_delay · multiplier^(retry − 1))`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exponential {
    /// The nominal delay before the first retry.
    pub base_delay: Duration,
    /// Growth from retry to retry, at least 1.
    pub multiplier: f64,
    /// What no nominal delay exceeds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_first_five_delays_are_2_4_8_16_32_seconds() {
        let it = Exponential {
            base_delay: Duration::from_secs(2),
            multiplier: 2.0,
            max_delay: Duration::from_secs(120),
        };
        let secs: Vec<u64> = (1..=8).map(|retry| it.nominal(retry).as_secs()).collect();
        assert_eq!(secs, [2, 4, 8, 16, 32, 64, 120, 120]);
    }

    #[test]
    fn growth_without_end_stops_at_the_cap() {
        let it = Exponential {
            base_delay: Duration::from_millis(1),
            multiplier: 1e300,
            max_delay: Duration::from_secs(7),
        };
        assert_eq!(it.nominal(u32::MAX), Duration::from_secs(7));
        assert_eq!(Exponential { base_delay: Duration::ZERO, ..it }.nominal(u32::MAX), Duration::ZERO);
    }
}
