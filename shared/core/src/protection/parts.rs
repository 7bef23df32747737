//! Parts of a token bucket: each is an item in the store, and a worker takes slots of one of them at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A bucket of more slots a second than this is divided into parts, to limit the writes to each item.
const SLOTS_OF_A_PART: f64 = 500.0;

/// A bucket keeps a part down to this share of the slots a second that need it: near an origin's limit they go up and down.
const KEEPS: f64 = 0.7;

/// All workers have read of another number within this time. Were some to use it before, they would take a new part's slots, and the others
/// those that it takes from the other parts.
const READ_WITHIN: Duration = Duration::from_secs(4);

pub fn parts(per_second: f64) -> u32 {
    (per_second / SLOTS_OF_A_PART).ceil().clamp(1.0, 64.0) as u32
}

/// The number of parts of a bucket whose slots a second change.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parts {
    before: u32,
    number: u32,
    /// Until then it is the number before.
    from: Timestamp,
}

impl Default for Parts {
    fn default() -> Self {
        Self { before: 1, number: 1, from: Timestamp::default() }
    }
}

impl Parts {
    pub fn new(per_second: f64) -> Self {
        Self { number: parts(per_second), ..Self::default() }
    }

    /// Whether there is one, and no other number was before.
    pub fn is_one(&self) -> bool {
        (self.before, self.number) == (1, 1)
    }

    /// Decides on another number, for later, if a bucket with this many slots a second needs one.
    pub fn suit(&mut self, per_second: f64, now: Timestamp) {
        let number = self.number.clamp(parts(per_second), parts(per_second / KEEPS));
        if number != self.number && now >= self.from {
            *self = Self { before: self.number, number, from: now.plus(READ_WITHIN) };
        }
    }

    pub fn number(self, now: Timestamp) -> u32 {
        if now < self.from { self.before } else { self.number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn a_part_has_500_slots_a_second_at_most() {
        assert_eq!([0.01, 500.0, 501.0, 10_000.0].map(parts), [1, 1, 2, 20]);
        assert_eq!(parts(1e9), 64, "more would be too many items");
        assert_eq!(Parts::new(1_001.0).number(at(0)), 3);
    }

    #[test]
    fn a_new_number_holds_for_all_workers_and_decreases_with_delay() {
        let mut parts = Parts::new(900.0);
        for (second, per_second, number) in [
            (0, 1_100.0, 2),
            // It goes on growing meanwhile.
            (3, 1_600.0, 2),
            (4, 1_600.0, 3),
            (7, 1_600.0, 3),
            (8, 1_400.0, 4),
            (20, 1_060.0, 4),
            // Three suffice from 1,500 × 0.7 on.
            (30, 1_040.0, 4),
            (34, 1_040.0, 3),
            (40, 10.0, 3),
            (44, 10.0, 1),
        ] {
            parts.suit(per_second, at(second));
            assert_eq!(parts.number(at(second)), number, "{second}");
        }
    }
}
