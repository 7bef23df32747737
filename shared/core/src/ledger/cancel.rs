//! Cancelling a delivery: whether it may end as `cancelled`.
//!
//! A cancellation is a conditional write on the version of the entry that was judged here, so it competes with claims and records, and
//! one of them wins. A delivery is cancelled while it waits: for its first attempt, for its time, or for a retry. While a worker makes an
//! attempt it is not. If that worker's lease has run out, its record is fenced off by the cancellation, and the attempt may have arrived:
//! the cancellation says so ([`Cancelled::in_doubt`]).
//!
//! No worker looks for the message where it waits. When it is received next, its claim meets the entry ([`super::Judgement::Cancelled`]); it
//! is announced and acknowledged. So the entry has to outlive every message of its delivery (`expires_at`), and it holds for all
//! lineages: a replay of a cancelled delivery is not sent.
//!
//! A message that was sent straight to its queue may be cancelled before any worker has seen it. Its entry is made by the cancellation
//! ([`unknown`]), with a fingerprint that is no content's.

use super::{DEDUPE_WINDOW, Entry, State, batch, no_content};
use crate::identity::{DeliveryKey, Turn};
use crate::reason::Reason;
use crate::time::{Timestamp, Ttl};
use crate::wait::MAX_WAIT;

/// What a request to cancel a delivery comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancellation {
    /// It is cancelled, by this request or by an earlier one.
    Cancelled(Cancelled),
    /// A worker makes an attempt, until then at the latest if that is known. Nothing was changed.
    BeingAttempted { until: Option<Timestamp> },
    /// It has ended. Nothing was changed.
    Ended(State),
    /// It is to a recipient of an audience that is sent to with others. Nothing was changed.
    OnPage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled {
    pub at: Timestamp,
    /// An attempt was made before whose outcome is not known: it may have arrived.
    pub in_doubt: bool,
    /// Whether a message of the delivery has been seen.
    pub is_known: bool,
}

/// What to do about a delivery that is to be cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// This takes the place of exactly the entry that was judged.
    Write(Box<Entry>),
    Answer(Cancellation),
}

/// Decides by the entry as its batch resolves it. The batch of an attempt whose lease has run out is closed before.
pub fn decide(stored: Entry, now: Timestamp) -> Decision {
    match stored.state {
        State::Sending if now < stored.lease_until => {
            Decision::Answer(Cancellation::BeingAttempted { until: Some(stored.lease_until) })
        }
        State::Sending | State::Queued | State::Deferred | State::Retrying => {
            let may_have_arrived = stored.in_doubt || stored.state == State::Sending;
            Decision::Write(Box::new(Entry {
                state: State::Cancelled,
                reason: Some(Reason::Cancelled),
                source_message: String::new(),
                not_before: None,
                held_by: None,
                in_doubt: may_have_arrived,
                updated_at: now,
                expires_at: expires_at(now).max(stored.expires_at),
                ..stored
            }))
        }
        State::Cancelled => Decision::Answer(of(&stored)),
        State::Sent
        | State::Gone
        | State::Expired
        | State::Failed
        | State::FailedNoRetries
        | State::Expanded => Decision::Answer(Cancellation::Ended(stored.state)),
    }
}

/// Whether a batch may list this attempt, whose lease has run out: it is closed before anything is decided.
pub fn to_close(stored: &Entry, now: Timestamp) -> bool {
    batch::may_be_listed(stored) && stored.lease_until <= now
}

/// The entry of a delivery that is cancelled before any worker has seen its message.
pub fn unknown(key: DeliveryKey, now: Timestamp) -> Entry {
    Entry {
        reason: Some(Reason::Cancelled),
        expires_at: expires_at(now),
        ..Entry::unclaimed(key, State::Cancelled, Turn::default(), no_content(), now)
    }
}

/// The answer that a cancelled entry gives.
pub fn of(entry: &Entry) -> Cancellation {
    let (at, in_doubt) = (entry.updated_at, entry.in_doubt);
    Cancellation::Cancelled(Cancelled { at, in_doubt, is_known: entry.is_known() })
}

/// A message may be on its way for as long as it may be scheduled ahead and its TTL lasts after that.
fn expires_at(now: Timestamp) -> Timestamp {
    now.plus(MAX_WAIT + Ttl::MAX_WEBHOOK.duration() + DEDUPE_WINDOW)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixtures::{self, delivery};

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn entry(state: State, lease_secs: i64) -> Entry {
        let lease_until = Timestamp::from_secs(1_800_000_000 + lease_secs);
        Entry { state, lease_until, ..fixtures::entry(now()) }
    }

    #[test]
    fn what_waits_is_cancelled_and_what_is_attempted_or_over_is_not() {
        for state in State::ALL {
            for lease in [-1, 0, 10] {
                let decided = decide(entry(state, lease), now());
                let is_attempted = state == State::Sending && lease > 0;
                match decided {
                    Decision::Write(entry) => {
                        assert!(!state.is_terminal() && !is_attempted, "{state}");
                        assert!(state.may_become(State::Cancelled), "{state}");
                        assert_eq!((entry.state, entry.updated_at), (State::Cancelled, now()));
                        assert_eq!(entry.in_doubt, state == State::Sending, "{state}");
                        assert!(entry.awaits_its_message() && entry.is_known());
                        let again = decide((*entry).clone(), now().plus(Duration::from_secs(9)));
                        assert_eq!(
                            again,
                            Decision::Answer(of(&entry)),
                            "a second request has the same answer"
                        );
                    }
                    Decision::Answer(Cancellation::BeingAttempted { until }) => {
                        assert!(is_attempted, "{state}");
                        assert_eq!(until, Some(now().plus(Duration::from_secs(10))));
                    }
                    Decision::Answer(Cancellation::Ended(end)) => {
                        assert!(end == state && state.is_terminal(), "{state}");
                    }
                    Decision::Answer(Cancellation::Cancelled(_)) => assert_eq!(state, State::Cancelled),
                    Decision::Answer(Cancellation::OnPage) => panic!("the ledger knows no pages"),
                }
            }
        }
    }

    #[test]
    fn a_doubt_about_an_earlier_attempt_stays() {
        let doubtful = Entry { in_doubt: true, ..entry(State::Retrying, 0) };
        let Decision::Write(entry) = decide(doubtful, now()) else { panic!("it waits") };
        let Cancellation::Cancelled(cancelled) = of(&entry) else { panic!("it is cancelled") };
        assert!(cancelled.in_doubt);
    }

    #[test]
    fn an_entry_without_a_message_outlives_every_message_that_may_be_on_its_way() {
        let entry = unknown(delivery("d1"), now());
        assert!(!entry.is_known() && entry.awaits_its_message());
        let latest = now().plus(MAX_WAIT).plus(Ttl::MAX_WEBHOOK.duration());
        assert!(entry.expires_at > latest);
        let long = Entry {
            expires_at: entry.expires_at.plus(Duration::from_secs(1)),
            ..self::entry(State::Queued, 0)
        };
        let Decision::Write(kept) = decide(long.clone(), now()) else { panic!("it waits") };
        assert_eq!(kept.expires_at, long.expires_at, "it is never forgotten earlier");
    }
}
