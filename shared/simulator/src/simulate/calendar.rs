//! Who comes back when: what is put away for a moment comes out at that moment, in the order in which it was put away.
//!
//! A heap, or a map of all moments, compares message by message: a build without optimisation spent nearly half its time there.
//! Here a message costs the same however many there are. The second that the clock is in has a place for each of its
//! milliseconds, where messages lie in order; those of a later second lie together as they came, and are laid in order when
//! the clock gets there.

use std::collections::{BTreeMap, VecDeque};

use redial_core::time::Timestamp;

const MS_PER_SECOND: usize = 1_000;

/// What waits, by the moment at which it comes back.
#[derive(Debug)]
pub(super) struct Calendar<T> {
    /// The second whose milliseconds are laid out: the last from which something was taken.
    second: i64,
    places: Vec<VecDeque<T>>,
    /// How much lies in the places, and the first that is not empty, if any is not.
    laid_out: usize,
    first: usize,
    later: BTreeMap<i64, Later<T>>,
}

/// A second that is still to come.
#[derive(Debug)]
struct Later<T> {
    first: usize,
    items: Vec<(usize, T)>,
}

impl<T> Calendar<T> {
    pub(super) fn new() -> Self {
        let places = (0..MS_PER_SECOND).map(|_| VecDeque::new()).collect();
        Self { second: i64::MIN, places, laid_out: 0, first: 0, later: BTreeMap::new() }
    }

    /// Puts something away until `at`, which is no moment before the last at which something was taken.
    pub(super) fn put(&mut self, at: Timestamp, item: T) {
        let (second, place) = split(at);
        if second == self.second {
            self.first = if self.laid_out == 0 { place } else { self.first.min(place) };
            self.laid_out += 1;
            self.places[place].push_back(item);
        } else {
            let later = self.later.entry(second).or_insert_with(|| Later { first: place, items: Vec::new() });
            later.first = later.first.min(place);
            later.items.push((place, item));
        }
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.laid_out > 0 {
            return Some(joined(self.second, self.first));
        }
        self.later.first_key_value().map(|(second, later)| joined(*second, later.first))
    }

    pub(super) fn take(&mut self) -> Option<T> {
        if self.laid_out == 0 {
            let (second, Later { first, items }) = self.later.pop_first()?;
            (self.second, self.first, self.laid_out) = (second, first, items.len());
            for (place, item) in items {
                self.places[place].push_back(item);
            }
        }
        let item = self.places[self.first].pop_front()?;
        self.laid_out -= 1;
        while self.laid_out > 0 && self.places[self.first].is_empty() {
            self.first += 1;
        }
        Some(item)
    }
}

fn split(at: Timestamp) -> (i64, usize) {
    let ms = at.as_ms();
    let place =
        usize::try_from(ms.rem_euclid(1_000)).expect("invariant: a remainder by 1000 is from 0 to 999");
    (ms.div_euclid(1_000), place)
}

fn joined(second: i64, place: usize) -> Timestamp {
    let ms = i64::try_from(place).expect("invariant: a place is from 0 to 999");
    Timestamp::from_ms(second.saturating_mul(1_000).saturating_add(ms))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn everything_comes_out_once_at_its_moment_first_in_first_out(
            steps in prop::collection::vec((0usize..4, 0i64..4_000), 1..300),
        ) {
            let mut calendar = Calendar::new();
            let mut expected: BTreeMap<(Timestamp, usize), usize> = BTreeMap::new();
            let mut now = 1_800_000_000_123;
            let mut number = 0;
            // Some are put away, up to four seconds ahead, then one is taken; at the end, all.
            let last = (0, 0);
            let drain = std::iter::repeat_n(last, steps.iter().map(|(some, _)| some).sum());
            for (some, ahead) in steps.into_iter().chain(drain) {
                for nth in 0..some {
                    let at = Timestamp::from_ms(now + ahead * i64::try_from(nth).expect("small") / 2);
                    calendar.put(at, number);
                    expected.insert((at, number), number);
                    number += 1;
                }
                prop_assert_eq!(calendar.next_at(), expected.first_key_value().map(|((at, _), _)| *at));
                let first = expected.pop_first();
                prop_assert_eq!(calendar.take(), first.map(|(_, item)| item));
                now = first.map_or(now, |((at, _), _)| at.as_ms());
            }
            prop_assert_eq!((calendar.next_at(), expected.len()), (None, 0));
        }
    }
}
