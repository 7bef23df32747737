//! The retry budget of an origin: while it fails, retries stay within a share of the first attempts.
//!
//! A retry that succeeds amplifies nothing, so the budget holds only while the origin's attempts fail. Retries over it are held back
//! and use no attempt.

use super::count::Count;

/// Retries stay within this share of the first attempts, in hundredths.
pub const PERCENT: u64 = 20;

/// Besides, this many a second, so that an origin with few messages is retried at all.
pub const FLOOR_PER_SECOND: f64 = 10.0;

/// The budget holds while more than this share of the attempts fail, in hundredths.
const FAILING_PERCENT: u64 = 10;

/// The retries a second that an origin may have, from the attempts of the last `secs` seconds; none: any number.
pub fn retries_per_second(lately: Count, secs: f64) -> Option<f64> {
    let failed = lately.failures.saturating_add(lately.limited);
    if !lately.passes(failed, FAILING_PERCENT, 1) {
        return None;
    }
    let budget = lately.firsts() as f64 / secs * PERCENT as f64 / 100.0 + FLOOR_PER_SECOND;
    // Far below it no limit is needed.
    (lately.retries as f64 / secs * 2.0 > budget).then_some(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_attempts_fail_retries_are_limited() {
        let count =
            |failures, retries| Count { attempts: 1000 + retries, failures, retries, ..Count::default() };
        assert_eq!(retries_per_second(count(0, 5000), 10.0), None, "they succeed");
        assert_eq!(retries_per_second(count(100, 500), 10.0), None, "6.7 % fail");
        assert_eq!(retries_per_second(count(500, 500), 10.0), Some(30.0));
        assert_eq!(retries_per_second(count(500, 10), 10.0), None, "one a second is far below it");
    }
}
