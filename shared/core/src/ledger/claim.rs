//! Which worker may make an attempt.
//!
//! A worker that holds a message asks for its lineage and attempt. [`judge`] compares that with the stored entry and decides whether
//! the worker claims the attempt, waits, repeats a hand-off that a crash may have lost, or drops a message that is no longer
//! needed. A claim is a compare-and-swap on the entry that was judged, so a
//! change in between makes the claim fail and be judged again. `ApproximateReceiveCount` plays no part in it.

use super::{Entry, State};
use crate::endpoint::EndpointHash;
use crate::identity::{Attempt, DeliveryKey, IdSource, Turn};
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub key: DeliveryKey,
    pub turn: Turn,
    /// The worker's own token, new for each invocation.
    pub lease_token: String,
    pub lease_until: Timestamp,
    pub source_message: String,
    pub fingerprint: EndpointHash,
    /// Where the id comes from: only a producer's own id can conflict.
    pub id_source: IdSource,
    /// The state that the claim writes: `sending`, or the end of a delivery that ends without an attempt.
    pub state: State,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// In doubt if an earlier worker may have sent it without recording so: its lease ran out in the middle of the attempt.
    Claim { in_doubt: bool },
    /// This invocation holds the claim: the answer was lost, not the claim.
    Mine,
    /// This message's attempt was made and recorded, and its hand-off may be lost: hand its outcome off again, and send nothing.
    HandOffAgain,
    /// Another worker is making the attempt.
    Leased { until: Timestamp },
    /// Another worker made the attempt, or a later one: nothing is left to do.
    Done,
    /// Its id was used for another content.
    Conflict,
    /// It was cancelled, and this is the first message that meets that, or the first of a later attempt: it announces the end.
    Cancelled,
}

impl Judgement {
    /// Whether this attempt is not made any more, by any worker.
    pub const fn is_over(&self) -> bool {
        match self {
            Self::HandOffAgain | Self::Done | Self::Conflict | Self::Cancelled => true,
            Self::Claim { .. } | Self::Mine | Self::Leased { .. } => false,
        }
    }
}

pub fn judge(stored: &Entry, ask: &Ask, now: Timestamp) -> Judgement {
    if is_mine(stored, ask) {
        return Judgement::Mine;
    }
    if conflicts(stored, &ask.fingerprint, ask.id_source) {
        return Judgement::Conflict;
    }
    if stored.state == State::Cancelled {
        return judge_cancelled(stored, ask);
    }
    if stored.turn.lineage < ask.turn.lineage {
        return Judgement::Claim { in_doubt: false };
    }
    if stored.turn.lineage > ask.turn.lineage || stored.turn.attempt > ask.turn.attempt {
        return Judgement::Done;
    }
    let same_attempt = stored.turn.attempt == ask.turn.attempt;
    match stored.state {
        // Given back by a worker whose handling of it panicked: it may have been sent before.
        State::Queued | State::Deferred => Judgement::Claim { in_doubt: same_attempt && stored.in_doubt },
        State::Sending | State::Retrying if !same_attempt => Judgement::Claim { in_doubt: false },
        State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: true },
        State::Sending => Judgement::Leased { until: stored.lease_until },
        State::Retrying
        | State::Sent
        | State::Gone
        | State::Expired
        | State::Failed
        | State::FailedNoRetries
        | State::Cancelled
        | State::Expanded => {
            if same_attempt && stored.source_message == ask.source_message && !stored.is_known_to_go_on() {
                Judgement::HandOffAgain
            } else {
                Judgement::Done
            }
        }
    }
}

/// A cancellation holds for every message of the delivery, those of replays too.
fn judge_cancelled(stored: &Entry, ask: &Ask) -> Judgement {
    let (met, own) = (stored.turn, ask.turn);
    // Another worker may have handed this attempt off and acknowledged the message that met it, before that could announce the end.
    let is_later = met.lineage == own.lineage && met.attempt < own.attempt;
    if !stored.is_met() || is_later {
        Judgement::Cancelled
    } else if stored.source_message == ask.source_message {
        Judgement::HandOffAgain
    } else {
        Judgement::Done
    }
}

/// The entry of a cancelled delivery once this claim's message has met it. What no worker had seen before is known from then on.
pub fn met(stored: Entry, ask: &Ask) -> Entry {
    Entry {
        turn: stored.turn.max(ask.turn),
        fingerprint: ask.fingerprint.clone(),
        source_message: ask.source_message.clone(),
        ..stored
    }
}

/// When the first attempt of a delivery was dispatched, once this claim is granted: by it, if it is the first that goes out to send.
/// Claims of later attempts and of replays change nothing, and neither does one that ends the delivery without an attempt. A claim
/// that was given back, with nothing sent, was none.
pub fn dispatched_at(stored: Option<&Entry>, ask: &Ask, now: Timestamp) -> Option<Timestamp> {
    let was_given_back = |entry: &&Entry| {
        entry.turn == Turn::default()
            && matches!(entry.state, State::Queued | State::Deferred)
            && !entry.in_doubt
    };
    let before = stored.filter(|entry| !was_given_back(entry)).and_then(|entry| entry.dispatched_at);
    let is_first = ask.state == State::Sending && ask.turn.attempt == Attempt::FIRST;
    before.or_else(|| is_first.then_some(now))
}

/// Whether the entry is exactly what the claim writes. Another message of the same invocation has the same token, and a later record
/// has another state: neither may send.
fn is_mine(stored: &Entry, ask: &Ask) -> bool {
    stored.lease_token == ask.lease_token
        && stored.turn == ask.turn
        && stored.source_message == ask.source_message
        && stored.state == ask.state
}

/// Whether an id was used for another content than the stored one. Only a producer's own id can be. Fingerprints under different keys
/// cannot be compared: those are taken for the same content. A delivery that was cancelled before a worker saw its message has none.
pub fn conflicts(stored: &Entry, fingerprint: &EndpointHash, id_source: IdSource) -> bool {
    id_source == IdSource::Producer
        && stored.fingerprint.key_id() == fingerprint.key_id()
        && stored.fingerprint != *fingerprint
        && stored.is_known()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::HashKeys;
    use crate::fixtures::{self, delivery, hash_keys};
    use crate::identity::{Attempt, Lineage};
    use crate::ledger::{HeldBy, cancel};

    fn print(content: &str) -> EndpointHash {
        hash_keys().fingerprint(content.as_bytes())
    }

    fn now() -> Timestamp {
        Timestamp::from_secs(1_000_000)
    }

    fn turn(lineage: u32, attempt: u32) -> Turn {
        Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) }
    }

    fn ask(at: Turn, source: &str) -> Ask {
        Ask {
            key: delivery("d1"),
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
        let lease_until = Timestamp::from_secs(1_000_000 + lease_secs);
        let (turn, source_message) = (at, source.to_owned());
        Entry { state, turn, lease_until, source_message, ..fixtures::entry(now()) }
    }

    #[test]
    fn every_state_attempt_message_and_lease_has_its_judgement() {
        const CLAIM: Judgement = Judgement::Claim { in_doubt: false };
        for state in State::ALL {
            for (lineage, attempt) in [(0, 1), (1, 0), (1, 1), (1, 2), (2, 0)] {
                for source in ["a", "b"] {
                    for lease in [-1, 0, 10] {
                        let stored = entry(state, turn(lineage, attempt), source, lease);
                        let seen = judge(&stored, &ask(turn(1, 1), "a"), now());
                        let expected = match (lineage, attempt, state, source) {
                            (1, 0, State::Cancelled, _) => Judgement::Cancelled,
                            (_, _, State::Cancelled, "a") => Judgement::HandOffAgain,
                            (_, _, State::Cancelled, _) => Judgement::Done,
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

    /// Each copy of an attempt's message would hand its retry off once more, and each of those becomes copies of the next attempt.
    #[test]
    fn a_retry_that_was_seen_waiting_is_not_handed_off_again() {
        for (state, held_by, expected) in [
            (State::Retrying, None, Judgement::HandOffAgain),
            (State::Retrying, Some(HeldBy::Origin), Judgement::Done),
            (State::Failed, Some(HeldBy::Origin), Judgement::HandOffAgain),
        ] {
            let stored = Entry { held_by, ..entry(state, turn(0, 1), "a", -1) };
            assert_eq!(judge(&stored, &ask(turn(0, 1), "a"), now()), expected, "{state} {held_by:?}");
        }
    }

    #[test]
    fn the_first_claim_that_goes_out_to_send_is_the_dispatch() {
        let before = Timestamp::from_secs(900_000);
        let stored = |state, at, in_doubt, dispatched_at| Entry {
            in_doubt,
            dispatched_at,
            ..entry(state, at, "a", -1)
        };
        let to_send = |at| ask(at, "a");
        let to_end = Ask { state: State::Expired, ..to_send(turn(0, 0)) };
        let known = Some(before);
        for (stored, ask, expected) in [
            (None, to_send(turn(0, 0)), Some(now())),
            (None, to_end.clone(), None),
            (Some(stored(State::Queued, turn(0, 0), false, None)), to_send(turn(0, 0)), Some(now())),
            (Some(stored(State::Deferred, turn(0, 0), false, None)), to_end, None),
            // Given back, with nothing sent; and by a worker whose attempt may have arrived.
            (Some(stored(State::Queued, turn(0, 0), false, known)), to_send(turn(0, 0)), Some(now())),
            (Some(stored(State::Queued, turn(0, 0), true, known)), to_send(turn(0, 0)), known),
            (Some(stored(State::Sending, turn(0, 0), false, known)), to_send(turn(0, 0)), known),
            (Some(stored(State::Retrying, turn(0, 0), false, known)), to_send(turn(0, 1)), known),
            (Some(stored(State::Queued, turn(0, 1), false, known)), to_send(turn(0, 1)), known),
            (Some(stored(State::Failed, turn(0, 5), false, known)), to_send(turn(1, 0)), known),
            // Of a release that did not write it.
            (Some(stored(State::Retrying, turn(0, 0), false, None)), to_send(turn(0, 1)), None),
        ] {
            assert_eq!(dispatched_at(stored.as_ref(), &ask, now()), expected, "{stored:?} {ask:?}");
        }
    }

    #[test]
    fn the_first_message_of_any_turn_meets_a_cancellation() {
        let unmet = entry(State::Cancelled, turn(1, 1), "", -1);
        for (lineage, attempt) in [(0, 0), (1, 1), (1, 2), (2, 0)] {
            let ask = ask(turn(lineage, attempt), "a");
            assert_eq!(judge(&unmet, &ask, now()), Judgement::Cancelled);
            let met = met(unmet.clone(), &ask);
            assert_eq!(met.turn, unmet.turn.max(ask.turn));
            assert_eq!(judge(&met, &ask, now()), Judgement::HandOffAgain, "its acknowledgement was lost");
            assert_eq!(judge(&met, &self::ask(ask.turn, "b"), now()), Judgement::Done, "a copy");
        }
    }

    #[test]
    fn a_delivery_that_was_cancelled_unseen_takes_the_content_of_its_message() {
        let unknown = cancel::unknown(delivery("d1"), now());
        let ask = ask(turn(0, 0), "a");
        assert_eq!(judge(&unknown, &ask, now()), Judgement::Cancelled);
        let met = met(unknown, &ask);
        assert!(met.is_known());
        let other = Ask { fingerprint: print("another content"), ..self::ask(turn(0, 0), "b") };
        assert_eq!(judge(&met, &other, now()), Judgement::Conflict);
        // A key of hashes may have the name that stands for no content.
        let keys = HashKeys::parse("none:0123456789abcdef").expect("valid");
        let fingerprint = keys.fingerprint(b"content");
        assert!(!conflicts(&cancel::unknown(delivery("d1"), now()), &fingerprint, IdSource::Producer));
    }

    #[test]
    fn a_lease_token_grants_only_the_claim_that_it_wrote() {
        let until = Timestamp::from_secs(1_000_040);
        for (state, asked, source, expected) in [
            (State::Sending, State::Sending, "a", Judgement::Mine),
            (State::Sending, State::Sending, "b", Judgement::Leased { until }),
            (State::Sent, State::Sending, "a", Judgement::HandOffAgain),
            (State::Sent, State::Sending, "b", Judgement::Done),
            (State::Expired, State::Expired, "a", Judgement::Mine),
        ] {
            let stored = Entry { lease_token: "mine".to_owned(), ..entry(state, turn(0, 0), "a", 40) };
            let ask = Ask { state: asked, ..ask(turn(0, 0), source) };
            assert_eq!(judge(&stored, &ask, now()), expected, "{state}, {source}");
        }
    }

    #[test]
    fn the_same_id_with_another_content_is_a_conflict_in_any_state() {
        for state in State::ALL {
            let fingerprint = print("another content");
            let stored = Entry { fingerprint, ..entry(state, turn(0, 0), "a", 10) };
            assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Conflict, "{state}");
            let same_key = Ask { id_source: IdSource::IdempotencyKey, ..ask(turn(0, 0), "b") };
            assert_ne!(judge(&stored, &same_key, now()), Judgement::Conflict, "{state}");
        }
        // Fingerprints of another key are not compared.
        let fingerprint = HashKeys::parse("k0:0123456789abcdef").expect("valid").fingerprint(b"other");
        let stored = Entry { fingerprint, ..entry(State::Sent, turn(0, 0), "a", 10) };
        assert_eq!(judge(&stored, &ask(turn(0, 0), "b"), now()), Judgement::Done);
    }
}
