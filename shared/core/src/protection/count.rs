//! What attempts to an origin came to, as numbers.

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::verdict::{Retry, Verdict};

/// How many attempts were made to an origin, and what they tell of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub struct Count {
    pub attempts: u64,
    /// Those of them that failed in a way that tells of the origin, not of the message: 5xx, time-outs, no connection.
    pub failures: u64,
    /// Those that were asked to slow down: 429.
    pub limited: u64,
    pub retries: u64,
    pub held: u64,
    /// Attempts besides that were accepted earlier, and that nobody had reason to tell of then.
    pub older: u64,
}

impl From<[u64; 6]> for Count {
    fn from([attempts, failures, limited, retries, held, older]: [u64; 6]) -> Self {
        Self { attempts, failures, limited, retries, held, older }
    }
}

impl From<Count> for [u64; 6] {
    fn from(it: Count) -> Self {
        [it.attempts, it.failures, it.limited, it.retries, it.held, it.older]
    }
}

impl Count {
    /// One attempt that was judged so.
    ///
    /// A provider that answers 410, or refuses a message, works. One that limits our rate works too: what it asks for is a
    /// slower pace. What fails whatever is sent is a failure of the origin.
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

    /// What came after `earlier`; `None` if that was not earlier, because counting began anew.
    pub fn since(self, earlier: Self) -> Option<Self> {
        let (a, b): ([u64; 6], [u64; 6]) = (self.into(), earlier.into());
        let all_later = a.iter().zip(b).all(|(a, b)| *a >= b);
        all_later.then(|| std::array::from_fn(|at| a[at] - b[at]).into())
    }

    /// Whether more than `percent` of at least `at_least` attempts are `some` of them: by whole numbers, so that 20 of 100 are
    /// never more than 20 %.
    pub fn passes(self, some: u64, percent: u64, at_least: u64) -> bool {
        self.attempts >= at_least && u128::from(some) * 100 > u128::from(self.attempts) * u128::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_passed_by_more_than_it_and_never_by_itself() {
        let of = |attempts| Count { attempts, ..Count::default() };
        assert!(!Count { older: 80, ..of(20) }.with_older().passes(20, 20, 20));
        assert!(!of(100).passes(20, 20, 20));
        assert!(of(100).passes(21, 20, 20));
        assert!(!of(19).passes(19, 20, 20), "too few to tell");
        assert!(of(u64::MAX).passes(u64::MAX, 99, 1));
    }

    #[test]
    fn only_what_fails_whatever_is_sent_is_a_failure_of_the_origin() {
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
    fn counting_anew_is_noticed() {
        let of = |attempts, held| Count { attempts, held, ..Count::default() };
        assert_eq!(of(7, 3).since(of(5, 3)), Some(of(2, 0)));
        assert_eq!(of(7, 1).since(of(5, 3)), None);
    }
}
