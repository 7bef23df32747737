//! What a half-open breaker makes of its probes: a vote of distinct recipients and tenants, by majority.
//!
//! One recipient that is dead must not keep an origin closed to all others, and one that answers 200 must not open it to them. So the
//! probes go to recipients that have none yet, as far as tenants have none yet, and a verdict needs as many of both as were active when
//! the breaker opened, up to `TENANTS_AGREE` and `RECIPIENTS_AGREE`. If no others come within `REPEATS_AFTER`, those who are there
//! decide.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::whose::{Place, Whose};
use crate::distinct::distinct;
use crate::time::Timestamp;

/// How many probes a half-open breaker lets through. The majority of their answers decides.
pub const PROBES: u32 = 5;

/// A majority of them.
pub const MAJORITY: u32 = PROBES / 2 + 1;

/// Failures, or successes, of fewer tenants than these say nothing of an origin that more were sending to …
const TENANTS_AGREE: u8 = 2;

/// … and of fewer recipients.
const RECIPIENTS_AGREE: u8 = 3;

/// How long after the first probe others go to the same recipients: no others have come.
const REPEATS_AFTER: Duration = Duration::from_secs(20);

/// How many tenants and recipients, by their places, an origin had when its breaker opened. None: not known, as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "[u8; 2]", into = "[u8; 2]")]
pub struct Voters {
    pub tenants: u8,
    pub recipients: u8,
}

impl From<[u8; 2]> for Voters {
    fn from([tenants, recipients]: [u8; 2]) -> Self {
        Self { tenants, recipients }
    }
}

impl From<Voters> for [u8; 2] {
    fn from(voters: Voters) -> Self {
        [voters.tenants, voters.recipients]
    }
}

impl Voters {
    /// The most probes of one tenant.
    fn of_a_tenant(self) -> usize {
        share(self.tenants)
    }

    /// The most probes to one recipient.
    fn to_a_recipient(self) -> usize {
        share(self.recipients)
    }

    fn agree(self, tenants: usize, recipients: usize) -> bool {
        tenants >= usize::from(self.tenants.clamp(1, TENANTS_AGREE))
            && recipients >= usize::from(self.recipients.clamp(1, RECIPIENTS_AGREE))
    }
}

fn share(among: u8) -> usize {
    PROBES.div_ceil(u32::from(among.max(1))) as usize
}

/// A probe: the place of its tenant, a few bits of a hash of its recipient, and whether it succeeded, once it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Ballot(Place, u16, Option<bool>);

impl Ballot {
    fn of(whose: Whose) -> Self {
        Self(whose.tenant(), whose.mark(), None)
    }

    fn is_of(&self, whose: Whose) -> bool {
        (self.0, self.1) == (whose.tenant(), whose.mark())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Closes,
    Opens,
}

/// Those of one half-open phase. An earlier release drops them, and goes on with its numbers alone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Votes {
    /// When the first probe went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<Timestamp>,
    #[serde(default)]
    ballots: Vec<Ballot>,
}

impl Votes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn failed(&self) -> u32 {
        let failed = self.ballots.iter().filter(|ballot| ballot.2 == Some(false)).count();
        u32::try_from(failed).unwrap_or(u32::MAX)
    }

    /// Those that were not answered have no vote any more.
    pub(super) fn forget_unanswered(&mut self) {
        self.ballots.retain(|ballot| ballot.2.is_some());
    }

    /// Which of these go as the next `left` probes, in this order: those whose recipient and tenant have none yet, then those whose
    /// recipient has none, then others within the shares of a recipient and a tenant.
    pub(super) fn choose(&self, of: &[Whose], left: u32, voters: Voters, now: Timestamp) -> Vec<usize> {
        let mut ballots = self.ballots.clone();
        let mut chosen = Vec::new();
        let repeats = self.no_one_else_came(now);
        for (to_a_recipient, of_a_tenant, is_open) in [
            (1, 1, true),
            (1, voters.of_a_tenant(), true),
            (voters.to_a_recipient(), voters.of_a_tenant(), true),
            (usize::MAX, usize::MAX, repeats),
        ] {
            for (at, whose) in of.iter().enumerate().filter(|_| is_open) {
                let same =
                    |is: fn(&Ballot, Whose) -> bool| ballots.iter().filter(|it| is(it, *whose)).count();
                let fits = same(Ballot::is_of) < to_a_recipient
                    && same(|ballot, whose| ballot.0 == whose.tenant()) < of_a_tenant;
                if chosen.len() < left as usize && fits && !chosen.contains(&at) {
                    chosen.push(at);
                    ballots.push(Ballot::of(*whose));
                }
            }
        }
        chosen
    }

    pub(super) fn send(&mut self, whose: impl Iterator<Item = Whose>, now: Timestamp) {
        for whose in whose {
            self.first = self.first.or(Some(now));
            self.ballots.push(Ballot::of(whose));
        }
    }

    /// Notes an answer. It may come after another probe was sent in its place.
    pub(super) fn answer(&mut self, whose: Whose, succeeded: bool) {
        let has_room = self.ballots.len() < 2 * PROBES as usize;
        let open = self.ballots.iter_mut().find(|ballot| ballot.is_of(whose) && ballot.2.is_none());
        match open {
            Some(ballot) => ballot.2 = Some(succeeded),
            None if has_room => self.ballots.push(Ballot(whose.tenant(), whose.mark(), Some(succeeded))),
            None => {}
        }
    }

    /// What follows from the answers, of which `succeeded` were successes; none: too few, yet.
    pub(super) fn verdict(&self, succeeded: u32, voters: Voters, now: Timestamp) -> Option<Verdict> {
        let failed = self.failed();
        let is_alone = self.no_one_else_came(now);
        if succeeded >= MAJORITY && succeeded > failed && (is_alone || self.agree(true, voters)) {
            return Some(Verdict::Closes);
        }
        let concerns_all = self.agree(false, voters) || (is_alone && succeeded == 0);
        if failed > succeeded && concerns_all {
            return Some(Verdict::Opens);
        }
        // Whose probes failed, have trouble of their own: others' succeeded.
        let has_ended = succeeded.saturating_add(failed) >= PROBES;
        has_ended.then_some(if succeeded > 0 { Verdict::Closes } else { Verdict::Opens })
    }

    fn agree(&self, succeeded: bool, voters: Voters) -> bool {
        let agreeing = || self.ballots.iter().filter(|ballot| ballot.2 == Some(succeeded));
        let tenants = distinct(agreeing().map(|ballot| ballot.0));
        let recipients = distinct(agreeing().map(|ballot| (ballot.0, ballot.1)));
        voters.agree(tenants.len(), recipients.len())
    }

    fn no_one_else_came(&self, now: Timestamp) -> bool {
        self.first.is_some_and(|first| now.since(first) >= REPEATS_AFTER)
    }
}

#[cfg(test)]
#[path = "votes_tests.rs"]
mod tests;
