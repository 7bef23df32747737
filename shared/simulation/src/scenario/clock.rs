//! Workers' clocks.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// By how much a worker's clock is wrong. It stays within two seconds of `far`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// In the beginning, in milliseconds; negative if it is behind.
    pub ahead: i64,
    /// What it is ahead besides, in milliseconds, where clocks are further off than a lease allows for.
    pub far: i64,
    /// By how many milliseconds more with each hour, until it is at a bound and turns round.
    pub drift: i64,
}

impl Clock {
    const BOUND: i64 = 2_000;

    pub(super) fn draw(rng: &mut StdRng, is_skewed: bool, drifts: bool) -> Self {
        let ahead = if is_skewed { rng.random_range(-Self::BOUND..=Self::BOUND) } else { 0 };
        Self { ahead, far: 0, drift: if drifts { rng.random_range(-Self::BOUND..=Self::BOUND) } else { 0 } }
    }

    /// What it is ahead of the true time after `passed`, in milliseconds.
    pub fn ahead_after(self, passed: Duration) -> i64 {
        let drifted = i128::from(self.drift) * passed.as_millis() as i128 / 3_600_000;
        let place = (i128::from(self.ahead + Self::BOUND) + drifted) as i64;
        let there_and_back = place.rem_euclid(4 * Self::BOUND);
        there_and_back.min(4 * Self::BOUND - there_and_back) - Self::BOUND + self.far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_drifts_between_its_bounds() {
        let clock = Clock { ahead: 1_500, drift: 1_000, far: 0 };
        let after =
            [0.0, 0.5, 1.0, 4.5, 6.5].map(|hours| clock.ahead_after(Duration::from_secs_f64(hours * 3600.0)));
        assert_eq!(after, [1_500, 2_000, 1_500, -2_000, 0]);
        assert_eq!(Clock { drift: -1_000, ..clock }.ahead_after(Duration::from_secs(3600)), 500);
        assert_eq!(Clock { ahead: -700, ..Clock::default() }.ahead_after(Duration::from_secs(9)), -700);
    }
}
