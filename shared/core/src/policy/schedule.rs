//! Delays as a list.

use std::time::Duration;

/// One delay a retry, in order (article 003); they need not rise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// At least one.
    delays: Vec<Duration>,
}

impl Schedule {
    /// The most delays that a list may have.
    pub const MOST: usize = 100;

    /// These delays; `None` for an empty list, or one that is longer than [`Self::MOST`].
    pub fn new(delays: Vec<Duration>) -> Option<Self> {
        (1..=Self::MOST).contains(&delays.len()).then_some(Self { delays })
    }

    /// How many retries the list has delays for.
    pub fn len(&self) -> u32 {
        u32::try_from(self.delays.len()).unwrap_or(u32::MAX)
    }

    /// Never: a schedule has at least one delay.
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// The nominal delay before retry number `retry` (from 1).
    pub fn nominal(&self, retry: u32) -> Duration {
        let place = usize::try_from(retry.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.delays.len().saturating_sub(1);
        self.delays.get(place.min(last)).copied().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retry_has_its_delay() {
        let it = Schedule::new([60, 1800, 10_800].map(Duration::from_secs).to_vec()).expect("three");
        let secs: Vec<u64> = (1..=it.len()).map(|retry| it.nominal(retry).as_secs()).collect();
        assert_eq!(secs, [60, 1800, 10_800]);
        assert_eq!(it.nominal(u32::MAX).as_secs(), 10_800);
    }

    #[test]
    fn an_empty_list_is_no_schedule() {
        assert_eq!(Schedule::new(Vec::new()), None);
        assert_eq!(Schedule::new(vec![Duration::ZERO; Schedule::MOST + 1]), None);
    }
}
