//! What waits in the lines of origins: in registered shards, until its origin lets it go, and no longer.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::line::LineShard;
use redial_core::message::QueueKind;
use redial_core::protection::Phase;
use redial_core::protection::line::LetsGo;
use redial_core::queue::{Outgoing, Queue};
use redial_core::time::Timestamp;
use redial_engine::ports::{ParkedKey, Partition};
use redial_memory::State;

use crate::lines::Leave;
use crate::pass::read;
use crate::situations::Situation;
use crate::sqs::Stored;
use crate::watch::Memo;

/// A message leaves its line a minute before its time is over; clocks are off, and calls are slow.
const LEAVES_BEFORE: Duration = Duration::from_secs(60 + 30);

/// How long a release that has read an origin's state may send a page.
const A_PAGE_TAKES: Duration = Duration::from_secs(60);

/// A release is sent on, waits for its turn and for the places that others have taken. The sweep comes besides.
const RELEASED_WITHIN: Duration = Duration::from_secs(120);

/// What a look after a line calls at most, besides two queries a shard.
const CALLS_OF_A_LOOK: usize = 12;

impl Memo {
    /// A message lies in a line.
    pub(crate) fn joins(&mut self, shard: &LineShard, state: &State) {
        self.situations.saw(Situation::LinedUp);
        self.lines.moves(&shard.line, state.now);
        let has_place = state.lines.get(&shard.line).is_some_and(|line| shard.number < line.shards);
        if !has_place {
            self.violated(format!("a message lies in {shard}, which is not registered"));
        }
    }

    /// These are deleted.
    pub(crate) fn leave(&mut self, keys: &[ParkedKey], state: &State) {
        let mut places = BTreeSet::new();
        if !keys.iter().filter_map(ParkedKey::place).all(|place| places.insert(place)) {
            self.situations.saw(Situation::LeftAsOne);
        }
        for key in keys {
            let Partition::Line(LineShard { line, .. }) = &key.partition else { continue };
            if !state.parked.contains_key(key) {
                continue;
            }
            self.lines.moves(line, state.now);
            let is_over = key.until().is_some_and(|until| until <= state.now.plus(LEAVES_BEFORE));
            let Some(stored) = state.origins.get(&line.origin) else { continue };
            let is_open = matches!(stored.state.breaker().last_changed_phase(), Phase::Open { until }
                if until > state.now.plus(A_PAGE_TAKES));
            let moved = self.origins.of.get(&line.origin).and_then(|past| past.moved);
            let for_long = moved.is_some_and(|at| state.now.since(at) > A_PAGE_TAKES);
            if is_open && for_long && !is_over && !self.has_far_clocks {
                self.violated(format!("a message left {line} while its breaker was open"));
            }
        }
    }

    /// These are sent in one call: of copies that have waited in one place it is one.
    pub(crate) fn are_sent(&mut self, messages: &[Outgoing], now: Timestamp) {
        let mut sent = BTreeSet::new();
        for message in messages.iter().filter(|it| matches!(it.queue, Queue::Retry(_))) {
            let Some((message, travel)) = read(&Stored::sent("", &message.body, now), QueueKind::Retry)
            else {
                continue;
            };
            let is_held_back = travel.receives == 0 && travel.unrecorded.is_none();
            let Some(source) = travel.deferred_from.filter(|_| is_held_back) else { continue };
            let key = message.key();
            if !sent.insert((key.clone(), travel.turn, source)) {
                self.violated(format!("{key} was sent on twice at once, in the place of one message"));
            }
        }
    }

    /// Whether what waits leaves, where its origin lets it go.
    pub(crate) fn lines_move(&mut self, state: &State, is_swept: bool) {
        let now = state.now;
        for registered in state.lines.values() {
            let line = &registered.line;
            if is_swept {
                self.lines.calls += CALLS_OF_A_LOOK + 6 * usize::from(registered.shards);
            }
            let origin = state.origins.get(&line.origin).map(|stored| &stored.state);
            let lets_go = match origin.map(|it| it.lets_go(now)) {
                None | Some(LetsGo::PerSecond(_) | LetsGo::All) => Some(Leave::Freely),
                Some(LetsGo::Probes(number)) => (number > 0).then_some(Leave::AsProbes),
                Some(LetsGo::None) => None,
            };
            let since = self.lines.still_since(line, lets_go, now);
            let holds =
                |key: &ParkedKey| matches!(&key.partition, Partition::Line(shard) if shard.line == *line);
            if let Some(way) = lets_go {
                // What time alone changes, or an operator by hand, the sweep notices.
                let by_sweep = way == Leave::AsProbes
                    || self.situations.of(Situation::OpenedByHand) > 0
                    || origin
                        .is_some_and(|it| matches!(it.breaker().last_changed_phase(), Phase::Paused { .. }));
                let within =
                    RELEASED_WITHIN + if by_sweep { self.punctual.sweep_every } else { Duration::ZERO };
                let from = since.max(self.punctual.calm_from).max(self.punctual.starved_at);
                if now.since(from) > within && state.parked.keys().any(holds) {
                    self.lines.moves(line, now);
                    self.violated(format!("{line} lets messages go, and none has left it for {within:?}"));
                }
            }
            let latest = now.minus(RELEASED_WITHIN + self.punctual.sweep_every);
            let is_late = |key: &ParkedKey| holds(key) && key.until().is_some_and(|until| until < latest);
            let is_calm = self.punctual.calm_from.max(self.punctual.starved_at) < latest;
            if is_calm && state.parked.keys().any(is_late) {
                self.violated(format!("a message has waited in {line} for longer than it may"));
            }
        }
    }
}
