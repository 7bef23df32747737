//! How many endpoints may turn gone together before nothing is deleted.

use std::time::Duration;

use crate::time::Timestamp;

/// Keeps an error at a provider from deleting an audience.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpikeGuard {
    /// The time in which endpoints that turn gone are counted together.
    pub window: Duration,
    pub at_least: u32,
    /// The share of a tenant's subscriptions, 0 to 1, that is unusual.
    pub share: f64,
}

impl Default for SpikeGuard {
    /// Five minutes; more than 5 % and at least 10. A push service loses about 0.1 % of its endpoints a day.
    fn default() -> Self {
        Self { window: Duration::from_secs(300), at_least: 10, share: 0.05 }
    }
}

impl SpikeGuard {
    /// Whether `gone` of a tenant's `all` subscriptions (with those that are gone) within a window are too many to delete any.
    pub fn is_unusual(&self, gone: u32, all: u64) -> bool {
        gone >= self.at_least && f64::from(gone) > self.share * all as f64
    }

    pub fn window_of(&self, at: Timestamp) -> i64 {
        at.as_secs() / i64::try_from(self.window.as_secs().max(1)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_of_a_hundred_are_unusual_and_three_of_a_thousand_are_not() {
        let guard = SpikeGuard::default();
        for (gone, all, is_unusual) in
            [(30, 100, true), (3, 1000, false), (3, 3, false), (50, 1000, false), (51, 1000, true)]
        {
            assert_eq!(guard.is_unusual(gone, all), is_unusual, "{gone} of {all}");
        }
    }
}
