//! What holds a message back before its attempt, for operators to read.
//!
//! A message that is held back has used no attempt, so no claim is made for it. So that it can be found meanwhile, it is noted on its
//! entry: of a delivery that was never attempted, a new entry `deferred`; of one that waits for a retry, the new end of its wait. The
//! note is written only where that changes nothing for who may send: a `deferred` entry is claimed as if it were absent. A message that
//! passes all gates at once is never noted.
//!
//! One thing follows from a note: that a retry waits shows that it was handed off, so copies of the attempt before need not do it again.

use super::{Entry, Given, HeldBy, State, expires_at};
use crate::channel::Channel;
use crate::endpoint::EndpointHash;
use crate::identity::{Attempt, DeliveryKey, IdSource, SubscriptionId, Turn};
use crate::time::Timestamp;

/// A message that is held back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    pub key: DeliveryKey,
    /// Of the attempt that it waits for.
    pub turn: Turn,
    pub by: HeldBy,
    pub until: Timestamp,
    pub fingerprint: EndpointHash,
    pub id_source: IdSource,
    pub source_message: String,
    pub channel: Channel,
    pub endpoint_hash: Option<EndpointHash>,
    pub subscription: Option<SubscriptionId>,
    pub given: Given,
    /// What the entry has to outlast besides the window of duplicates.
    pub kept_until: Option<Timestamp>,
}

impl Hold {
    pub fn expires_at(&self, now: Timestamp) -> Timestamp {
        expires_at(now, Some(self.until)).max(self.kept_until.unwrap_or_default())
    }

    /// The turn and state of an entry that may be noted on: a new one is not needed then.
    pub fn on(&self) -> (Turn, &'static [State]) {
        match self.turn.attempt.0.checked_sub(1) {
            Some(before) => (Turn { attempt: Attempt(before), ..self.turn }, &[State::Retrying]),
            None => (self.turn, &[State::Queued, State::Deferred]),
        }
    }

    /// The content that the entry must be of, where another message of its producer's id may have made it: that one would seem to wait, and
    /// would not be sent when its producer sends it again.
    pub fn content(&self) -> Option<&EndpointHash> {
        (self.makes_an_entry() && self.id_source == IdSource::Producer).then_some(&self.fingerprint)
    }

    /// Whether a delivery without an entry gets one: it was never attempted.
    pub fn makes_an_entry(&self) -> bool {
        self.turn.attempt == Attempt::FIRST
    }

    /// The entry of a delivery that was never attempted.
    pub fn entry(&self, now: Timestamp) -> Entry {
        let (key, fingerprint) = (self.key.clone(), self.fingerprint.clone());
        Entry {
            source_message: self.source_message.clone(),
            endpoint_hash: self.endpoint_hash.clone(),
            subscription: self.subscription.clone(),
            not_before: Some(self.until),
            held_by: Some(self.by),
            given: self.given.clone(),
            expires_at: self.expires_at(now),
            ..Entry::unclaimed(key, State::Deferred, self.turn, fingerprint, now)
        }
    }

    /// The entry with the note; `None` if it is not one that may be noted on.
    pub fn noted(&self, stored: Entry, now: Timestamp) -> Option<Entry> {
        let (turn, states) = self.on();
        let is_another_s = self.content().is_some_and(|content| *content != stored.fingerprint);
        let may_be = stored.turn == turn && states.contains(&stored.state) && !is_another_s;
        let is_first = self.makes_an_entry();
        may_be.then(|| Entry {
            state: if is_first { State::Deferred } else { stored.state },
            updated_at: if is_first { now } else { stored.updated_at },
            not_before: Some(self.until),
            held_by: Some(self.by),
            expires_at: self.expires_at(now).max(stored.expires_at),
            ..stored
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixtures::{self, delivery, hash_keys};
    use crate::identity::Lineage;
    use crate::ledger::{Ask, Judgement, judge};

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn turn(attempt: u32) -> Turn {
        Turn { lineage: Lineage(0), attempt: Attempt(attempt) }
    }

    fn hold(attempt: u32) -> Hold {
        Hold {
            key: delivery("d1"),
            turn: turn(attempt),
            by: HeldBy::Protection,
            until: now().plus(Duration::from_secs(60)),
            fingerprint: hash_keys().fingerprint(b"content"),
            id_source: IdSource::Producer,
            source_message: "m1".to_owned(),
            channel: Channel::WebPush,
            endpoint_hash: None,
            subscription: None,
            given: Given::default(),
            kept_until: None,
        }
    }

    fn ask(attempt: u32) -> Ask {
        Ask {
            key: delivery("d1"),
            turn: turn(attempt),
            lease_token: "mine".to_owned(),
            lease_until: now(),
            source_message: "another".to_owned(),
            fingerprint: hash_keys().fingerprint(b"content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        }
    }

    #[test]
    fn a_note_changes_nothing_for_claims() {
        assert_eq!(judge(&hold(0).entry(now()), &ask(0), now()), Judgement::Claim { in_doubt: false });
        for state in State::ALL {
            for (stored, held) in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 1)] {
                let before = Entry { state, turn: turn(stored), ..fixtures::entry(now()) };
                let Some(after) = hold(held).noted(before.clone(), now()) else { continue };
                for asked in 0..4 {
                    let judged = [&before, &after].map(|entry| judge(entry, &ask(asked), now()));
                    assert_eq!(judged[0], judged[1], "{state} {stored} {held} {asked}");
                }
                assert!(!state.is_terminal() && state != State::Sending, "{state}");
                assert_eq!(
                    (after.not_before, after.held_by),
                    (Some(hold(0).until), Some(HeldBy::Protection))
                );
            }
        }
    }

    /// The API answers for a `queued` entry that its message is to come, and sends it again; for a `deferred` one that it waits.
    #[test]
    fn what_waits_is_not_noted_on_the_entry_of_another_content_of_its_id() {
        let another = Entry {
            state: State::Queued,
            fingerprint: hash_keys().fingerprint(b"another"),
            ..fixtures::entry(now())
        };
        assert_eq!(hold(0).noted(another.clone(), now()), None);
        let derived = Hold { id_source: IdSource::SqsMessageId, ..hold(0) };
        assert!(derived.noted(another, now()).is_some(), "no one else has its id");
        let own = Entry { state: State::Queued, ..hold(0).entry(now()) };
        assert_eq!(hold(0).noted(own, now()).map(|entry| entry.state), Some(State::Deferred));
    }

    #[test]
    fn an_entry_that_is_held_is_never_forgotten_earlier() {
        let long = Entry {
            state: State::Queued,
            expires_at: now().plus(Duration::from_secs(1 << 30)),
            ..fixtures::entry(now())
        };
        assert_eq!(hold(0).noted(long.clone(), now()).expect("it may be").expires_at, long.expires_at);
        let kept_until = Some(now().plus(Duration::from_secs(1 << 30)));
        assert_eq!(Some(Hold { kept_until, ..hold(0) }.entry(now()).expires_at), kept_until);
    }
}
