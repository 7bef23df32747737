//! Who may make an attempt: the one place that decides it.
//!
//! A worker that holds a message asks for its lineage and attempt. [`judge`] compares that with what is stored and says
//! whether it may claim, must stand back, repeats a hand-off that a crash may have swallowed, or drops a message that
//! is of no use any more. The answer to claim is carried out by comparing and swapping on the entry that was judged, so a
//! change in between makes the claim fail and be judged anew. `ApproximateReceiveCount` plays no part in it.

use super::{Entry, State};
use crate::endpoint::EndpointHash;
use crate::identity::{DeliveryKey, Turn};
use crate::message::IdSource;
use crate::time::Timestamp;

/// What a worker asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Which delivery.
    pub key: DeliveryKey,
    /// Which attempt of it.
    pub turn: Turn,
    /// The worker's own token, new for each invocation.
    pub lease_token: String,
    /// Until when the worker is given time.
    pub lease_until: Timestamp,
    /// The SQS message that it holds.
    pub source_message: String,
    /// What it would deliver to whom.
    pub fingerprint: EndpointHash,
    /// Where the id comes from: only a producer's own id can conflict.
    pub id_source: IdSource,
    /// The state that the claim writes: `sending`, or the end of a delivery that ends without an attempt.
    pub state: State,
}

/// What an entry says to an ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The attempt may be claimed over this entry.
    Claim {
        /// An earlier worker may have sent it without recording so: its lease ran out in the middle of the attempt.
        in_doubt: bool,
    },
    /// It is this invocation's already: the claim's answer was lost on its way, not the claim.
    Mine,
    /// This very message's attempt was made and recorded: hand its outcome off once more, and send nothing.
    HandOffAgain,
    /// Another worker is at it.
    Leased {
        /// Until when.
        until: Timestamp,
    },
    /// The attempt was made by someone else, or belongs to the past: nothing is left to do.
    Done,
    /// The id was used for another content.
    Conflict,
}

/// Judges an ask against the entry that is stored.
pub fn judge(stored: &Entry, ask: &Ask, now: Timestamp) -> Judgement {
    if is_mine(stored, ask) {
        return Judgement::Mine;
    }
    if conflicts(stored, ask) {
        return Judgement::Conflict;
    }
    if stored.turn.lineage < ask.turn.lineage {
        return Judgement::Claim { in_doubt: false };
    }
    if stored.turn.lineage > ask.turn.lineage || stored.turn.attempt > ask.turn.attempt {
        return Judgement::Done;
    }
    let same_attempt = stored.turn.attempt == ask.turn.attempt;
    let same_message = stored.source_message == ask.source_message;
    match stored.state {
        State::Sent
        | State::Gone
        | State::Expired
        | State::Failed
        | State::FailedNoRetries
        | State::Expanded => {
            if same_attempt && same_message {
                Judgement::HandOffAgain
            } else {
                Judgement::Done
            }
        }
        // Given back by a worker whose handling of it panicked: it may have been sent before.
        State::Queued | State::Deferred => Judgement::Claim { in_doubt: same_attempt && stored.in_doubt },
        State::Sending if !same_attempt => Judgement::Claim { in_doubt: false },
        State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: true },
        State::Sending => Judgement::Leased { until: stored.lease_until },
        State::Retrying if !same_attempt => Judgement::Claim { in_doubt: false },
        State::Retrying if same_message => Judgement::HandOffAgain,
        State::Retrying => Judgement::Done,
    }
}

/// Whether the entry is exactly what the claim writes. Another message of the same invocation has the same token, and what was recorded
/// since has another state: neither may send.
fn is_mine(stored: &Entry, ask: &Ask) -> bool {
    stored.lease_token == ask.lease_token
        && stored.turn == ask.turn
        && stored.source_message == ask.source_message
        && stored.state == ask.state
}

/// Fingerprints under different keys cannot be compared: then the benefit of the doubt is the producer's.
fn conflicts(stored: &Entry, ask: &Ask) -> bool {
    ask.id_source == IdSource::Producer
        && stored.fingerprint.key_id() == ask.fingerprint.key_id()
        && stored.fingerprint != ask.fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::HashKeys;
    use crate::identity::{Attempt, DeliveryId, Lineage, Tenant};

    fn print(content: &str) -> EndpointHash {
        HashKeys::parse("k1:0123456789abcdef").expect("valid").fingerprint(content.as_bytes())
    }

    fn now() -> Timestamp {
        Timestamp::from_secs(1_000_000)
    }

    fn turn(lineage: u32, attempt: u32) -> Turn {
        Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) }
    }

    fn key() -> DeliveryKey {
        DeliveryKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: DeliveryId::parse("d1").expect("valid"),
        }
    }

    fn ask(at: Turn, source: &str) -> Ask {
        Ask {
            key: key(),
            turn: at,
            lease_token: "mine".to_owned(),
            lease_until: Timestamp::from_secs(1_000_040),
            source_message: source.to_owned(),
            fingerprint: print("content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        }
    }

    fn entry(state: State, at: Turn, source: &str, lease_secs: i64) -> Entry {
        Entry {
            key: key(),
            state,
            turn: at,
            fingerprint: print("content"),
            lease_token: "other".to_owned(),
            lease_until: Timestamp::from_secs(1_000_000 + lease_secs),
            source_message: source.to_owned(),
            endpoint_hash: None,
            subscription: None,
            status: None,
            reason: None,
            not_sent: None,
            provider_word: None,
            not_before: None,
            in_doubt: false,
            created_at: now(),
            updated_at: now(),
            expires_at: crate::ledger::expires_at(now(), None),
        }
    }

    /// The contract, row by row: for every state, stored lineage and attempt, source and lease.
    #[test]
    fn the_whole_table() {
        const CLAIM: Judgement = Judgement::Claim { in_doubt: false };
        for state in State::ALL {
            for (lineage, attempt) in [(0, 1), (1, 0), (1, 1), (1, 2), (2, 0)] {
                for source in ["a", "b"] {
                    for lease in [-1, 0, 10] {
                        let stored = entry(state, turn(lineage, attempt), source, lease);
                        let seen = judge(&stored, &ask(turn(1, 1), "a"), now());
                        let expected = match (lineage, attempt, state, source) {
                            (0, ..) => CLAIM,
                            (2, ..) | (1, 2, ..) => Judgement::Done,
                            (1, 0, state, _) if state.is_terminal() => Judgement::Done,
                            (1, 0, ..) => CLAIM,
                            (_, _, State::Queued | State::Deferred, _) => CLAIM,
                            (_, _, State::Sending, _) if lease <= 0 => Judgement::Claim { in_doubt: true },
                            (_, _, State::Sending, _) => Judgement::Leased { until: stored.lease_until },
                            (_, _, _, "a") => Judgement::HandOffAgain,
                            _ => Judgement::Done,
                        };
                        assert_eq!(seen, expected, "{stored:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_own_write_whose_answer_was_lost_is_recognised() {
        let mut stored = entry(State::Sending, turn(0, 0), "a", 40);
        stored.lease_token = "mine".to_owned();
        assert_eq!(judge(&stored, &ask(turn(0, 0), "a"), now()), Judgement::Mine);
    }

    #[test]
    fn a_token_does_not_grant_what_another_message_or_record_left() {
        let mut stored = entry(State::Sending, turn(0, 0), "a", 40);
        stored.lease_token = "mine".to_owned();
        let until = stored.lease_until;
        assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Leased { until });

        stored.state = State::Sent;
        assert_eq!(judge(&stored, &ask(turn(0, 0), "a"), now()), Judgement::HandOffAgain);
        assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Done);

        stored.state = State::Expired;
        let ends = Ask { state: State::Expired, ..ask(turn(0, 0), "a") };
        assert_eq!(judge(&stored, &ends, now()), Judgement::Mine);
    }

    #[test]
    fn the_same_id_with_another_content_is_a_conflict_in_any_state() {
        for state in State::ALL {
            let mut stored = entry(state, turn(0, 0), "a", 10);
            stored.fingerprint = print("another content");
            assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Conflict);

            let mut same_key = ask(turn(0, 0), "b");
            same_key.id_source = IdSource::IdempotencyKey;
            assert_ne!(judge(&stored, &same_key, now()), Judgement::Conflict);
        }
    }

    #[test]
    fn fingerprints_of_another_key_are_not_compared() {
        let mut stored = entry(State::Sent, turn(0, 0), "a", 10);
        stored.fingerprint = HashKeys::parse("k0:0123456789abcdef").expect("valid").fingerprint(b"other");
        assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Done);
    }
}
