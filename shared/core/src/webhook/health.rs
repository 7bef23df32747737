//! When a receiver that keeps failing is switched off.

use std::time::Duration;

use crate::time::Timestamp;

/// How long a receiver may fail without one success, unless the operator sets it otherwise: five days.
pub const SWITCHED_OFF_AFTER: Duration = Duration::from_secs(5 * 86_400);

/// A receiver's recent failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    pub failures: u64,
    pub failing_since: Option<Timestamp>,
}

impl Health {
    /// Whether it has failed for `after` without one success.
    pub fn is_given_up(&self, now: Timestamp, after: Duration) -> bool {
        self.failing_since.is_some_and(|since| now.since(since) >= after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_given_up_after_five_days_without_success() {
        let since = Timestamp::from_secs(1_000_000);
        let health = Health { failures: 2, failing_since: Some(since) };
        let at = |after: Duration| health.is_given_up(since.plus(after), SWITCHED_OFF_AFTER);
        assert!(!at(SWITCHED_OFF_AFTER - Duration::from_secs(1)));
        assert!(at(SWITCHED_OFF_AFTER));
        assert!(!Health::default().is_given_up(Timestamp::from_secs(i64::MAX), Duration::ZERO));
    }
}
