//! A rate, kept by whoever works in batches.

use std::time::Duration;

use redial_core::{rate::Rate, time::Timestamp};

/// So many batches a second where the rate is high enough: a flow rather than gusts.
const BATCHES_A_SECOND: f64 = 5.0;

/// A rate, kept from one batch to the next. Time that was lost is not made up for: after a pause the flow is what it was.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Rate,
    /// How many things a batch is of.
    pub(crate) batch: usize,
    next: Option<Timestamp>,
}

impl Pace {
    /// With batches of `most` things at the most.
    pub(crate) fn new(rate: Rate, most: usize) -> Self {
        let batch = (1..most).find(|size| rate.per_second() <= BATCHES_A_SECOND * *size as f64);
        Self { rate, batch: batch.unwrap_or(most), next: None }
    }

    /// How long to wait before the next batch.
    pub(crate) fn pause(&self, now: Timestamp) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.since(now))
    }

    /// So many go out at `now`.
    pub(crate) fn goes(&mut self, number: usize, now: Timestamp) {
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
    fn a_batch_is_a_fifth_of_a_second_s_work_and_no_more_than_the_most() {
        for (text, size) in [("50/s", 10), ("2000/s", 10), ("20/s", 4), ("5/s", 1), ("1/h", 1), ("6/s", 2)] {
            assert_eq!(Pace::new(rate(text), 10).batch, size, "{text}");
        }
    }

    #[test]
    fn the_flow_keeps_its_rate_and_makes_up_for_nothing() {
        let mut pace = Pace::new(rate("50/s"), 10);
        let at = Timestamp::from_ms;
        assert_eq!(pace.pause(at(0)), Duration::ZERO);
        pace.goes(10, at(0));
        assert_eq!(pace.pause(at(50)), Duration::from_millis(150));
        pace.goes(10, at(200));
        assert_eq!(pace.pause(at(200)), Duration::from_millis(200));
        // It stood still for a while; what it might have sent then is not sent now.
        assert_eq!(pace.pause(at(9_000)), Duration::ZERO);
        pace.goes(5, at(9_000));
        assert_eq!(pace.pause(at(9_000)), Duration::from_millis(100));
        // What was skipped takes no time.
        pace.goes(0, at(9_100));
        assert_eq!(pace.pause(at(9_100)), Duration::ZERO);
    }
}
