//! The results of attempts to an origin, and of recent ones by buckets of time.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::time::Timestamp;
use crate::verdict::{Retry, Verdict};

/// What is stored of it has no refusals, which other releases do not read: who needs them stores them besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub struct Count {
    pub attempts: u64,
    /// Attempts that failed because of the origin, not of the message: 5xx, time-outs, no connection.
    pub failures: u64,
    /// Attempts that were answered with 429.
    pub limited: u64,
    pub retries: u64,
    pub held: u64,
    /// Further attempts that were accepted earlier and not reported then.
    pub older: u64,
    /// Attempts that are repeated although the origin works: it refused the message, as a webhook does with a 4xx.
    pub refused: u64,
}

impl From<[u64; 6]> for Count {
    fn from([attempts, failures, limited, retries, held, older]: [u64; 6]) -> Self {
        Self { attempts, failures, limited, retries, held, older, refused: 0 }
    }
}

impl From<Count> for [u64; 6] {
    fn from(count: Count) -> Self {
        [count.attempts, count.failures, count.limited, count.retries, count.held, count.older]
    }
}

impl Count {
    /// One attempt. A provider that answers 410, or refuses a message, works. One that limits our rate works too, and asks for a slower
    /// pace. Errors that do not depend on the message are failures of the origin.
    pub fn of(verdict: &Verdict, is_retry: bool) -> Self {
        let count = Self { attempts: 1, retries: is_retry.into(), ..Self::default() };
        match verdict {
            Verdict::Retry(Retry { reason: Reason::RateLimited, .. }) => Self { limited: 1, ..count },
            Verdict::Retry(Retry {
                reason: Reason::ServerError | Reason::NotSent | Reason::InDoubt, ..
            }) => Self { failures: 1, ..count },
            Verdict::Retry(_) => Self { refused: 1, ..count },
            Verdict::Sent | Verdict::SignAgain | Verdict::Gone { .. } | Verdict::Failed(_) => count,
        }
    }

    pub fn held_back(held: u64) -> Self {
        Self { held, ..Self::default() }
    }

    pub const fn accepted(self) -> u64 {
        self.attempts.saturating_sub(self.failures).saturating_sub(self.limited)
    }

    pub const fn firsts(self) -> u64 {
        self.attempts.saturating_sub(self.retries)
    }

    /// Attempts, and messages that would have been attempts.
    pub const fn asked(self) -> u64 {
        self.attempts.saturating_add(self.held)
    }

    /// The same with its older attempts among the others.
    #[must_use]
    pub const fn with_older(self) -> Self {
        Self { attempts: self.attempts.saturating_add(self.older), older: 0, ..self }
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = (self.numbers(), other.numbers());
        Self::of_numbers(std::array::from_fn(|at| a[at].saturating_add(b[at])))
    }

    /// What came after `earlier`; `None` if counting was reset in between.
    pub fn since(self, earlier: Self) -> Option<Self> {
        let (a, b) = (self.numbers(), earlier.numbers());
        let all_later = a.iter().zip(b).all(|(a, b)| *a >= b);
        all_later.then(|| Self::of_numbers(std::array::from_fn(|at| a[at] - b[at])))
    }

    fn numbers(self) -> [u64; 7] {
        let [attempts, failures, limited, retries, held, older] = self.into();
        [attempts, failures, limited, retries, held, older, self.refused]
    }

    fn of_numbers([attempts, failures, limited, retries, held, older, refused]: [u64; 7]) -> Self {
        Self { attempts, failures, limited, retries, held, older, refused }
    }

    /// Whether `some` are more than `percent` of the attempts, which are at least `at_least`. In whole numbers, so that 20 of 100 are
    /// never more than 20 %.
    pub fn passes(self, some: u64, percent: u64, at_least: u64) -> bool {
        self.attempts >= at_least && u128::from(some) * 100 > u128::from(self.attempts) * u128::from(percent)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    span: u32,
    #[serde(rename = "grain")]
    bucket_secs: u32,
    /// The number of a bucket, and what was noted in it; numbers rise, and none is empty.
    buckets: VecDeque<(i64, Count)>,
}

impl Window {
    /// Of the last `span` seconds, in buckets of that many seconds.
    pub const fn new(span: u32, bucket_secs: u32) -> Self {
        Self { span, bucket_secs, buckets: VecDeque::new() }
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
        let oldest = self.oldest(self.span, now);
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
        let oldest = self.oldest(secs.min(self.span), now);
        let recent = self.buckets.iter().rev().take_while(|(bucket, _)| *bucket >= oldest);
        recent.fold(Count::default(), |sum, (_, count)| sum.plus(*count))
    }

    /// How long ago its first bucket that still counts began, at most its span: zero if nothing counts.
    pub fn reach(&self, now: Timestamp) -> Duration {
        let oldest = self.oldest(self.span, now);
        let first = self.buckets.iter().find(|(bucket, _)| *bucket >= oldest);
        first.map_or(Duration::ZERO, |(bucket, _)| {
            let began = Timestamp::from_secs(bucket.saturating_mul(i64::from(self.bucket_secs)));
            now.since(began).min(Duration::from_secs(self.span.into()))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub fn take(&mut self, now: Timestamp) -> Count {
        let sum = self.sum(now);
        self.buckets.clear();
        sum
    }

    fn bucket_of(&self, at: Timestamp) -> i64 {
        at.as_secs().div_euclid(i64::from(self.bucket_secs.max(1)))
    }

    fn oldest(&self, secs: u32, now: Timestamp) -> i64 {
        self.bucket_of(now.minus(Duration::from_secs(secs.into()))).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_is_passed_only_by_more_than_it() {
        for (attempts, older, some, percent, is_passed) in [
            (20, 80, 20, 20, false),
            (100, 0, 20, 20, false),
            (100, 0, 21, 20, true),
            (19, 0, 19, 20, false),
            (u64::MAX, 0, u64::MAX, 99, true),
        ] {
            let count = Count { attempts, older, ..Count::default() }.with_older();
            assert_eq!(count.passes(some, percent, 20), is_passed, "{some} of {attempts} and {older}");
        }
    }

    #[test]
    fn only_errors_of_the_origin_count_as_failures() {
        let retry = |reason| Verdict::Retry(Retry { reason, retry_after: None, in_doubt: false });
        for (verdict, failures, limited, refused) in [
            (retry(Reason::ServerError), 1, 0, 0),
            (retry(Reason::NotSent), 1, 0, 0),
            (retry(Reason::InDoubt), 1, 0, 0),
            (retry(Reason::RateLimited), 0, 1, 0),
            (retry(Reason::NotFound), 0, 0, 1),
            (retry(Reason::Rejected), 0, 0, 1),
            (Verdict::Sent, 0, 0, 0),
            (Verdict::Gone { confirmed: true }, 0, 0, 0),
            (Verdict::Failed(Reason::Rejected), 0, 0, 0),
            (Verdict::SignAgain, 0, 0, 0),
        ] {
            for retries in [0, 1] {
                let expected = Count { attempts: 1, failures, limited, retries, refused, ..Count::default() };
                assert_eq!(Count::of(&verdict, retries > 0), expected, "{verdict:?}");
            }
        }
    }

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
        fn counts_are_exact(steps in prop::collection::vec((0i64..20, 0u64..5), 1..200), bucket_secs in 1u32..20) {
            let mut window = Window::new(100, bucket_secs);
            let mut all = Vec::new();
            let mut now = 0;
            for (later, n) in steps {
                now += later;
                window.note(attempts(n), at(now));
                all.push((now, n));
            }
            let bucket = i64::from(bucket_secs);
            let oldest = (1_000_000 + now - 100).div_euclid(bucket) + 1;
            let expected: u64 = all
                .iter()
                .filter(|(noted, _)| (1_000_000 + noted).div_euclid(bucket) >= oldest)
                .map(|(_, n)| n)
                .sum();
            prop_assert_eq!(window.sum(at(now)), attempts(expected));
            prop_assert!(window.buckets.len() as i64 <= 100 / bucket + 1);
        }
    }
}
