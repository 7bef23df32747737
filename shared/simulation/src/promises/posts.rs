//! What must hold of a POST in the moment that it leaves.

use std::time::Duration;

use redial_core::identity::DeliveryKey;
use redial_core::ledger;
use redial_core::time::Timestamp;
use redial_memory::State;

use crate::watch::{Memo, Post};

/// By how much a promise about time may be missed: two clocks that are two seconds off, each in its own direction, and a second that
/// dispatch waits out inside.
pub(super) const TOLERANCE: Duration = Duration::from_secs(5);

impl Memo {
    /// A POST in the moment that it leaves.
    pub fn posts(&mut self, now: Timestamp, key: &DeliveryKey, content: u32, token: &str, state: &State) {
        let Some(promise) = self.promises.get(key).cloned() else {
            return self.violated(format!("{key} was posted, and nobody sent it"));
        };
        let Some(entry) = state.ledger.get(key) else {
            return self.violated(format!("{key} was posted without an entry in the ledger"));
        };
        if entry.state != ledger::State::Sending || entry.lease_token != token {
            let (held, at) = (&entry.lease_token, entry.state.label());
            self.violated(format!("{key} was posted by {token}, and the ledger says {at} by {held}"));
        }
        let turn = entry.turn;
        if now.plus(TOLERANCE) < promise.from {
            self.violated(format!("{key} was posted before its time"));
        }
        if now > promise.until.plus(TOLERANCE) {
            self.violated(format!("{key} was posted after its TTL"));
        }
        if self.waits.get(key).is_some_and(|until| now.plus(TOLERANCE) < *until) {
            self.violated(format!("{key} was posted before the end of its wait"));
        }
        if turn.attempt.0 >= promise.attempts {
            self.violated(format!(
                "{key} was posted in attempt {}, of {} at most",
                turn.attempt.0 + 1,
                promise.attempts
            ));
        }
        if state.attempts.get(key).is_some_and(|past| past.iter().any(|past| past.turn() == turn)) {
            self.violated(format!("{key} was posted again in an attempt that was recorded"));
        }
        let former = self.posts.entry(key.clone()).or_default();
        let again = former.iter().filter(|post| post.turn == turn).map(|post| post.token.clone());
        let unexcused: Vec<String> =
            again.filter(|of| !self.unrecorded.contains(&(key.clone(), of.clone()))).collect();
        former.push(Post { at: now, content, turn, token: token.to_owned() });
        for other in unexcused {
            self.violated(format!("{key} was posted by {token} while {other} was not over"));
        }
    }
}
