//! Only what crashes workers comes to the quarantine, and only what its delivery still needs is kept there.

use std::time::Duration;

use redial_core::dead_letter::Reference;
use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_core::ledger::State;
use redial_core::message::QueueKind;
use redial_core::time::Ttl;

use crate::pass::{Pass, carried, read};
use crate::situations::Situation;
use crate::sqs::Stored;
use crate::watch::Memo;

/// How soon cleanup reads what the ledger has of a message that it takes out of the quarantine.
const READ_WITHIN: Duration = Duration::from_secs(60);

impl Memo {
    /// A message that SQS takes out of its queue.
    pub(crate) fn redrives(&mut self, stored: &Stored) {
        let message = read(stored, QueueKind::Retry).or_else(|| read(stored, QueueKind::Ingest));
        // The invocation that could not send it again may not be over.
        let fails_to_send = |pass: &Pass| pass.has_failed_to_send && pass.held.contains_key(&stored.id);
        let has_crashed = stored.has_crashed || self.passes.values().any(fails_to_send);
        let Some((message, _)) = message.filter(|_| !has_crashed) else { return };
        // With a TTL of 0 there is no other message in its place.
        if message.ttl != Some(Ttl::ZERO) {
            let key = message.key();
            self.violated(format!("{} of {key} was redriven, and no worker crashed over it", stored.id));
        }
    }

    /// A message that cleanup takes out of the quarantine.
    pub(crate) fn drains(&mut self, stored: &Stored, ledger: &redial_memory::State) {
        let message = read(stored, QueueKind::Retry).or_else(|| read(stored, QueueKind::Ingest));
        let Some((message, travel)) = message else { return };
        let key = message.key();
        let letter = format!("poison-{}", stored.id);
        // What the ledger forgets before cleanup reads it may be of an id that is used again.
        let read_by = ledger.now.plus(READ_WITHIN);
        let Some(entry) = ledger.ledger.get(&key).filter(|entry| entry.expires_at > read_by) else {
            self.needed.insert(letter);
            return;
        };
        let own = carried(&travel).filter(|(token, _)| {
            entry.state == State::Sending && entry.turn == travel.turn && entry.lease_token == *token
        });
        let state = own.as_ref().map_or(entry.state, |(_, state)| *state);
        if state != entry.state && state.is_terminal() {
            self.carried_ends.insert((key.clone(), state));
        }
        // What has ended, and what goes on by a hand-off of what the ledger has.
        let is_over = matches!(
            state,
            State::Sent | State::Expired | State::FailedNoRetries | State::Cancelled | State::Retrying
        );
        let is_needed = entry.turn < travel.turn || (entry.turn == travel.turn && !is_over);
        if entry.turn == travel.turn && state == State::Retrying {
            self.situations.saw(Situation::HandedOffByQuarantine);
        }
        if is_needed {
            // Another worker may see later that it is not, while this one keeps it. And what carries an outcome that could not be
            // recorded is needed once another worker has taken the attempt over.
            self.needless.remove(&letter);
            self.needed.insert(letter);
        } else if !self.needed.contains(&letter) {
            self.needless.insert(letter, own.map(|(token, _)| token.to_owned()));
        }
    }

    /// A message that cleanup takes out of the quarantine and cannot read, because another release wrote it: a raw body does not stay in a
    /// queue, and what its delivery has come to is not known there.
    pub(crate) fn drains_unread(&mut self, stored: &Stored) {
        let letter = format!("poison-{}", stored.id);
        self.needless.remove(&letter);
        self.needed.insert(letter);
    }

    /// A dead letter that cleanup has described.
    pub(crate) fn describes(&mut self, reference: &Reference, ledger: &redial_memory::State) {
        let letter = reference.letter.as_str();
        let of = Tenant::parse(&reference.tenant).zip(DeliveryId::parse(&reference.id));
        let key = of.map(|(tenant, id)| DeliveryKey { tenant, id });
        let entry = key.as_ref().and_then(|key| ledger.ledger.get(key));
        // By the time that it is announced, an operator may have sent it again.
        if let Some(key) = key.filter(|_| letter.starts_with("poison-"))
            && entry.as_ref().is_some_and(|entry| entry.state == State::Failed)
        {
            self.ended.insert((key, State::Failed));
        }
        // An outcome that a message carries cannot be recorded any more if another worker takes the attempt over after the message was
        // received.
        let own_end = letter.replacen("poison-", "quarantine#", 1);
        let is_of = |token: &String| {
            entry.as_ref().is_none_or(|entry| entry.lease_token == *token || entry.lease_token == own_end)
        };
        if self.needless.remove(letter).is_some_and(|carried| carried.as_ref().is_none_or(is_of)) {
            self.violated(format!("{letter} was kept, although its delivery had gone on without it"));
        }
    }
}
