//! How many batches may be at work at once, and how long to pause before the next.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Backoff {
    most: usize,
    allowed: usize,
    /// Failed invocations since the last that did not.
    failures: u32,
}

impl Backoff {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), allowed: most.max(1), failures: 0 }
    }

    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    pub(super) fn note(&mut self, is_processed: bool) {
        if is_processed {
            self.failures = 0;
            self.allowed = (self.allowed + 1).min(self.most);
        } else {
            self.failures += 1;
            self.allowed = (self.allowed / 2).max(1);
        }
    }

    pub(super) fn pause(&self) -> Duration {
        pause_after(self.failures)
    }
}

/// The pause after `failures` failures in a row: none after none, then doubling.
pub(super) fn pause_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_is_halved_by_failures_and_comes_back_one_by_one() {
        let mut backoff = Backoff::new(20);
        let mut note = |is_processed| {
            backoff.note(is_processed);
            (backoff.allowed(), backoff.pause().as_millis())
        };
        assert_eq!([note(false), note(false), note(false)], [(10, 100), (5, 200), (2, 400)]);
        assert_eq!([note(false), note(false)], [(1, 800), (1, 1_600)]);
        assert_eq!([note(true), note(true), note(false)], [(2, 0), (3, 0), (1, 100)]);
    }

    #[test]
    fn pauses_have_a_longest() {
        assert_eq!(pause_after(0), Duration::ZERO);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
