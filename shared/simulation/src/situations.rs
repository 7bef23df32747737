//! How often rare situations came about: a search that never reaches them proves nothing about them.

use std::collections::BTreeMap;

macro_rules! situations {
    ($($name:ident = $text:literal,)*) => {
        /// A situation that a defect may need.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Situation { $(#[doc = $text] $name,)* }

        impl Situation {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

situations! {
    DiedBeforePost = "a worker died between its claim and its POST",
    DiedAfterPost = "a worker died between its POST and its record",
    DiedAfterRecord = "a worker died between its record and its acknowledgement",
    DiedInBatch = "a worker died with a batch written in part",
    Timeout = "an invocation ran into its time-out",
    RecordLost = "a record was written, and its answer was lost",
    ClaimLost = "a claim was written, and its answer was lost",
    RecordFailed = "a record failed after its POST",
    CopyDuringLease = "a second copy met a lease",
    CopyAfterEnd = "a second copy came after the end",
    CopyTakesOver = "a second copy took over a lease that had run out",
    HandOffAgain = "a hand-off was repeated",
    FenceLost = "a record was fenced off",
    SentAgain = "a message was sent again in its own place",
    Redriven = "a message was redriven to the quarantine",
    Parked = "a message was parked",
    ReleasedBySweep = "the sweep released a late bucket",
    ExecutionStopped = "an execution was stopped",
    ExecutionRepeated = "an execution released its bucket twice",
    BreakerOpened = "a breaker opened",
    BreakerClosed = "a breaker closed",
    Carried = "an outcome that travelled was recorded",
    Foreign = "a message of another release was on a retry queue",
    TooLong = "a message was too long to be sent again",
    GivenBack = "a claim was given back",
    Conflict = "an id came back with another content",
    Gone = "an endpoint was gone",
    Pruned = "a subscription was pruned",
    Moved = "a subscription moved while a message was under way",
    DeadLetter = "a dead letter was kept",
}

/// Counters of situations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Situations(BTreeMap<Situation, u64>);

impl Situations {
    pub fn saw(&mut self, situation: Situation) {
        self.saw_times(situation, 1);
    }

    pub fn saw_times(&mut self, situation: Situation, times: u64) {
        *self.0.entry(situation).or_default() += times;
    }

    pub fn of(&self, situation: Situation) -> u64 {
        self.0.get(&situation).copied().unwrap_or_default()
    }

    pub fn add(&mut self, other: &Self) {
        for (situation, n) in &other.0 {
            *self.0.entry(*situation).or_default() += n;
        }
    }
}
