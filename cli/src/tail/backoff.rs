//! The pause before the next call to CloudWatch Logs.
//!
//! The quota of FilterLogEvents is a few calls a second for a whole account and region, which all operators share. So there is
//! a pause after each round, as long as the round itself took if that was longer; and growing pauses where the service
//! throttles or does not respond.

use std::time::Duration;

use super::source::PageError;

/// The least pause between two rounds.
pub(crate) const POLL: Duration = Duration::from_secs(2);

const FIRST: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_secs(30);

/// The most failures in a row, about two minutes.
const MOST_FAILURES: u32 = 8;

/// Counts failures since the last success.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Backoff {
    /// Whether a call ever succeeded.
    worked: bool,
    failures: u32,
}

impl Backoff {
    pub(crate) fn succeeded(&mut self) {
        *self = Self { worked: true, failures: 0 };
    }

    /// The pause before another try; `None` if none would help.
    pub(crate) fn after(&mut self, error: &PageError) -> Option<Duration> {
        self.failures += 1;
        let again = match error {
            // The service is only busy.
            PageError::Throttled { .. } => self.worked || self.failures < MOST_FAILURES,
            // Before the first success, a wrong endpoint or missing credentials are more likely.
            PageError::Temporary { .. } => self.worked && self.failures < MOST_FAILURES,
            PageError::Permanent { .. } => false,
        };
        again.then(|| FIRST.saturating_mul(1 << (self.failures - 1).min(5)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> String {
        "words".to_owned()
    }

    fn pauses(backoff: &mut Backoff, error: &PageError, times: usize) -> Vec<Option<u64>> {
        (0..times).map(|_| backoff.after(error).map(|pause| pause.as_secs())).collect()
    }

    #[test]
    fn pauses_grow_until_a_call_succeeds() {
        let mut backoff = Backoff::default();
        backoff.succeeded();
        let throttled = PageError::Throttled { words: words() };
        let grown = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Some);
        assert_eq!(pauses(&mut backoff, &throttled, 9), grown);
        backoff.succeeded();
        assert_eq!(pauses(&mut backoff, &throttled, 1), [Some(1)]);
    }

    #[test]
    fn permanent_and_repeated_errors_end_it() {
        let temporary = PageError::Temporary { words: words() };
        assert_eq!(Backoff::default().after(&temporary), None);
        let mut backoff = Backoff::default();
        backoff.succeeded();
        assert_eq!(pauses(&mut backoff, &temporary, 8).last(), Some(&None));
        backoff.succeeded();
        assert_eq!(backoff.after(&PageError::Permanent { group: words(), words: words() }), None);
        let throttled = PageError::Throttled { words: words() };
        assert_eq!(pauses(&mut Backoff::default(), &throttled, 8).last(), Some(&None));
    }
}
