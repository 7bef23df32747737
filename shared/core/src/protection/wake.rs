//! When a held-back message returns: spread in time, the urgent ones first, and none after its own deadline.

use std::time::Duration;

use rand::{Rng, RngExt};

use super::breaker::Span;
use crate::delivery_options::{Class, Urgency};
use crate::message::Message;
use crate::rank::Rank;
use crate::time::{Deadline, Timestamp};

impl Rank {
    /// A message's: its urgency where it names one, else its class.
    pub fn of(message: &Message) -> Self {
        match (message.urgency, message.class) {
            (Some(Urgency::High), _) | (None, Class::Otp) => Self::First,
            (Some(Urgency::Normal), _) | (None, Class::Alert) => Self::Middle,
            (Some(Urgency::Low | Urgency::VeryLow), _) | (None, Class::Campaign) => Self::Last,
        }
    }

    const fn part(self) -> (f64, f64) {
        match self {
            Self::First => (0.0, 0.25),
            Self::Middle => (0.0, 1.0),
            Self::Last => (0.25, 1.0),
        }
    }
}

/// A moment in the `width` after `from`; `None` if the message's TTL ends before.
pub fn spread(
    from: Timestamp,
    width: Duration,
    rank: Rank,
    deadline: Deadline,
    rng: &mut dyn Rng,
) -> Option<Timestamp> {
    let left = deadline.at().since(from);
    if left.is_zero() {
        return None;
    }
    let (begin, end) = rank.part();
    let width = width.min(left / 2).as_secs_f64();
    Some(from.plus(Duration::from_secs_f64(width * (begin + (end - begin) * rng.random::<f64>()))))
}

/// A moment of `far`, if there is one. What is urgent, or would have little time left then, returns at any moment from `soon` to the end of
/// `far`, the urgent first.
pub fn far_or_soon(
    soon: Span,
    far: Option<Span>,
    rank: Rank,
    deadline: Deadline,
    rng: &mut dyn Rng,
) -> Option<Timestamp> {
    let Some(far) = far else { return spread(soon.from, soon.width, rank, deadline, rng) };
    if may_wait(soon, far, rank, deadline) {
        return spread(far.from, far.width, rank, deadline, rng);
    }
    spread(soon.from, far.end().since(soon.from), rank, deadline, rng)
}

/// Whether a message may wait until `far`: it is not urgent, and has as much time left then.
pub fn may_wait(soon: Span, far: Span, rank: Rank, deadline: Deadline) -> bool {
    rank != Rank::First && deadline.at().since(far.from) >= far.end().since(soon.from)
}

/// A place in a queue at `at`; if the TTL ends before, half-way to its end, because others may have given up. `None` if it ends soon.
pub fn queued(at: Timestamp, now: Timestamp, deadline: Deadline) -> Option<Timestamp> {
    if at < deadline.at() {
        return Some(at);
    }
    let half = deadline.remaining(now) / 2;
    (half >= Duration::from_secs(1)).then(|| now.plus(half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, rng};
    use crate::time::Ttl;

    fn wakes(rank: Rank, ttl: u32) -> Vec<u64> {
        let mut rng = rng();
        let deadline = Ttl::from_secs(ttl).deadline_from(at(0));
        let wake = |_| spread(at(30), Duration::from_secs(100), rank, deadline, &mut rng);
        let mut wakes: Vec<u64> =
            (0..1000).filter_map(wake).map(|wake| wake.since(at(0)).as_secs()).collect();
        wakes.sort_unstable();
        wakes
    }

    #[test]
    fn urgent_messages_return_first_and_all_are_spread() {
        let [first, middle, last] = [Rank::First, Rank::Middle, Rank::Last].map(|rank| wakes(rank, 86_400));
        assert!(first[0] == 30 && first[999] < 55 && first[500] > 40);
        assert!(middle[0] == 30 && middle[999] >= 128 && (75..85).contains(&middle[500]));
        assert!(last[0] == 55 && last[999] >= 128);
    }

    #[test]
    fn no_message_waits_past_its_deadline() {
        let wakes = wakes(Rank::Middle, 40);
        assert!(wakes.len() == 1000 && wakes[999] < 35);
        assert!(self::wakes(Rank::First, 30).is_empty());
    }

    #[test]
    fn a_place_after_the_deadline_becomes_an_earlier_one() {
        let deadline = Ttl::from_secs(60).deadline_from(at(0));
        for (place, now, expected) in [(59, 0, Some(at(59))), (60, 0, Some(at(30))), (90, 59, None)] {
            assert_eq!(queued(at(place), at(now), deadline), expected, "{place}");
        }
    }
}
