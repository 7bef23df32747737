//! Which recipients a worker doubts: those that alone of their origin are in trouble.
//!
//! Of recipients that succeed a worker remembers nothing. One of which it saw ten attempts go wrong, while others at the origin succeed,
//! gets a state that all workers share, as an origin has one: breaker, pace and pause are that recipient's. A worker follows it for as
//! long as it is not closed.

use std::collections::BTreeMap;

use super::admit::Ask;
use super::guard::{Known, KnownOrigin};
use super::seen::Seen;
use redial_core::protection::spread::{Concerned, Spread, Trouble};
use redial_core::protection::{AtOrigin, Circuit, Phase};
use redial_core::time::Timestamp;

/// If more than this share of the others' attempts are in trouble, too, in hundredths, it is not the recipient's.
const OTHERS_PERCENT: u64 = 10;

impl Known {
    /// Notes what an attempt shows of its recipient. Answers the recipient if it is doubted.
    pub(super) fn doubt(&mut self, seen: &Seen, now: Timestamp) -> Option<AtOrigin> {
        let is_in_trouble = seen.count.failures + seen.count.limited > 0;
        if !is_in_trouble && self.doubts.is_empty() && self.recipients.is_empty() {
            return None;
        }
        let recipient = seen.recipient()?;
        if is_in_trouble && !self.is_alone(&recipient, now) {
            // While an origin is out, nothing is remembered of its recipients: it would count against one when the others succeed again.
            self.doubts.remove(&recipient);
        } else if is_in_trouble || self.doubts.contains_key(&recipient) {
            self.doubts.entry(recipient.clone()).or_default().note(seen.count, now);
        }
        if !self.doubts.contains_key(&recipient) && !self.recipients.contains_key(&recipient) {
            return None;
        }
        if !self.is_doubted(&recipient, now) {
            if !self.doubts.get(&recipient).is_some_and(|doubt| doubt.is_any(now)) {
                self.doubts.remove(&recipient);
                self.recipients.remove(&recipient);
            }
            return None;
        }
        if let Some(it) = self.recipients.get_mut(&recipient) {
            it.note(seen.count, seen.retry_after, now);
        } else {
            let before = self.doubts.get(&recipient).map(|doubt| doubt.seen(now)).unwrap_or_default();
            let it = self.recipients.entry(recipient.clone()).or_default();
            it.note(before, seen.retry_after, now);
        }
        Some(recipient)
    }

    /// Those of these messages' recipients that are doubted, with the places of their messages.
    pub(super) fn doubted(&self, asks: &[Ask], now: Timestamp) -> BTreeMap<Circuit, Vec<usize>> {
        let mut doubted: BTreeMap<Circuit, Vec<usize>> = BTreeMap::new();
        if self.doubts.is_empty() && self.recipients.is_empty() {
            return doubted;
        }
        for (at, ask) in asks.iter().enumerate() {
            if let Some(recipient) = ask.recipient().filter(|recipient| self.is_doubted(recipient, now)) {
                doubted.entry(Circuit::Recipient(recipient)).or_default().push(at);
            }
        }
        doubted
    }

    /// A message's recipient, and what is known of it; none: it was not in trouble lately.
    pub(super) fn known_recipient(&self, ask: &Ask) -> Option<(AtOrigin, &KnownOrigin)> {
        if self.recipients.is_empty() {
            return None;
        }
        let recipient = ask.recipient()?;
        self.recipients.get(&recipient).map(|it| (recipient, it))
    }

    /// Whether an origin's breaker lets pass what this worker wants to send there.
    pub(super) fn passes(&self, circuit: &Circuit, now: Timestamp) -> bool {
        let state = self.origins.get(circuit.origin()).map(|it| it.state.breaker().phase(now));
        matches!(state, None | Some(Phase::Closed | Phase::Ramping { .. }))
    }

    fn is_doubted(&self, recipient: &AtOrigin, now: Timestamp) -> bool {
        let state = self.recipients.get(recipient).map(|it| &it.state);
        if state.is_some_and(|state| state.holds_back(now)) {
            return true;
        }
        let is_watched = state.is_some_and(|state| state.is_watched(now));
        let is_serious = || self.doubts.get(recipient).is_some_and(|doubt| doubt.is_serious(now));
        // Of two that fail at first, the others may fail soon: what all fail of opens no recipient's breaker.
        (is_watched || is_serious()) && self.is_alone(recipient, now)
    }

    /// Whether the other recipients at the origin succeed, as far as this worker saw itself or read.
    fn is_alone(&self, recipient: &AtOrigin, now: Timestamp) -> bool {
        let Some(origin) = self.origins.get(&recipient.origin) else { return false };
        let others_succeed = |spread: &Spread| {
            [Trouble::Failures, Trouble::Limited]
                .into_iter()
                .all(|trouble| spread.concerned(trouble, OTHERS_PERCENT) == Concerned::Recipients)
        };
        others_succeed(&origin.own_spread.sum(now)) || others_succeed(&origin.state.spread(now))
    }
}
