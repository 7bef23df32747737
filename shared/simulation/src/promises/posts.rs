//! What must hold of a POST in the moment that it leaves.

use std::time::Duration;

use redial_core::identity::{Attempt, DeliveryKey, Lineage, Turn};
use redial_core::ledger::{self, Entry, PastAttempt};
use redial_core::time::Timestamp;
use redial_memory::State;

use crate::watch::{Memo, Post, Promise};

/// By how much a promise about time may be missed: two clocks that are two seconds off, each in its own direction, and a second that
/// dispatch waits out inside.
pub(super) const TOLERANCE: Duration = Duration::from_secs(5);

/// The longest attempt: a push's, of which there is time for at least one.
const ATTEMPT: Duration = Duration::from_secs(10);

impl Memo {
    /// A POST in the moment that it leaves.
    pub fn posts(&mut self, post: Post, key: &DeliveryKey, state: &State) {
        let (now, token) = (post.at, post.token.clone());
        let Some(promise) = self.promises.get(key).cloned() else {
            return self.violated(format!("{key} was posted, and no such message was sent"));
        };
        let Some(entry) = state.known(key) else {
            return self.violated(format!("{key} was posted without an entry in the ledger"));
        };
        let is_own = entry.state == ledger::State::Sending && entry.lease_token == token;
        if self.shares_its_turn_early(key, &token, &entry) {
            self.ended_early.insert(key.clone());
        }
        if is_of_an_erased_endpoint(&entry, state) {
            self.erased.insert(key.clone());
        }
        let is_protected = self.is_protected(key);
        if !is_own && is_protected {
            let (held, at) = (&entry.lease_token, entry.state.label());
            self.violated(format!("{key} was posted by {token}, and the ledger says {at} by {held}"));
        }
        let turn = entry.turn;
        let post = Post { turn, ..post };
        self.is_in_time(now, key, turn.lineage, &promise);
        self.is_within_its_hours(now, key, &promise);
        self.is_punctual(key, turn, now);
        self.is_wanted(&post, key, &promise);
        if turn.attempt.0 >= promise.attempts {
            self.violated(format!(
                "{key} was posted in attempt {}, of {} at most",
                turn.attempt.0 + 1,
                promise.attempts
            ));
        }
        let is_recorded = |past: &PastAttempt| past.turn() == turn;
        if is_protected && state.attempts.get(key).is_some_and(|past| past.iter().any(is_recorded)) {
            self.violated(format!("{key} was posted again in an attempt that was recorded"));
        }
        let past = state.attempts.get(key).into_iter().flatten();
        let is_next = |before: Turn| before.lineage == turn.lineage && before.attempt.next() == turn.attempt;
        let has_one_before = past.into_iter().any(|past| is_next(past.turn()));
        if turn.attempt > Attempt::FIRST && !has_one_before && is_protected {
            self.violated(format!("{key} was posted in attempt {} without one before", turn.attempt.0 + 1));
        }
        let former = self.posts.entry(key.clone()).or_default();
        let again = former.iter().filter(|post| post.turn == turn).map(|post| post.token.clone());
        let unexcused: Vec<String> =
            again.filter(|of| !self.unrecorded.contains(&(key.clone(), of.clone()))).collect();
        former.push(post);
        for other in unexcused.into_iter().filter(|_| is_protected) {
            self.violated(format!("{key} was posted by {token} while {other} was not over"));
        }
    }

    /// Whether its entry is kept, and its lease holds for all workers. Of some that are a minute apart, a third may see it end before either
    /// of two does.
    fn is_protected(&self, key: &DeliveryKey) -> bool {
        !self.ended_early.contains(key) && !self.erased.contains(key) && !self.has_far_clocks
    }

    /// Whether the attempt was taken over, or is posted by another invocation too, because of a clock that is further ahead than leases allow
    /// for.
    fn shares_its_turn_early(&self, key: &DeliveryKey, token: &str, entry: &Entry) -> bool {
        let former = self.posts.get(key).into_iter().flatten().filter(|post| post.turn == entry.turn);
        let mut others = former.map(|post| &post.token).chain([&entry.lease_token]);
        others.any(|other| self.may_end_early(token, other))
    }

    /// Whether it is the delivery's time.
    fn is_in_time(&mut self, now: Timestamp, key: &DeliveryKey, lineage: Lineage, promise: &Promise) {
        let tolerance = if self.has_far_clocks { TOLERANCE * 25 } else { TOLERANCE };
        if now.plus(tolerance) < promise.from {
            self.violated(format!("{key} was posted before its time"));
        }
        if now > promise.until.plus(tolerance) {
            self.violated(format!("{key} was posted after its TTL"));
        }
        // A replay does not wait for what the lineage before it was asked for.
        let wait = self.waits.get(&(key.clone(), lineage)).filter(|_| self.is_protected(key));
        if wait.is_some_and(|until| now.plus(tolerance) < *until) {
            self.violated(format!("{key} was posted before the end of its wait"));
        }
    }

    /// Whether its worker has the time for it, and its delivery needs it.
    fn is_wanted(&mut self, post: &Post, key: &DeliveryKey, promise: &Promise) {
        let Post { at, token, turn, .. } = post;
        let pass = self.passes.get(token);
        if pass.is_some_and(|pass| at.plus(ATTEMPT) > pass.deadline) {
            self.violated(format!("{key} was posted, and its worker is stopped before an answer"));
        }
        if self.passes.get(token).is_some_and(|pass| pass.is_past_its_only_attempt(key)) {
            self.violated(format!("{key} has a TTL of 0, and was posted at its fifteenth receive"));
        }
        let is_protected = self.is_protected(key);
        if is_protected && self.cancelled.contains_key(key) {
            self.violated(format!("{key} was posted after it was answered as cancelled"));
        }
        if is_protected && self.ended.iter().any(|(of, _)| of == key) && turn.lineage.0 == 0 {
            self.violated(format!("{key} was posted after it had ended"));
        }
        let mut former = self.posts.get(key).into_iter().flatten();
        // A replay begins again, and is its operator's decision.
        let is_of_this = |other: &Post| other.turn.lineage == turn.lineage;
        let may_have_arrived =
            |other: &Post| is_of_this(other) && (other.is_swallowed || other.turn == *turn);
        if !promise.may_repeat_in_doubt && is_protected && former.any(may_have_arrived) {
            self.violated(format!("{key} was posted again while it is in doubt, against its policy"));
        }
    }
}

/// Whether it is a message to the endpoint itself of a person that is being erased, or was: the search takes its entry away.
fn is_of_an_erased_endpoint(entry: &Entry, state: &State) -> bool {
    let is_begun = !state.erasures.is_empty() || !state.erasures_done.is_empty();
    is_begun && entry.subscription.is_none()
}
