//! Keeps a command that works in batches to a rate.

use std::time::Duration;

use redial_core::{rate::Rate, time::Timestamp};

/// Small batches, so that messages flow instead of coming in gusts.
const BATCHES_A_SECOND: f64 = 5.0;

/// Lost time is not made up for: after a pause the rate is what it was before.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: Rate,
    /// The items of a batch.
    pub(crate) batch: usize,
    next: Option<Timestamp>,
}

impl RateLimiter {
    /// With at most `most` items in a batch.
    pub(crate) fn new(rate: Rate, most: usize) -> Self {
        let batch = (1..most).find(|size| rate.per_second() <= BATCHES_A_SECOND * *size as f64);
        Self { rate, batch: batch.unwrap_or(most), next: None }
    }

    /// The wait before the next batch.
    pub(crate) fn pause(&self, now: Timestamp) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.since(now))
    }

    /// Records that a batch of `number` items goes out at `now`.
    pub(crate) fn sent(&mut self, number: usize, now: Timestamp) {
        let (count, ms) = self.rate.ratio();
        let takes = Duration::from_millis((number as u64 * ms).div_ceil(count));
        self.next = Some(self.next.map_or(now, |next| next.max(now)).plus(takes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::parse(text).expect("a rate")
    }

    #[test]
    fn a_batch_is_at_most_a_fifth_of_a_second_s_items() {
        for (text, size) in [("50/s", 10), ("2000/s", 10), ("20/s", 4), ("5/s", 1), ("1/h", 1), ("6/s", 2)] {
            assert_eq!(RateLimiter::new(rate(text), 10).batch, size, "{text}");
        }
    }

    #[test]
    fn the_rate_is_kept_and_lost_time_is_not_made_up_for() {
        let mut limiter = RateLimiter::new(rate("50/s"), 10);
        let at = Timestamp::from_ms;
        assert_eq!(limiter.pause(at(0)), Duration::ZERO);
        limiter.sent(10, at(0));
        assert_eq!(limiter.pause(at(50)), Duration::from_millis(150));
        limiter.sent(10, at(200));
        assert_eq!(limiter.pause(at(200)), Duration::from_millis(200));
        // Nothing was sent for a while: that is not made up for.
        assert_eq!(limiter.pause(at(9_000)), Duration::ZERO);
        limiter.sent(5, at(9_000));
        assert_eq!(limiter.pause(at(9_000)), Duration::from_millis(100));
        // A batch without items takes no time.
        limiter.sent(0, at(9_100));
        assert_eq!(limiter.pause(at(9_100)), Duration::ZERO);
    }
}
