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
    MadeTwice = "a call was made twice, and its first answer was lost",
    RecordFailed = "a record failed after its POST",
    CopyDuringLease = "a second copy met a lease",
    CopyAfterEnd = "a second copy came after the end",
    CopyTakesOver = "a second copy took over a lease that had run out",
    HandOffAgain = "a hand-off was repeated",
    FenceLost = "a record was fenced off",
    SentAgain = "a message was sent again in its own place",
    Redriven = "a message was redriven to the quarantine",
    RedrivenWhileHeld = "a message was redriven while a worker held it",
    HandedOffByQuarantine = "cleanup handed off what a worker had recorded",
    Parked = "a message was parked",
    WaitedForHours = "a message waited for its hours, and was sent within them",
    Noted = "a message that was never attempted was parked, and could be found",
    Divided = "a message was parked in a shard that its bucket was divided into",
    LinedUp = "a message waited in the line of its origin",
    LeftAsOne = "copies of a message left the line of their origin as one",
    ReleasedBySweep = "the sweep released a late bucket",
    ExecutionStopped = "an execution was stopped",
    ExecutionRepeated = "an execution released its bucket twice",
    BreakerOpened = "a breaker opened",
    BreakerClosed = "a breaker closed",
    BreakerHalfOpen = "a breaker half-opened",
    BreakerRamps = "a breaker's probes succeeded, and it ramped",
    BreakerPaused = "an origin asked all to stay away",
    OpenedByHand = "an operator opened a breaker",
    Limited = "an operator set a limit",
    Replayed = "a dead letter was sent again",
    Purged = "a dead letter was purged",
    Cancelled = "a delivery was cancelled while it waited",
    CancelledInDoubt = "a delivery was cancelled whose attempt may have arrived",
    CancelledUnseen = "a delivery was cancelled before a worker had its message",
    NotCancelled = "a delivery was not cancelled, because it was being attempted",
    RequestUnanswered = "the API died with a request",
    AnswerLost = "an answer of the API was lost",
    DuplicateAnswered = "the API answered that a message is a duplicate",
    ConflictAnswered = "the API refused another content",
    AckBeforeRecord = "a browser acknowledged before the record",
    AckRepeated = "a browser acknowledged again",
    AckOnPage = "a browser acknowledged while its page alone knew the delivery",
    AckApart = "a browser acknowledged after the recipient had left its page",
    FoundByItsId = "a recipient of a page was looked up by its delivery's id",
    Listed = "a delivery was listed by its state",
    ListedLate = "deliveries were listed by an index that was behind",
    CalledBack = "tenants' events were posted to their callbacks",
    SeatsTaken = "a tenant had all attempts under way that it may have",
    PersonErased = "a person was erased",
    SentTogether = "successes were recorded together",
    BatchClosed = "an attempt was taken over, and its batch closed",
    BatchFellBack = "a worker had a success to record after its batch was closed",
    Carried = "an outcome that travelled was recorded",
    Foreign = "a message of another release was on a retry queue",
    TooLong = "a message was too long to be sent again",
    GivenBack = "a claim was given back",
    Conflict = "an id came back with another content",
    Gone = "an endpoint was gone",
    Pruned = "a subscription was pruned",
    Moved = "a subscription moved while a message was under way",
    DeadLetter = "a dead letter was kept",
    Opened = "a message to a tag was opened",
    PageSentAgain = "a page of a tag was sent again",
    PageReadTwice = "two workers read different members of one page of a tag",
    PageTakenUp = "a worker took up a page that another one had started to send",
    LeftItsPage = "a recipient left its page for a message of its own",
    SeveralPages = "a part of a tag had more than a full page",
    PartRested = "a part of a tag was walked on after its rest",
    JoinedMeanwhile = "a subscription got the tag during a walk",
    LeftMeanwhile = "a subscription lost the tag during a walk",
    ErasedMeanwhile = "a subscription was erased during a walk",
    CancelledMeanwhile = "a message to a tag was cancelled during its walk",
    UsedAgain = "the id of a message to a tag was used again after its window",
    RowsDeleted = "DynamoDB deleted some of the rows that had expired",
    WalkEndedEarly = "a walk ended early, by its TTL or by an operator",
    Erased = "a user's subscription was erased",
    SubscribedAgain = "a browser subscribed again",
    Disabled = "an operator switched a receiver off",
    TurnedOff = "a worker switched a subscription off, or removed it",
    Quarantined = "a subscription was put in quarantine",
    Confirmed = "an operator confirmed that an endpoint in quarantine is gone",
    GreatWave = "a great wave of endpoints turned gone",
    SmallWave = "a small wave of endpoints turned gone",
    Suspected = "dead letters made a subscription suspect",
    Verified = "a suspect subscription was verified by a success",
    HeldSuspect = "a message to a suspect subscription was held",
    ProbedSuspect = "a message to a suspect subscription was its probe",
    RefusedTogether = "all recipients of a push service were refused for hours",
    GivenUp = "a receiver was given up after days",
    Rotated = "the key of hashes was exchanged",
    KeysLoaded = "a worker loaded the VAPID keys again",
    RowExpired = "TTL deleted a row",
    Reused = "an id was used again after it was forgotten",
    Unreadable = "an older release received what a newer one had written",
    Hostile = "a receiver answered what it should not",
    HotKey = "a partition of DynamoDB's was hot, and refused",
    OthersGoOn = "a key was refused, and others of its batch were not",
    InParts = "a body took several items of DynamoDB's",
    TooLongForARun = "a message to a tag was too long for a run",
    UnreadableRun = "a worker could not read what a newer release had written of a message to a tag",
    InTime = "an attempt was made on time while nothing failed",
    ParkedInTime = "what had been parked was sent on time while nothing failed",
    StaleRead = "a read was older than a write",
    HeldAlone = "a hostile tenant was held back alone at an origin that others use",
    SentBeside = "a neighbour was sent to an origin that held back a hostile tenant",
    HeldTogether = "a breaker that one tenant had opened held back everyone, as others failed too",
    RecipientOpened = "a breaker of one recipient opened",
    RecipientCloses = "a breaker of one recipient closed",
    Outvoted = "a breaker closed although a probe failed",
    SharedAddress = "two tenants' messages went to one address, and one tenant's failed",
    BudgetMet = "a flood met its origin's retry budget",
    RateMet = "retries to one subscription met their rate",
    PlaceShared = "a neighbour shared a hostile tenant's place at an origin",
    SameId = "two tenants used the same id",
    TwoAreas = "a scenario had two areas besides the base",
    WavesBeside = "endpoints of two tenants turned gone together",
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
