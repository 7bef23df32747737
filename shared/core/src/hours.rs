//! The hours of the day in which a message may be delivered: its field `deliver_between`.
//!
//! The hours are those of the clock on the wall, from `from` until just before `to`, and over midnight if `to` is the earlier one. That
//! alone decides, so a change of the clock needs no rule of its own: of a time that the clock skips, the hours begin with the first one
//! after it that is shown; a time that is shown twice is in them twice, or not at all.
//!
//! Whose clock that is, the message says, else the subscription, else the stack ([`Hours::zone`] is the message's own).

use crate::shape::{Object, string, text};
use crate::time::Timestamp;
use crate::zone::{Clock, Zone};

const DAY: i64 = 86_400;

/// More changes of the clock than any zone has in the time between two openings.
const MOST_CHANGES: usize = 16;

const NAME: &str = "deliver_between";

const A_TIME: &str = "a time of day such as \"09:00\"";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hours {
    /// Seconds since midnight; not equal.
    from: i64,
    to: i64,
    /// The message's own.
    pub zone: Option<Zone>,
}

impl Hours {
    /// Takes the field. What is wrong with it is among the object's errors. A message that travels may name a zone that only another
    /// release knows: then it goes by its subscription's. One that is new may not.
    pub(crate) fn take(object: &mut Object<'_>, is_new: bool) -> Option<Self> {
        let mut own = object.object(NAME)?;
        let from = own.required("from", A_TIME, text(|text| second_of_day(text).filter(|at| *at < DAY)));
        let to = own.required("to", A_TIME, text(second_of_day));
        if from.zip(to).is_some_and(|(from, to)| from == to % DAY) {
            own.error("to", "another time than `from`", "the same");
        }
        let zone = match own.raw("time_zone") {
            None => None,
            Some(raw) => {
                let written = string(raw);
                let zone = written.as_deref().and_then(Zone::parse);
                if zone.is_none() && (is_new || written.is_none()) {
                    own.refuse(
                        "time_zone",
                        Zone::expected(written.as_deref().unwrap_or_default()),
                        Some(raw),
                    );
                }
                zone
            }
        };
        own.finish();
        Some(Self { from: from?, to: to? % DAY, zone })
    }

    /// The first moment, not before `at`, at which the clock of `zone` shows one of these hours.
    pub fn opening(&self, at: Timestamp, zone: Zone) -> Timestamp {
        let clock = zone.clock();
        let mut at = at;
        for _ in 0..MOST_CHANGES {
            let shown = clock.second_of_day(at);
            if self.has(shown) {
                return at;
            }
            let opens = until_shown(self.from, shown, at);
            match clock.next_change(at).filter(|change| *change <= opens) {
                Some(change) => at = change,
                None => return opens,
            }
        }
        at
    }

    /// Whether the clock of `zone` shows one of these hours at that moment.
    pub fn are_shown(&self, at: Timestamp, clock: &Clock) -> bool {
        self.has(clock.second_of_day(at))
    }

    /// Whether a time of day, in seconds since midnight, is one of these.
    fn has(&self, second: i64) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&second)
        } else {
            second >= self.from || second < self.to
        }
    }
}

/// When a clock that shows `shown` at `at` shows `wanted` next, if the clock is not changed before.
fn until_shown(wanted: i64, shown: i64, at: Timestamp) -> Timestamp {
    Timestamp::from_secs(at.as_secs() + (wanted - shown).rem_euclid(DAY))
}

/// Of `09:00`, `09:00:30`, or `24:00`.
fn second_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| {
        let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| is_two_digits)
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let is_valid = parts.next().is_none() && minute < 60 && second < 60;
    Some(hour * 3_600 + minute * 60 + second).filter(|at| is_valid && *at <= DAY)
}

#[cfg(test)]
#[path = "hours_tests.rs"]
mod tests;
