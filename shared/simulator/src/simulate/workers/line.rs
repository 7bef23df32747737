//! The messages that wait for the provider: who leaves when.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::{
    protection::{
        OriginState,
        line::{LOT, LetsGo},
    },
    time::{Deadline, Timestamp},
};

use super::super::scenario::Message;

/// How often a sweep looks after a line.
const SWEPT_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Line {
    /// By their deadlines, then as they came.
    waiting: BTreeMap<(Timestamp, u64), Message>,
    joined: u64,
    looked_after_at: Option<Timestamp>,
    last_lot: Timestamp,
}

impl Line {
    /// A worker whose message joins while the provider lets messages go releases the line, one lot after the last release.
    pub(super) fn join(&mut self, message: Message, deadline: Deadline, state: &OriginState, now: Timestamp) {
        self.waiting.insert((deadline.at(), self.joined), message);
        self.joined += 1;
        let soon = match state.lets_go(now) {
            LetsGo::None | LetsGo::Probes(_) => now.plus(SWEPT_EVERY),
            LetsGo::PerSecond(_) | LetsGo::All => self.last_lot.plus(LOT).max(now),
        };
        self.looked_after_at = Some(self.looked_after_at.map_or(soon, |at| at.min(soon)));
    }

    pub(super) fn looked_after_at(&self) -> Option<Timestamp> {
        self.looked_after_at
    }

    /// The provider's breaker changed: the worker that wrote that releases the line.
    pub(super) fn changed(&mut self, now: Timestamp) {
        if !self.waiting.is_empty() {
            self.looked_after_at = Some(now);
        }
    }

    /// Those that leave, and when each comes back.
    pub(super) fn look_after(&mut self, state: &OriginState, now: Timestamp) -> Vec<(Timestamp, Message)> {
        self.last_lot = now;
        let (number, per_second, again) = match state.lets_go(now) {
            LetsGo::None => (self.over(now.plus(SWEPT_EVERY)), None, SWEPT_EVERY),
            LetsGo::Probes(number) => (number as usize, None, SWEPT_EVERY),
            LetsGo::PerSecond(rate) => ((rate * LOT.as_secs_f64()).ceil() as usize, Some(rate), LOT),
            LetsGo::All => (usize::MAX, None, LOT),
        };
        let mut leave = Vec::new();
        while leave.len() < number
            && let Some((_, message)) = self.waiting.pop_first()
        {
            let after = per_second.map_or(0.0, |rate| leave.len() as f64 / rate);
            leave.push((now.plus(Duration::from_secs_f64(after)), message));
        }
        self.looked_after_at = (!self.waiting.is_empty()).then_some(now.plus(again));
        leave
    }

    /// How many are over by then.
    fn over(&self, then: Timestamp) -> usize {
        self.waiting.range(..(then, 0)).count()
    }
}
