//! Whenever there is a reference, there is its body, until its time.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Kind, Reference};
use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_core::message::QueueKind;
use redial_core::time::Timestamp;
use redial_memory::State;

use crate::pass::read;
use crate::payload::read_payload;
use crate::scenario::pressure::PARTED;
use crate::sqs::Stored;
use crate::watch::Memo;

/// By how much clocks may be off, and how long a body may be on its way before its reference.
const TOLERANCE: Duration = Duration::from_secs(60);

/// A body that has no TTL is kept for days.
const AT_LEAST: Duration = Duration::from_secs(86_400);

impl Memo {
    /// A reference that is sent to the dead-letter queue, or that the quarantine has described.
    pub(crate) fn refers(&mut self, reference: &Reference, state: &State, now: Timestamp) {
        let (Some(tenant), Some(id)) = (Tenant::parse(&reference.tenant), DeliveryId::parse(&reference.id))
        else {
            return;
        };
        let key = DeliveryKey { tenant, id };
        let Some(promise) = self.promises.get(&key).filter(|_| reference.kind == Kind::Failed).cloned()
        else {
            return;
        };
        // A reference that is sent again later may find what is over.
        if !self.referred.insert(reference.key()) {
            return;
        }
        let letter = &reference.letter;
        let Some(body) = state.bodies.get(&reference.key()) else {
            // What is over is absent, and may be deleted by now; so is what is about a person that was erased.
            if now.plus(TOLERANCE) < promise.earliest_end && state.erased.is_empty() {
                self.violated(format!("{key} has the dead letter {letter}, and no body"));
            }
            return;
        };
        if body.absent_from > promise.until.plus(TOLERANCE) {
            self.violated(format!("{key} has the dead letter {letter}, and its body outlives its TTL"));
        }
        if body.absent_from.plus(TOLERANCE) < promise.earliest_end.min(now.plus(AT_LEAST)) {
            self.violated(format!("{key} has the dead letter {letter}, and its body ends before its TTL"));
        }
        self.bodies.insert(reference.key(), body.absent_from);
    }

    /// Bodies stay until their time.
    pub(crate) fn keeps_bodies(&mut self, stored: &State, now: Timestamp) {
        let due: BTreeMap<DeadLetterKey, Timestamp> = std::mem::take(&mut self.bodies);
        for (key, absent_from) in due {
            if now.plus(TOLERANCE) >= absent_from {
                continue;
            }
            if !stored.bodies.contains_key(&key) {
                // The search of an erasure removes what is about a person.
                if stored.erased.is_empty() {
                    self.violated(format!(
                        "the body of {}#{} was deleted before its time",
                        key.tenant, key.id
                    ));
                }
                continue;
            }
            let is_whole = |body: &DeadLetterBody| is_whole(&body.body, now);
            if key.id == PARTED && stored.bodies.get(&key).is_some_and(|body| !is_whole(body)) {
                self.violated(format!("the body of {}#{} is not whole", key.tenant, key.id));
            }
            self.bodies.insert(key, absent_from);
        }
    }
}

/// Whether a long body is what its producer wrote.
fn is_whole(body: &str, now: Timestamp) -> bool {
    // The quarantine keeps a message as it was, from whichever queue. Its `deliver_at` may not be years after it was sent.
    let stored = Stored::sent("", body, now);
    let message = read(&stored, QueueKind::Retry).or_else(|| read(&stored, QueueKind::Ingest));
    message.is_some_and(|(message, _)| read_payload(message.payload.expose()).is_some())
}
