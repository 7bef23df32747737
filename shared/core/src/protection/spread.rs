//! Over how many tenants and recipients an origin's troubles are spread: those of one alone say nothing of the origin.
//!
//! Tenants and recipients are counted by places, which are hashes: a few numbers that only grow, however many come. Two that share a place
//! are taken for one.

use std::array;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::breaker::FAST_FROM_SECS;
use super::count::Count;
use super::votes::Voters;
use super::whose::{Place, RECIPIENTS, TENANTS, Whose};
use crate::time::Timestamp;

/// Fewer attempts than these show nothing.
const SHOWN_BY: u64 = 5;

/// How many recipients may fail without the origin being to blame, if others succeed.
const RECIPIENTS_APART: usize = 2;

/// What is recent is two spans of at least this length each, as the fastest rule of a breaker is about ten seconds …
const SHORTEST_SPAN: Duration = Duration::from_secs(5);

/// … and longer until they have this number of attempts …
const ATTEMPTS_OF_A_SPAN: u64 = 50;

/// … but no longer than this.
const LONGEST_SPAN: Duration = Duration::from_secs(150);

/// The least length of a span of what a worker sees itself: what it counts reaches as far back. Of failures that it still counts, but no
/// longer knows whose they are, it would take everyone for concerned.
const OWN_SPAN: Duration = Duration::from_secs(FAST_FROM_SECS as u64);

/// What is counted of each place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct Tally {
    attempts: u64,
    failures: u64,
    limited: u64,
}

impl From<[u64; 3]> for Tally {
    fn from([attempts, failures, limited]: [u64; 3]) -> Self {
        Self { attempts, failures, limited }
    }
}

impl From<Tally> for [u64; 3] {
    fn from(tally: Tally) -> Self {
        [tally.attempts, tally.failures, tally.limited]
    }
}

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    Failures,
    /// Answers of 429.
    Limited,
}

impl Tally {
    fn of(self, trouble: Trouble) -> u64 {
        match trouble {
            Trouble::Failures => self.failures,
            Trouble::Limited => self.limited,
        }
    }

    fn with(self, other: Self, add: fn(u64, u64) -> u64) -> Self {
        Self {
            attempts: add(self.attempts, other.attempts),
            failures: add(self.failures, other.failures),
            limited: add(self.limited, other.limited),
        }
    }

    fn passes(self, trouble: Trouble, percent: u64) -> bool {
        let count = Count { attempts: self.attempts, ..Count::default() };
        count.passes(self.of(trouble), percent, SHOWN_BY)
    }
}

fn sum(tallies: impl Iterator<Item = Tally>) -> Tally {
    tallies.fold(Tally::default(), |sum, tally| sum.with(tally, u64::saturating_add))
}

/// Attempts, and those that failed or were limited, by place.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    #[serde(default, skip_serializing_if = "is_nothing")]
    tenants: [Tally; TENANTS],
    #[serde(default, skip_serializing_if = "is_nothing")]
    recipients: [Tally; RECIPIENTS],
}

fn is_nothing(tallies: &[Tally]) -> bool {
    tallies.iter().all(|tally| tally.attempts == 0)
}

/// Whom an origin's troubles concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Concerned {
    Everyone,
    /// The others succeed, or it has no others.
    Tenant(Place),
    /// One recipient or two; the others succeed.
    Recipients,
}

impl Spread {
    /// Adds what attempts of one tenant to one recipient came to.
    pub fn add(&mut self, whose: Whose, count: Count) {
        let Count { attempts, failures, limited, .. } = count;
        let new = Tally { attempts, failures, limited };
        for tally in [&mut self.tenants[whose.tenant().number()], &mut self.recipients[whose.recipient()]] {
            *tally = tally.with(new, u64::saturating_add);
        }
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &Self, add: fn(u64, u64) -> u64) -> Self {
        Self {
            tenants: array::from_fn(|at| self.tenants[at].with(other.tenants[at], add)),
            recipients: array::from_fn(|at| self.recipients[at].with(other.recipients[at], add)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.attempts() == 0
    }

    fn attempts(&self) -> u64 {
        sum(self.tenants.into_iter()).attempts
    }

    fn is_well(&self) -> bool {
        let all = sum(self.tenants.into_iter());
        all.failures + all.limited == 0
    }

    /// Its numbers by name, those of no place left out: `t0a` are the attempts of the first tenants' place, `r7l` the limited ones of the
    /// last recipients'.
    pub fn named(&mut self) -> impl Iterator<Item = (String, &mut u64)> {
        let tenants = self.tenants.iter_mut().enumerate().map(|(at, tally)| (format!("t{at}"), tally));
        let recipients = self.recipients.iter_mut().enumerate().map(|(at, tally)| (format!("r{at}"), tally));
        tenants.chain(recipients).flat_map(|(name, Tally { attempts, failures, limited })| {
            [('a', attempts), ('f', failures), ('l', limited)]
                .map(|(of, number)| (format!("{name}{of}"), number))
        })
    }

    /// Whom it concerns that more than `percent` of the attempts to the origin are in trouble. A tenant whose others are not known to
    /// succeed is held back alone regardless: the others go on, and show soon whether it concerns them.
    pub fn concerned(&self, trouble: Trouble, percent: u64) -> Concerned {
        let apart = RECIPIENTS_APART.min(active(&self.recipients).saturating_sub(1));
        let others = sum(without_worst(&self.recipients, trouble, apart));
        // Few that all succeed are enough, too: if it concerns them, they show it soon, unless they are held back.
        let do_well = match others.attempts {
            0 => false,
            1..SHOWN_BY => others.of(trouble) == 0,
            SHOWN_BY.. => !others.passes(trouble, percent),
        };
        if do_well {
            return Concerned::Recipients;
        }
        let worst = (0..TENANTS).max_by_key(|at| self.tenants[*at].of(trouble)).unwrap_or_default();
        if self.tenants[worst].of(trouble) == 0 {
            return Concerned::Everyone;
        }
        let worst = Place::numbered(worst);
        if self.concerns_others(worst, trouble, percent) {
            Concerned::Everyone
        } else {
            Concerned::Tenant(worst)
        }
    }

    /// Who has a vote in what it concerns: all that are active, or the one tenant and those in trouble.
    pub fn voters(&self, concerned: Concerned, trouble: Trouble) -> Voters {
        let number = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        match concerned {
            Concerned::Everyone | Concerned::Recipients => {
                let (tenants, recipients) = (active(&self.tenants), active(&self.recipients));
                Voters { tenants: number(tenants), recipients: number(recipients) }
            }
            Concerned::Tenant(_) => {
                let in_trouble = self.recipients.iter().filter(|tally| tally.of(trouble) > 0).count();
                Voters { tenants: 1, recipients: number(in_trouble) }
            }
        }
    }

    /// Whether other tenants are in trouble, too.
    pub fn concerns_others(&self, than: Place, trouble: Trouble, percent: u64) -> bool {
        let others = self.tenants.iter().enumerate().filter(|(at, _)| *at != than.number());
        sum(others.map(|(_, tally)| *tally)).passes(trouble, percent)
    }
}

fn active(tallies: &[Tally]) -> usize {
    tallies.iter().filter(|tally| tally.attempts > 0).count()
}

fn without_worst(tallies: &[Tally], trouble: Trouble, apart: usize) -> impl Iterator<Item = Tally> {
    let mut tallies = tallies.to_vec();
    tallies.sort_by_key(|tally| tally.of(trouble));
    let rest = tallies.len() - apart;
    tallies.into_iter().take(rest)
}

/// The attempts of the current span and of the one before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recent {
    since: Timestamp,
    current: Spread,
    previous: Spread,
}

impl Recent {
    /// What an attempt of a worker's own came to: what went well before something failed says nothing about these seconds.
    pub fn note_own(&mut self, whose: Whose, count: Count, now: Timestamp) {
        let is_full = now.since(self.since) >= OWN_SPAN && self.current.attempts() >= SHOWN_BY;
        if is_full && self.current.is_well() {
            *self = Self { since: now, ..Self::default() };
        } else {
            self.turn(is_full, now);
        }
        self.current.add(whose, count);
    }

    pub fn note(&mut self, new: &Spread, now: Timestamp) {
        let is_long = now.since(self.since) >= SHORTEST_SPAN;
        self.turn(is_long && self.current.attempts() >= ATTEMPTS_OF_A_SPAN, now);
        self.current = self.current.plus(new);
    }

    /// Begins another span, if this one is over.
    fn turn(&mut self, is_full: bool, now: Timestamp) {
        let age = now.since(self.since);
        if age >= LONGEST_SPAN * 2 {
            *self = Self { since: now, ..Self::default() };
        } else if is_full || age >= LONGEST_SPAN {
            self.previous = std::mem::take(&mut self.current);
            self.since = now;
        }
    }

    pub fn sum(&self, now: Timestamp) -> Spread {
        if now.since(self.since) >= LONGEST_SPAN * 2 {
            return Spread::default();
        }
        self.current.plus(&self.previous)
    }

    pub fn take(&mut self, now: Timestamp) -> Spread {
        let sum = self.sum(now);
        *self = Self { since: now, ..Self::default() };
        sum
    }
}

/// What workers count of an origin, and add to its counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    pub count: Count,
    pub spread: Spread,
}

impl From<Count> for Counted {
    fn from(count: Count) -> Self {
        Self { count, ..Self::default() }
    }
}

impl Counted {
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self { count: self.count.plus(other.count), spread: self.spread.plus(&other.spread) }
    }
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
