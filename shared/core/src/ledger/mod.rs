//! The ledger: the state of each delivery, and which worker may make its next attempt.
//!
//! One [`Entry`] per delivery, never a second for a retry. An attempt is *claimed* before it is made and *recorded* after it;
//! both are conditional writes, so that of any number of workers that hold the same message one sends it. What the
//! conditions are is decided here ([`claim::judge`]); a store only compares and swaps.

pub mod batch;
pub mod cancel;
pub mod claim;
mod given;
pub mod history;
pub mod hold;
pub mod listing;
mod unrecorded;

pub use cancel::Cancellation;
pub use claim::{Ask, Judgement, judge};
pub use given::Given;
pub use history::PastAttempt;
pub use unrecorded::Unrecorded;

use std::time::Duration;

use crate::endpoint::EndpointHash;
use crate::identity::{DeliveryKey, SubscriptionId, Turn};
use crate::label::labels;
use crate::outcome::{NotSent, Response};
use crate::reason::Reason;
use crate::retry_after;
use crate::time::Timestamp;

/// A place among the claims of an invocation: no two of one lease token have the same.
pub type Place = u32;

/// How long an entry outlives the message that waits for it: the window in which producers' duplicates are recognised.
pub const DEDUPE_WINDOW: Duration = Duration::from_secs(15 * 86_400);

/// The fingerprint of an entry whose message no worker has seen. No HMAC is all zeros.
const NO_CONTENT: &str = "hmac:none:0000000000000000000000000000000000000000000000000000000000000000";

/// The lease token of an entry that no worker has claimed.
const NO_LEASE: &str = "unclaimed";

fn no_content() -> EndpointHash {
    EndpointHash::parse(NO_CONTENT).expect("invariant: it has the form of a hash")
}

/// Whether a fingerprint is that of a content.
pub fn is_of_content(fingerprint: &EndpointHash) -> bool {
    fingerprint.as_str() != NO_CONTENT
}

pub fn expires_at(now: Timestamp, not_before: Option<Timestamp>) -> Timestamp {
    not_before.map_or(now, |at| at.max(now)).plus(DEDUPE_WINDOW)
}

/// What the ledger holds of a delivery. Never an endpoint, a key or a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: DeliveryKey,
    pub state: State,
    pub turn: Turn,
    pub fingerprint: EndpointHash,
    pub lease_token: String,
    /// The end of the time that this invocation is given.
    pub lease_until: Timestamp,
    /// The SQS message that the last claim was made for.
    pub source_message: String,
    /// Which one of its invocation's claims that was, if a batch may list it.
    pub place: Option<Place>,
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
    /// What has held it back until then, if something did.
    pub held_by: Option<HeldBy>,
    /// Whether some attempt may have arrived without our knowing.
    pub in_doubt: bool,
    pub given: Given,
    pub created_at: Timestamp,
    /// When its first attempt was dispatched; see [`claim::dispatched_at`].
    pub dispatched_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    /// When it is forgotten: after this it counts as absent, although its row may still be there.
    pub expires_at: Timestamp,
}

impl Entry {
    /// One that no worker has claimed, of which no more is known than this.
    pub fn unclaimed(
        key: DeliveryKey,
        state: State,
        turn: Turn,
        fingerprint: EndpointHash,
        now: Timestamp,
    ) -> Self {
        Self {
            key,
            state,
            turn,
            fingerprint,
            lease_token: NO_LEASE.to_owned(),
            lease_until: Timestamp::default(),
            source_message: String::new(),
            place: None,
            endpoint_hash: None,
            subscription: None,
            status: None,
            reason: None,
            not_sent: None,
            provider_word: None,
            not_before: None,
            held_by: None,
            in_doubt: false,
            given: Given::default(),
            created_at: now,
            dispatched_at: None,
            updated_at: now,
            expires_at: expires_at(now, None),
        }
    }

    /// Whether it counts as absent: DynamoDB deletes what has expired late, or never.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether a message of the delivery has been seen, and its content is that of the entry. Else it was cancelled before.
    pub fn is_known(&self) -> bool {
        is_of_content(&self.fingerprint)
    }

    /// Whether a message of the delivery has met its cancellation.
    fn is_met(&self) -> bool {
        !self.source_message.is_empty()
    }

    /// Whether a message of its next attempt has been seen since its last one was recorded: it noted that it is held back, which only
    /// that message can. So the retry was handed off.
    fn is_known_to_go_on(&self) -> bool {
        self.state == State::Retrying && self.held_by.is_some()
    }

    /// Whether its message may have to go to its queue once more: no worker is known to have had it, or to have announced its
    /// cancellation.
    pub fn awaits_its_message(&self) -> bool {
        self.state == State::Queued || (self.state == State::Cancelled && !self.is_met())
    }

    /// What this record of its attempt makes of it, but for its expiry.
    pub fn take(&mut self, record: &Record) {
        self.state = record.state;
        self.status = record.status;
        self.reason = record.reason;
        self.not_sent = record.not_sent;
        self.provider_word.clone_from(&record.provider_word);
        self.not_before = record.not_before;
        self.held_by = None;
        self.in_doubt |= record.in_doubt;
        self.updated_at = record.now;
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub key: DeliveryKey,
    pub turn: Turn,
    /// The token of the claim that the attempt was made under; another's claim fences this record off.
    pub lease_token: String,
    /// The place of that claim in its invocation's batch; none for a record that is always written by itself.
    pub place: Option<Place>,
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
    pub fn expires_at(&self) -> Timestamp {
        let usual = expires_at(self.now, self.not_before);
        self.kept_until.map_or(usual, |until| until.max(usual))
    }

    /// Whether the entry has this outcome: it was written, the answer was lost, and it is tried again.
    pub fn is_written(&self, entry: &Entry) -> bool {
        entry.lease_token == self.lease_token && entry.turn == self.turn && entry.state == self.state
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    Held,
    /// Another worker holds the attempt: the outcome is dropped, and nothing is handed off.
    Lost,
}

labels! {
    /// What holds a delivery back before an attempt.
    pub enum HeldBy {
        /// Its own `deliver_at`.
        Schedule = "schedule",
        /// Its hours, `deliver_between`: outside of them it is not sent.
        Hours = "hours",
        /// Its origin's breaker: it waits in the origin's line.
        Origin = "origin",
        /// The protection of its receiver otherwise: a breaker that it is to ask again soon, a limit, a pace, or a budget.
        Protection = "protection",
    }
}

labels! {
    pub enum State {
        /// Accepted, not yet attempted.
        Queued = "queued",
        /// An attempt is being made, or was being made when its worker died.
        Sending = "sending",
        Sent = "sent",
        /// Failed, and waiting for its next attempt.
        Retrying = "retrying",
        Deferred = "deferred",
        Gone = "gone",
        Expired = "expired",
        /// Failed for good: a dead letter.
        Failed = "failed",
        /// Failed for good under a policy without retries: no dead letter.
        FailedNoRetries = "failed_no_retries",
        /// A caller cancelled it while it waited.
        Cancelled = "cancelled",
        /// A message to an audience: handed on to the deliveries of its recipients.
        Expanded = "expanded",
    }
}

impl State {
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Sending | Self::Retrying | Self::Deferred)
    }

    /// Whether a delivery may move from this state to `next` within one lineage.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            // Sending again: the lease of the first worker ran out. Queued: its worker gave the claim back.
            Self::Sending => true,
            // A delivery can end without an attempt: its TTL is over, its subscription is off.
            Self::Queued | Self::Retrying | Self::Deferred => !matches!(next, Self::Queued | Self::Retrying),
            Self::Sent
            | Self::Gone
            | Self::Expired
            | Self::Failed
            | Self::FailedNoRetries
            | Self::Cancelled
            | Self::Expanded => false,
        }
    }
}

/// The longest value of a header that is kept, in bytes.
const MAX_HEADER: usize = 64;

/// The headers that show an operator what the provider decided. Each has one form, and no value of another form is kept, because a
/// service may write the endpoint's token in any of them.
pub fn kept_headers(response: &Response) -> Vec<(String, String)> {
    let is_kept = |(name, value): &&(String, String)| {
        let has_form = match name.as_str() {
            "retry-after" => retry_after::parse(value, response.at).is_some(),
            "ttl" => value.bytes().all(|b| b.is_ascii_digit()),
            "apns-id" => is_uuid(value),
            "x-wns-status" | "x-wns-notificationstatus" => value.bytes().all(|b| b.is_ascii_alphabetic()),
            _ => false,
        };
        has_form && (1..=MAX_HEADER).contains(&value.len())
    };
    response.headers.iter().filter(is_kept).cloned().collect()
}

fn is_uuid(text: &str) -> bool {
    let is_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| if is_hyphen(at) { b == b'-' } else { b.is_ascii_hexdigit() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, response};

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

    #[test]
    fn only_a_state_that_is_not_terminal_can_be_claimed_and_ended() {
        for from in State::ALL {
            for to in State::ALL.into_iter().filter(|_| from.is_terminal()) {
                assert!(!from.may_become(to), "{from:?} to {to:?}");
            }
            for to in [State::Sending, State::Expired] {
                assert_eq!(from.may_become(to), !from.is_terminal(), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_few_headers_are_kept_each_in_its_one_form() {
        let kept = |headers: &[(&str, &str)]| kept_headers(&response(200, headers, ""));
        let good = [
            ("retry-after", "Sat, 21 Nov 2026 10:05:00 GMT"),
            ("retry-after", "120"),
            ("ttl", "60"),
            ("apns-id", "8d2f9c3a-1b7e-4c5d-9a6f-0e1d2c3b4a59"),
            ("x-wns-status", "appthrottled"),
            ("x-wns-notificationstatus", "dropped"),
        ];
        assert_eq!(kept(&good).len(), good.len());

        let token = "gAAAAABmQ2-endpoint.token";
        let others = [token, "https://push.example/secret", "", &"1".repeat(65), &format!("120 {token}")];
        for name in Response::KEPT_HEADERS {
            for value in others {
                assert_eq!(kept(&[(name, value)]), [], "{name}: {value}");
            }
        }
        assert_eq!(kept(&[("x-wns-error-description", "dropped"), ("location", "60")]), []);
    }
}
