//! The port to the ledger.

use super::{Answer, Answers};
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::Place;
use redial_core::ledger::hold::Hold;
use redial_core::ledger::{Ask, Entry, Fence, Given, Record, State, claim, expires_at};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;

/// A claim to be made, with what the ledger is to hold of the delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub ask: Ask,
    pub channel: Channel,
    /// Where the delivery goes, if that is known.
    pub endpoint_hash: Option<EndpointHash>,
    pub subscription: Option<SubscriptionId>,
    pub given: Given,
    /// Its place among the claims of its lease token; none for a claim whose outcome is recorded by itself.
    pub place: Option<Place>,
    /// What the entry has to outlast besides the window of duplicates. A claim writes the final expiry: a batch has none for each.
    pub kept_until: Option<Timestamp>,
    /// Set where the delivery ends without an attempt: the claim writes its end at once.
    pub settlement: Option<Settlement>,
}

impl Claim {
    /// When the entry expires that this claim writes.
    pub fn expires_at(&self, now: Timestamp) -> Timestamp {
        expires_at(now, None).max(self.kept_until.unwrap_or_default())
    }

    /// The entry that it writes in place of the one that it was judged by, if that counts. The answer of the attempt before stays until the
    /// next record; an end without an attempt has none.
    pub fn entry(&self, stored: Option<&Entry>, in_doubt: bool, now: Timestamp) -> Entry {
        let ask = &self.ask;
        let own = stored.filter(|stored| stored.turn.lineage == ask.turn.lineage);
        let (status, reason) = match self.settlement {
            Some(end) => (None, end.reason),
            None => (stored.and_then(|it| it.status), stored.and_then(|it| it.reason)),
        };
        Entry {
            key: ask.key.clone(),
            state: ask.state,
            turn: ask.turn,
            fingerprint: ask.fingerprint.clone(),
            lease_token: ask.lease_token.clone(),
            lease_until: ask.lease_until,
            source_message: ask.source_message.clone(),
            place: self.place,
            endpoint_hash: self.endpoint_hash.clone().or_else(|| stored?.endpoint_hash.clone()),
            subscription: stored.map_or(&self.subscription, |stored| &stored.subscription).clone(),
            status,
            reason,
            not_sent: None,
            provider_word: None,
            not_before: None,
            held_by: None,
            // A doubt of an earlier lineage does not apply to a replay.
            in_doubt: in_doubt || own.is_some_and(|own| own.in_doubt),
            given: self.given.clone(),
            created_at: stored.map_or(now, |stored| stored.created_at),
            dispatched_at: claim::dispatched_at(stored, ask, now),
            updated_at: now,
            expires_at: self.expires_at(now),
        }
    }

    /// The cancelled entry of its delivery once its message has met it, with what that says of the delivery.
    pub fn meets(&self, cancelled: Entry) -> Entry {
        Entry {
            endpoint_hash: self.endpoint_hash.clone().or_else(|| cancelled.endpoint_hash.clone()),
            subscription: self.subscription.clone().or_else(|| cancelled.subscription.clone()),
            given: self.given.clone(),
            ..claim::met(cancelled, &self.ask)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settlement {
    pub state: State,
    pub reason: Option<Reason>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimAnswer {
    /// The attempt is ours (or the settlement is written).
    Granted {
        /// An earlier worker may have sent it.
        in_doubt: bool,
        /// When the claim was written: earlier than now where its answer was lost.
        at: Timestamp,
    },
    /// Recorded by this very message before: repeat the hand-off of this entry.
    HandOffAgain(Box<Entry>),
    /// Another worker has it until then.
    Leased { until: Timestamp },
    /// Nothing is left to do.
    Done,
    /// The id was used for another content.
    Conflict,
}

pub trait Ledger: Send + Sync {
    /// Makes these claims, each on its own; keys are distinct. An `Err` leaves open whether that claim was written.
    fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> impl Answers<ClaimAnswer>;

    /// Notes on these deliveries that they are held back ([`redial_core::ledger::hold`]); keys are distinct. Where that may not be noted,
    /// nothing is written, and the answer is the entry that there is.
    fn hold(&self, holds: Vec<Hold>, now: Timestamp) -> impl Answers<Option<Entry>>;

    /// Writes these records, each fenced by its lease token; keys are distinct. Those of one token that are plain successes may be
    /// written together ([`redial_core::ledger::batch`]).
    fn record(&self, records: Vec<Record>) -> impl Answers<Fence>;

    /// The same for records that came with their messages. They can travel on, and the rest of the batch waits for them: so they are
    /// not tried for long.
    fn record_carried(&self, records: Vec<Record>) -> impl Answers<Fence>;
}

pub trait LedgerReader: Send + Sync {
    /// A delivery's entry, read consistently; `None` if there is none (any more).
    fn get(&self, key: &DeliveryKey) -> impl Answer<Option<Entry>>;
}
