//! The recent attempts to an origin: exact counts over buckets of time.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::count::Count;
use crate::time::Timestamp;

/// Recent counts by their bucket of time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// In seconds.
    span: u32,
    /// The width of a bucket, in seconds.
    grain: u32,
    /// The number of a bucket, and what was noted in it; numbers rise, and none is empty.
    buckets: VecDeque<(i64, Count)>,
}

impl Window {
    /// Of the last `span` seconds, in buckets of `grain` seconds.
    pub const fn new(span: u32, grain: u32) -> Self {
        Self { span, grain, buckets: VecDeque::new() }
    }

    /// Notes counts at `now`. A clock that went back notes them in the last bucket that it knows.
    pub fn note(&mut self, count: Count, now: Timestamp) {
        if count.is_empty() {
            return;
        }
        let bucket = self.bucket_of(now);
        let bucket = self.buckets.back().map_or(bucket, |(last, _)| bucket.max(*last));
        match self.buckets.back_mut() {
            Some((last, noted)) if *last == bucket => *noted = noted.plus(count),
            _ => self.buckets.push_back((bucket, count)),
        }
        let oldest = self.oldest(now);
        while self.buckets.front().is_some_and(|(bucket, _)| *bucket < oldest) {
            self.buckets.pop_front();
        }
    }

    /// What was noted in the buckets of its span that ends at `now`.
    pub fn sum(&self, now: Timestamp) -> Count {
        self.sum_of(self.span, now)
    }

    /// What was noted in the buckets of the last `secs` seconds, at most of its span.
    pub fn sum_of(&self, secs: u32, now: Timestamp) -> Count {
        let oldest = self.oldest_of(secs.min(self.span), now);
        let recent = self.buckets.iter().rev().take_while(|(bucket, _)| *bucket >= oldest);
        recent.fold(Count::default(), |sum, (_, count)| sum.plus(*count))
    }

    /// How long ago its first bucket that still counts began, at most its span: zero if nothing counts.
    pub fn reach(&self, now: Timestamp) -> Duration {
        let oldest = self.oldest(now);
        let first = self.buckets.iter().find(|(bucket, _)| *bucket >= oldest);
        first.map_or(Duration::ZERO, |(bucket, _)| {
            let began = Timestamp::from_secs(bucket.saturating_mul(i64::from(self.grain)));
            now.since(began).min(Duration::from_secs(self.span.into()))
        })
    }

    /// Forgets everything, and gives back what still counted.
    pub fn take(&mut self, now: Timestamp) -> Count {
        let sum = self.sum(now);
        self.buckets.clear();
        sum
    }

    fn bucket_of(&self, at: Timestamp) -> i64 {
        at.as_secs().div_euclid(i64::from(self.grain.max(1)))
    }

    fn oldest(&self, now: Timestamp) -> i64 {
        self.oldest_of(self.span, now)
    }

    fn oldest_of(&self, secs: u32, now: Timestamp) -> i64 {
        self.bucket_of(now.minus(Duration::from_secs(secs.into()))).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn attempts(n: u64) -> Count {
        Count { attempts: n, ..Count::default() }
    }

    #[test]
    fn older_counts_are_dropped() {
        let mut window = Window::new(10, 1);
        window.note(attempts(1), at(0));
        window.note(attempts(2), at(9));
        assert_eq!((window.sum(at(9)), window.reach(at(9))), (attempts(3), Duration::from_secs(9)));
        assert_eq!((window.sum_of(3, at(9)), window.sum_of(300, at(9))), (attempts(2), attempts(3)));
        assert_eq!(window.sum(at(10)), attempts(2));
        assert_eq!(window.sum(at(18)), attempts(2));
        assert_eq!((window.sum(at(19)), window.reach(at(19))), (Count::default(), Duration::ZERO));
    }

    #[test]
    fn it_reads_back() {
        let mut window = Window::new(300, 10);
        window.note(attempts(7), at(3));
        let text = serde_json::to_string(&window).expect("JSON");
        assert_eq!(text, r#"{"span":300,"grain":10,"buckets":[[100000,[7,0,0,0,0,0]]]}"#);
        assert_eq!(serde_json::from_str::<Window>(&text).expect("its own JSON"), window);
    }

    proptest! {
        /// It says the same as a list of all that was noted, and holds no more buckets than its span has.
        #[test]
        fn counts_are_exact(steps in prop::collection::vec((0i64..20, 0u64..5), 1..200), grain in 1u32..20) {
            let mut window = Window::new(100, grain);
            let mut all = Vec::new();
            let mut now = 0;
            for (later, n) in steps {
                now += later;
                window.note(attempts(n), at(now));
                all.push((now, n));
            }
            let grain = i64::from(grain);
            let oldest = (1_000_000 + now - 100).div_euclid(grain) + 1;
            let expected: u64 = all
                .iter()
                .filter(|(noted, _)| (1_000_000 + noted).div_euclid(grain) >= oldest)
                .map(|(_, n)| n)
                .sum();
            prop_assert_eq!(window.sum(at(now)), attempts(expected));
            prop_assert!(window.buckets.len() as i64 <= 100 / grain + 1);
        }
    }
}
