//! What attempts to an origin came to, as numbers.

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::verdict::{Retry, Verdict};

/// Attempts to an origin, and their results.
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
}

impl From<[u64; 6]> for Count {
    fn from([attempts, failures, limited, retries, held, older]: [u64; 6]) -> Self {
        Self { attempts, failures, limited, retries, held, older }
    }
}

impl From<Count> for [u64; 6] {
    fn from(count: Count) -> Self {
        [count.attempts, count.failures, count.limited, count.retries, count.held, count.older]
    }
}

impl Count {
    /// One attempt.
    ///
    /// A provider that answers 410, or refuses a message, works. One that limits our rate works too, and asks for a slower pace. Errors
    /// that do not depend on the message are failures of the origin.
    pub fn of(verdict: &Verdict, is_retry: bool) -> Self {
        let (failed, limited) = match verdict {
            Verdict::Retry(Retry { reason: Reason::RateLimited, .. }) => (false, true),
            Verdict::Retry(Retry { reason, .. }) => {
                (matches!(reason, Reason::ServerError | Reason::NotSent | Reason::InDoubt), false)
            }
            Verdict::Sent | Verdict::SignAgain | Verdict::Gone { .. } | Verdict::Failed(_) => (false, false),
        };
        Self {
            attempts: 1,
            failures: failed.into(),
            limited: limited.into(),
            retries: is_retry.into(),
            held: 0,
            older: 0,
        }
    }

    pub const fn held_back(held: u64) -> Self {
        Self { attempts: 0, failures: 0, limited: 0, retries: 0, held, older: 0 }
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
        let (a, b): ([u64; 6], [u64; 6]) = (self.into(), other.into());
        std::array::from_fn(|at| a[at].saturating_add(b[at])).into()
    }

    /// What came after `earlier`; `None` if counting was reset in between.
    pub fn since(self, earlier: Self) -> Option<Self> {
        let (a, b): ([u64; 6], [u64; 6]) = (self.into(), earlier.into());
        let all_later = a.iter().zip(b).all(|(a, b)| *a >= b);
        all_later.then(|| std::array::from_fn(|at| a[at] - b[at]).into())
    }

    /// Whether `some` are more than `percent` of the attempts, which are at least `at_least`. In whole numbers, so that 20 of 100 are
    /// never more than 20 %.
    pub fn passes(self, some: u64, percent: u64, at_least: u64) -> bool {
        self.attempts >= at_least && u128::from(some) * 100 > u128::from(self.attempts) * u128::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_passed_only_by_more_than_it() {
        let of = |attempts| Count { attempts, ..Count::default() };
        assert!(!Count { older: 80, ..of(20) }.with_older().passes(20, 20, 20));
        assert!(!of(100).passes(20, 20, 20));
        assert!(of(100).passes(21, 20, 20));
        assert!(!of(19).passes(19, 20, 20), "too few to tell");
        assert!(of(u64::MAX).passes(u64::MAX, 99, 1));
    }

    #[test]
    fn only_errors_of_the_origin_count_as_failures() {
        let retry = |reason| Verdict::Retry(Retry { reason, retry_after: None, in_doubt: false });
        for reason in [Reason::ServerError, Reason::NotSent, Reason::InDoubt] {
            assert_eq!(Count::of(&retry(reason), false).failures, 1, "{reason:?}");
        }
        let limited = Count::of(&retry(Reason::RateLimited), true);
        assert_eq!((limited.failures, limited.limited, limited.retries), (0, 1, 1));
        for verdict in [
            Verdict::Sent,
            Verdict::Gone { confirmed: true },
            Verdict::Failed(Reason::Rejected),
            Verdict::SignAgain,
        ] {
            assert_eq!(Count::of(&verdict, false), Count { attempts: 1, ..Count::default() }, "{verdict:?}");
        }
    }

    #[test]
    fn a_reset_of_the_counters_is_recognised() {
        let of = |attempts, held| Count { attempts, held, ..Count::default() };
        assert_eq!(of(7, 3).since(of(5, 3)), Some(of(2, 0)));
        assert_eq!(of(7, 1).since(of(5, 3)), None);
    }
}
