//! Requests that arrive at the provider, counted by the second.
//!
//! Only seconds in which something arrives are held: retries may be days apart.

use redial_core::time::Timestamp;

use super::scenario::second_of;

/// Counts by second, from the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    /// Second and count, in the order of time, none with a count of zero.
    seconds: Vec<(u32, u32)>,
}

impl Load {
    /// Counts a request; requests come in the order of time.
    pub(super) fn count(&mut self, at: Timestamp) {
        let second = second_of(at);
        match self.seconds.last_mut() {
            Some((last, count)) if *last == second => *count += 1,
            Some(_) | None => self.seconds.push((second, 1)),
        }
    }

    pub(super) fn peak(&self) -> u32 {
        self.peak_from(0).map_or(0, |(_, count)| count)
    }

    /// The first of the seconds with the highest count from `second` on, and that count.
    pub(super) fn peak_from(&self, second: u32) -> Option<(u32, u32)> {
        let from = self.seconds.partition_point(|(at, _)| *at < second);
        self.seconds[from..].iter().copied().rev().max_by_key(|(_, count)| *count)
    }

    /// How many came in the seconds from `start` until `end`, which is not among them.
    pub(super) fn sum(&self, start: u32, end: u32) -> u64 {
        let within = self.seconds.iter().filter(|(second, _)| (start..end).contains(second));
        within.map(|(_, count)| u64::from(*count)).sum()
    }

    /// The count of every second, from the start to the last in which something arrived.
    pub(super) fn every_second(&self) -> Vec<u32> {
        let last = self.seconds.last().map_or(0, |(second, _)| *second as usize + 1);
        let mut every = vec![0; last];
        for (second, count) in &self.seconds {
            every[*second as usize] = *count;
        }
        every
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scenario::start;
    use super::*;

    fn load(seconds: &[u64]) -> Load {
        let mut load = Load::default();
        seconds
            .iter()
            .for_each(|second| load.count(start().plus(Duration::from_millis(second * 1_000 + 999))));
        load
    }

    #[test]
    fn the_peak_is_the_first_of_the_fullest_seconds() {
        let load = load(&[0, 0, 0, 4, 7, 7, 9, 9]);
        assert_eq!(load.peak(), 3);
        assert_eq!(load.peak_from(0), Some((0, 3)));
        assert_eq!(load.peak_from(1), Some((7, 2)));
        assert_eq!(load.peak_from(8), Some((9, 2)));
        assert_eq!(load.peak_from(10), None);
        assert_eq!((load.sum(0, 4), load.sum(4, 9), load.sum(10, 99)), (3, 3, 0));
        assert_eq!(load.every_second(), [3, 0, 0, 0, 1, 0, 0, 2, 0, 2]);
    }

    #[test]
    fn nothing_has_no_peak() {
        assert_eq!((load(&[]).peak(), load(&[]).every_second()), (0, vec![]));
    }
}
