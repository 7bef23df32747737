//! Seats: how a tenant's most concurrent attempts are kept to by workers that do not know of each other.
//!
//! Time is divided into windows. Each window has as many seats as attempts may be under way together, and a worker takes some of them for
//! the whole window, by one conditional write. An attempt is made only under a seat of each window that it can reach into. So whatever is
//! under way at a moment has a seat of the window that the moment lies in, and there are no more of those than attempts may be.
//!
//! A seat is not returned before its window ends: a worker that dies, or gets no more of the tenant's messages, leaves its seats unused for
//! less than two windows. So that it does not take all of them at once, it takes them in blocks of an eighth.

use std::time::Duration;

use crate::identity::Tenant;
use crate::protection::token_bucket::{Request, TokenBucket};
use crate::share::Concurrency;
use crate::time::Timestamp;

/// How long a window is.
pub const WINDOW: Duration = Duration::from_secs(30);

/// As far as two workers' clocks are apart: an attempt has a seat of a window that begins this long after its end.
pub const CLOCKS_DIFFER: Duration = Duration::from_secs(3);

/// What may pass between the admission of an attempt and its beginning: a slot that is waited for, and the calls before it.
pub const BEFORE: Duration = Duration::from_secs(4);

/// The number of blocks in which workers take the seats of a tenant.
const BLOCKS: u32 = 8;

/// A window of time, by its number since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Window(i64);

impl Window {
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_secs().div_euclid(secs()))
    }

    pub fn begin(self) -> Timestamp {
        Timestamp::from_secs(self.0.saturating_mul(secs()))
    }

    /// The windows of which an attempt needs seats that is admitted at `now` and takes `longest` at most.
    pub fn reached(now: Timestamp, longest: Duration) -> impl Iterator<Item = Self> + Clone {
        let last = Self::of(now.plus(BEFORE).plus(longest).plus(CLOCKS_DIFFER));
        (Self::of(now).0..=last.0).map(Self)
    }

    /// When an attempt that has its seats must be over: then a window begins, by the fastest clock, of which it has none.
    pub fn reached_until(now: Timestamp, longest: Duration) -> Timestamp {
        let last = Self::reached(now, longest).last().unwrap_or(Self::of(now));
        Self(last.0 + 1).begin().minus(CLOCKS_DIFFER)
    }

    /// Asks for a number of its seats. They are counted in milliseconds from its begin: a bucket of slots is a counter with an upper limit
    /// here, and a number that an operator changes is another bucket.
    pub fn request(self, tenant: &Tenant, most: Concurrency, seats: u32) -> Request {
        let begin = self.begin();
        let key = TokenBucket::Seats(tenant.to_string(), self.0, most.get()).key();
        let latest = begin.plus(ms(most.get().saturating_sub(seats)));
        Request { key, slots: seats, span: ms(seats), latest: Some(latest), now: begin, first: begin }
    }

    /// How many seats are left where they are free from then.
    pub fn left(self, most: Concurrency, free_from: Timestamp) -> u32 {
        let taken = u32::try_from(free_from.since(self.begin()).as_millis()).unwrap_or(u32::MAX);
        most.get().saturating_sub(taken)
    }
}

/// How many seats a worker takes that needs `wanted` more.
pub fn block(wanted: u32, most: Concurrency) -> u32 {
    wanted.min(most.get().div_ceil(BLOCKS))
}

fn secs() -> i64 {
    i64::try_from(WINDOW.as_secs()).unwrap_or(i64::MAX)
}

fn ms(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::token_bucket::Answer;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn most(number: &str) -> Concurrency {
        Concurrency::parse(number).expect("valid")
    }

    #[test]
    fn a_window_has_as_many_seats_as_attempts_may_be_under_way() {
        let (tenant, most) = (Tenant::parse("acme").expect("valid"), most("50"));
        let window = Window::of(at(7));
        let (mut free_from, mut taken) = (None, 0);
        for seats in [7, 7, 7, 7, 7, 7, 7, 7, 1, 7] {
            let request = window.request(&tenant, most, seats);
            match request.judge(free_from) {
                Answer::Leased { begin } => {
                    free_from = Some(begin.plus(request.span));
                    taken += seats;
                }
                Answer::Empty { free_from } => assert!(window.left(most, free_from) < seats),
            }
        }
        assert_eq!(taken, 50);
        assert_eq!(free_from.map(|at| window.left(most, at)), Some(0));
        assert_eq!(window.left(most, window.begin()), 50);
    }

    #[test]
    fn an_attempt_needs_a_seat_of_each_window_that_it_can_reach() {
        let longest = Duration::from_secs(20);
        let windows = |secs| Window::reached(at(secs), longest).map(|it| it.begin().since(at(0)).as_secs());
        assert_eq!(windows(0).collect::<Vec<_>>(), [0], "27 s are within the window");
        assert_eq!(windows(2).collect::<Vec<_>>(), [0]);
        assert_eq!(windows(3).collect::<Vec<_>>(), [0, 30]);
        assert_eq!(windows(29).collect::<Vec<_>>(), [0, 30]);
        let hour = Window::reached(at(0), Duration::from_secs(3_600));
        assert_eq!(hour.count(), 121);
        assert_eq!(Window::reached_until(at(0), longest), at(27));
        assert_eq!(Window::reached_until(at(3), longest), at(57));
    }

    #[test]
    fn seats_are_taken_in_blocks_of_an_eighth() {
        for (wanted, number, seats) in
            [(10, "50", 7), (3, "50", 3), (10, "1", 1), (10, "8", 1), (10, "9", 2), (0, "50", 0)]
        {
            assert_eq!(block(wanted, most(number)), seats, "{wanted} of {number}");
        }
    }
}
