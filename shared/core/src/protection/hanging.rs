//! How much of a worker's time one tenant may spend on receivers that hang.
//!
//! A worker adds up the time for which a tenant's attempts hung, apart by lane and by whether their origins were proven. Beyond a
//! budget a minute the tenant's messages of that kind are held for a while: in the transactional lane they go on to the bulk lane
//! without an attempt, in the bulk lane they wait. Attempts of one batch hang together, so they cost the worker the longest of them.

use std::time::Duration;

use super::patience::FIRST_TIMEOUT;
use crate::lane::Lane;
use crate::time::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);

/// A tenant that hung within this time after a hold is held again at once, and in the transactional lane for twice as long, up to this
/// long.
const LONGEST: Duration = Duration::from_secs(900);

/// How long a tenant is held in the bulk lane: its messages cannot go on anywhere else.
const IN_BULK: Duration = Duration::from_secs(30);

/// What gets no answer within this hangs: it failed by a time-out, if only by that of connecting.
const HANGS_FROM: Duration = Duration::from_secs(1);

/// Messages that are held in the bulk lane come back within this time after the hold, or within their age.
const LEAST_WIDTH: Duration = Duration::from_secs(30);
const MOST_WIDTH: Duration = Duration::from_secs(12 * 3600);

/// Whose time is added up together, of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind {
    pub lane: Lane,
    pub is_proven: bool,
}

impl Kind {
    /// How long a tenant's attempts may hang a minute: three first attempts; or three whole ones at origins that have answered, which is
    /// most of a worker's time, because a receiver that is slow or just failed is no attack.
    const fn budget(self) -> Duration {
        Duration::from_secs(if self.is_proven { 45 } else { 9 })
    }

    const fn first_hold(self) -> Duration {
        match self.lane {
            Lane::Transactional => MINUTE,
            Lane::Bulk => IN_BULK,
        }
    }

    const fn longest_hold(self) -> Duration {
        match self.lane {
            Lane::Transactional => LONGEST,
            Lane::Bulk => IN_BULK,
        }
    }
}

/// For how long an attempt hung, if it did.
pub fn hung(took: Duration, is_answered: bool) -> Option<Duration> {
    let from = if is_answered { FIRST_TIMEOUT } else { HANGS_FROM };
    (took >= from).then_some(took)
}

/// Over which time a message that is held in the bulk lane is spread behind the hold. The older it is the longer, so that messages which
/// wait for long cost little, however many they are.
pub fn width(first_sent: Timestamp, now: Timestamp) -> Duration {
    now.since(first_sent).clamp(LEAST_WIDTH, MOST_WIDTH)
}

/// What one worker knows of one tenant's attempts of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hold {
    begin: Timestamp,
    /// For how long they hung since then.
    hung: Duration,
    until: Timestamp,
    lasted: Duration,
}

impl Hold {
    /// When the hold of messages ends; none: they are not held.
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        (now < self.until).then_some(self.until)
    }

    /// Attempts of a batch hung for `hung`. `chance` is from 0 to 1: so workers whose holds began together do not try again together.
    pub fn note(&mut self, hung: Duration, kind: Kind, now: Timestamp, chance: f64) {
        if self.until(now).is_some() {
            // They were under way when it began.
            return;
        }
        if now.since(self.begin) >= MINUTE {
            (self.begin, self.hung) = (now, Duration::ZERO);
        }
        self.hung = self.hung.saturating_add(hung);
        let is_again = !self.lasted.is_zero() && now.since(self.until) < LONGEST;
        if is_again || self.hung >= kind.budget() {
            let twice = self.lasted.saturating_mul(2).min(kind.longest_hold());
            self.lasted = if is_again { twice } else { kind.first_hold() };
            self.until = now.plus(self.lasted.mul_f64(0.75 + 0.5 * chance));
            self.hung = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    const UNPROVEN: Kind = Kind { lane: Lane::Transactional, is_proven: false };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn held_for(hold: &Hold, now: u64) -> Option<u64> {
        hold.until(at(now)).map(|until| until.since(at(now)).as_secs())
    }

    /// The tenant hangs whenever it may, for `each` seconds each time, during an hour: the share of the worker's time, in hundredths.
    fn share(kind: Kind, each: u64) -> u64 {
        let (mut hold, mut now, mut hung) = (Hold::default(), 0, 0);
        while now < 3600 {
            if hold.until(at(now)).is_some() {
                now += 1;
            } else {
                now += each;
                hung += each;
                hold.note(secs(each), kind, at(now), 0.5);
            }
        }
        hung * 100 / 3600
    }

    #[test]
    fn a_tenant_is_held_from_its_third_hang_of_a_minute_on() {
        let mut hold = Hold::default();
        for now in [0, 70, 80] {
            hold.note(secs(3), UNPROVEN, at(now), 0.5);
            assert_eq!(held_for(&hold, now), None, "{now}");
        }
        hold.note(secs(3), UNPROVEN, at(90), 0.5);
        assert_eq!(held_for(&hold, 90), Some(60));
        assert_eq!(held_for(&hold, 150), None);
    }

    #[test]
    fn a_hold_doubles_up_to_a_quarter_of_an_hour_and_is_forgotten_after_another() {
        let (mut hold, mut now) = (Hold::default(), 0);
        hold.note(secs(9), UNPROVEN, at(now), 0.5);
        for lasts in [60, 120, 240, 480, 900, 900] {
            assert_eq!(held_for(&hold, now), Some(lasts));
            hold.note(secs(3), UNPROVEN, at(now + 1), 0.5);
            now += lasts;
            assert_eq!(held_for(&hold, now), None);
            hold.note(secs(3), UNPROVEN, at(now), 0.5);
        }
        now += 900 + 900;
        hold.note(secs(3), UNPROVEN, at(now), 0.5);
        assert_eq!(held_for(&hold, now), None);
    }

    #[test]
    fn a_tenant_that_hangs_whenever_it_may_gets_little_of_a_worker() {
        let kind = |lane, is_proven| Kind { lane, is_proven };
        assert_eq!(share(kind(Lane::Transactional, false), 3), 0);
        assert_eq!(share(kind(Lane::Transactional, true), 15), 3);
        assert_eq!(share(kind(Lane::Bulk, false), 15), 33);
        assert_eq!(share(kind(Lane::Bulk, true), 15), 34);
    }

    #[test]
    fn only_what_takes_long_hangs() {
        assert_eq!(hung(secs(2), true), None);
        assert_eq!(hung(secs(10), true), Some(secs(10)));
        assert_eq!(hung(secs(2), false), Some(secs(2)));
        assert_eq!(hung(Duration::from_millis(20), false), None);
    }
}
