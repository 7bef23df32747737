//! The ledger: the state of each delivery, and which worker may make its next attempt.
//!
//! One [`Entry`] per delivery, never a second for a retry. An attempt is *claimed* before it is made and *recorded* after it;
//! both are conditional writes, so that of any number of workers that hold the same message one sends it. What the
//! conditions are is decided here ([`claim::judge`]); a store only compares and swaps.

pub mod claim;
mod headers;
pub mod history;
mod state;
mod unrecorded;

pub use claim::{Ask, Judgement, judge};
pub use headers::kept_headers;
pub use history::PastAttempt;
pub use state::State;
pub use unrecorded::Unrecorded;

use std::time::Duration;

use crate::endpoint::EndpointHash;
use crate::identity::{DeliveryKey, SubscriptionId, Turn};
use crate::outcome::NotSent;
use crate::reason::Reason;
use crate::time::Timestamp;

/// How long an entry outlives the message that waits for it: the window in which producers' duplicates are recognised.
pub const DEDUPE_WINDOW: Duration = Duration::from_secs(15 * 86_400);

/// When an entry that was written at `now` may be forgotten.
pub fn expires_at(now: Timestamp, not_before: Option<Timestamp>) -> Timestamp {
    not_before.map_or(now, |at| at.max(now)).plus(DEDUPE_WINDOW)
}

/// What the ledger holds of a delivery. Never an endpoint, a key or a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: DeliveryKey,
    /// Where it stands.
    pub state: State,
    /// Which lineage and attempt that is about.
    pub turn: Turn,
    pub fingerprint: EndpointHash,
    pub lease_token: String,
    /// Until when that invocation is given time.
    pub lease_until: Timestamp,
    /// The SQS message that the last claim was made for.
    pub source_message: String,
    /// Where it goes.
    pub endpoint_hash: Option<EndpointHash>,
    pub subscription: Option<SubscriptionId>,
    /// HTTP status of the last attempt that was answered.
    pub status: Option<u16>,
    pub reason: Option<Reason>,
    /// What failed, if the last attempt that was recorded sent nothing.
    pub not_sent: Option<NotSent>,
    /// The provider's own word, if it was one that may be kept.
    pub provider_word: Option<String>,
    pub not_before: Option<Timestamp>,
    /// Whether some attempt may have arrived without our knowing.
    pub in_doubt: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When it is forgotten: after this it counts as absent, although its row may still be there.
    pub expires_at: Timestamp,
}

impl Entry {
    /// Whether it counts as absent: DynamoDB deletes what has expired late, or never.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

/// What is written when an attempt is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub key: DeliveryKey,
    pub turn: Turn,
    /// The token of the claim that the attempt was made under; another's claim fences this record off.
    pub lease_token: String,
    /// Where the delivery stands now.
    pub state: State,
    pub status: Option<u16>,
    /// What the outcome meant: a verdict's label; none where nothing was attempted.
    pub verdict: Option<&'static str>,
    pub reason: Option<Reason>,
    pub not_sent: Option<NotSent>,
    pub provider_word: Option<String>,
    /// What is kept of the answer's headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub not_before: Option<Timestamp>,
    /// Whether this or an earlier attempt may have arrived without our knowing.
    pub in_doubt: bool,
    /// The entry is not to be forgotten before this: its browser may still acknowledge it.
    pub kept_until: Option<Timestamp>,
    pub now: Timestamp,
}

impl Record {
    /// When the entry may be forgotten, as far as this record says.
    pub fn expires_at(&self) -> Timestamp {
        let usual = expires_at(self.now, self.not_before);
        self.kept_until.map_or(usual, |until| until.max(usual))
    }
}

/// Whether a record was still ours to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    Held,
    /// Another worker holds the attempt: the outcome is dropped, and nothing is handed off.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn an_entry_outlives_its_message_and_its_acknowledgements() {
        let now = Timestamp::from_secs(1_800_000_000);
        let day = |days: u64| Duration::from_secs(days * 86_400);
        assert_eq!(expires_at(now, Some(now.minus(day(1)))), now.plus(DEDUPE_WINDOW));
        assert_eq!(expires_at(now, Some(now.plus(day(3)))), now.plus(day(18)));
        let record = |kept_until| Record { kept_until, now, not_before: None, ..fixtures::record(0) };
        assert_eq!(record(Some(now.plus(day(7)))).expires_at(), now.plus(day(15)));
        assert_eq!(record(Some(now.plus(day(35)))).expires_at(), now.plus(day(35)));
    }
}
