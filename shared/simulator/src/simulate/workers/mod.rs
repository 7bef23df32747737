//! Workers that protect the provider together: the protocol of [`redial_core::protection`], on the virtual clock.
//!
//! ```text
//!               ┌── gathered: up to ten, for 20 ms at most          ┌─────── store ───────┐
//!  received ────┤                                                   │ states, counters:   │
//!               └─► a worker at random: Guard::admit ◄─── reads ────┤   so late           │
//!                     │           │        │                        │ exchanges, leases:  │
//!                  too late     later   go: waits for its slot      │   exact             │
//!                     │           │        │                        └──────────▲──────────┘
//!                     ▼           ▼        ▼                                   │
//!                    end        route   provider ──► answer ──► Guard::learn ──┘ adds, looks, exchanges
//! ```
//!
//! Each worker has a [`Guard`] of its own, which knows what it has read and seen itself and nothing else, and calls the very
//! functions that dispatch calls. What is simplified:
//!
//! - A batch is what was received within 20 ms of its first message, ten messages at most, as SQS hands them to a function;
//!   it goes to any worker, whether that is busy or not.
//! - A message that waited in a queue is handed out 1 to 50 ms after its delay, at random: in lockstep, the same would come first
//!   every time.
//! - What a batch's attempts see at the same moment is learnt together; dispatch waits up to a tenth of a second for more.
//! - The store answers at once and never fails, so no two workers exchange a state at the same moment. What is late in it is
//!   as late for everyone.
//! - All messages go to one origin and are of the same rank.

mod line;
mod store;

use std::{ops::RangeInclusive, time::Duration};

use futures_util::FutureExt as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redial_core::{
    endpoint::Origin,
    identity::{Attempt, Tenant},
    protection::{Circuit, Count, OriginState, Place, Rank, Whose},
    time::Timestamp,
    verdict::Verdict,
};
use redial_engine::ports::Protection as _;
use redial_engine::protection::{Admission, Ask, Guard, ProbeOf, Seen, Settings};

use super::{
    calendar::Calendar,
    scenario::{Contender, Message, Scenario, Workers},
};
use line::Line;
use store::Store;

/// How many messages a worker gets at once (the event source mappings' BatchSize).
const BATCH: usize = 10;

/// How long messages are gathered for a batch.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// How many milliseconds after its delay a message is handed out.
const HANDED_OUT_MS: RangeInclusive<u64> = 1..=50;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Turn {
    worker: usize,
    probe: Option<ProbeOf>,
}

impl Turn {
    pub(super) fn is_probe(self) -> bool {
        self.probe.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) message: Message,
    pub(super) admission: Admission,
    pub(super) turn: Turn,
}

#[derive(Debug)]
pub(super) struct Fleet<'a> {
    scenario: &'a Scenario,
    contender: &'a Contender,
    origin: Origin,
    guards: Vec<Guard>,
    store: Store,
    gathered: Vec<Message>,
    /// When the batch that is being gathered is handed to a worker.
    closes_at: Timestamp,
    /// Those that were admitted, by the moment of their attempts.
    slots: Calendar<(Message, Turn)>,
    line: Line,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(workers: &Workers, scenario: &'a Scenario, contender: &'a Contender) -> Self {
        let settings = Settings { judges: contender.breaker, ..Settings::default() };
        // As functions do, which do not know of each other: some numbers come more often than others.
        let mut numbers = StdRng::seed_from_u64(scenario.seed);
        Self {
            scenario,
            contender,
            origin: Origin::parse("https://push.example").expect("invariant: it is a scheme and a host"),
            guards: (0..workers.number).map(|_| Guard::new(settings, numbers.random())).collect(),
            store: Store::new(workers.limit, workers.counter_lag),
            gathered: Vec::with_capacity(BATCH),
            closes_at: Timestamp::default(),
            slots: Calendar::new(),
            line: Line::default(),
        }
    }

    /// When the next batch is handed to a worker, if one is being gathered.
    pub(super) fn closes_at(&self) -> Option<Timestamp> {
        (!self.gathered.is_empty()).then_some(self.closes_at)
    }

    pub(super) fn next_slot(&self) -> Option<Timestamp> {
        self.slots.next_at()
    }

    pub(super) fn take_slot(&mut self) -> Option<(Message, Turn)> {
        self.slots.take()
    }

    pub(super) fn keep_slot(&mut self, at: Timestamp, message: Message, turn: Turn) {
        self.slots.put(at, (message, turn));
    }

    /// How long after its delay a message is handed out that waited in a queue.
    pub(super) fn hand_out(rng: &mut StdRng) -> Duration {
        Duration::from_millis(rng.random_range(HANDED_OUT_MS))
    }

    pub(super) fn gather(&mut self, message: Message, now: Timestamp) {
        if self.gathered.is_empty() {
            self.closes_at = now.plus(GATHERED_FOR);
        }
        self.gathered.push(message);
        if self.gathered.len() == BATCH {
            self.closes_at = now;
        }
    }

    pub(super) fn line_up(&mut self, message: Message, now: Timestamp) {
        let state = self.state(now);
        self.line.join(message, self.scenario.deadline(message, self.contender), &state, now);
    }

    /// The provider's, as it is.
    fn state(&self, now: Timestamp) -> OriginState {
        self.store.is_at(now);
        let circuit = Circuit::Origin(self.origin.clone());
        let (stored, _) = at_once(self.store.look(&circuit)).expect("invariant: the store never fails");
        stored.state
    }

    pub(super) fn line_looked_after_at(&self) -> Option<Timestamp> {
        self.line.looked_after_at()
    }

    /// Those that leave the provider's line, and when they come back.
    pub(super) fn look_after_line(&mut self, now: Timestamp) -> Vec<(Timestamp, Message)> {
        let state = self.state(now);
        self.line.look_after(&state, now)
    }

    /// Hands the batch to a worker, who decides on it.
    pub(super) fn admit(&mut self, now: Timestamp, rng: &mut StdRng) -> Vec<Admitted> {
        let batch = std::mem::take(&mut self.gathered);
        let worker = rng.random_range(0..self.guards.len());
        let asks: Vec<Ask> = batch.iter().map(|message| self.ask(*message)).collect();
        self.store.is_at(now);
        let admitted = self.guards[worker].admit(&self.store, &asks, now, rng);
        let admissions = at_once(admitted).admissions;
        let turn = |admission: &Admission| Turn {
            worker,
            probe: match admission {
                Admission::Go { probe, .. } => *probe,
                Admission::Later { .. }
                | Admission::LinesUp { .. }
                | Admission::Seatless { .. }
                | Admission::TooLate => None,
            },
        };
        let admitted = batch.into_iter().zip(admissions);
        admitted.map(|(message, admission)| Admitted { message, admission, turn: turn(&admission) }).collect()
    }

    /// Lets the workers learn what their attempts saw at this moment.
    pub(super) fn learn(
        &mut self,
        mut seen: Vec<(Turn, Message, Verdict)>,
        now: Timestamp,
        rng: &mut StdRng,
    ) {
        self.store.is_at(now);
        seen.sort_by_key(|(turn, ..)| turn.worker);
        for batch in seen.chunk_by(|(one, ..), (other, ..)| one.worker == other.worker) {
            let worker = batch[0].0.worker;
            let seen =
                batch.iter().map(|(turn, message, verdict)| self.seen(*turn, *message, verdict)).collect();
            let changes = at_once(self.guards[worker].learn(&self.store, seen, now, rng));
            if !changes.transitions.is_empty() {
                self.line.changed(now);
            }
        }
    }

    fn ask(&self, message: Message) -> Ask {
        Ask {
            origin: self.origin.clone(),
            tenant: self.tenant(message).clone(),
            whose: self.whose(message),
            // Each message has a recipient of its own: none is in trouble alone.
            address: None,
            endpoint: None,
            rank: Rank::Middle,
            is_retry: message.attempt > Attempt::FIRST,
            is_last: self.contender.policy.is_last(message.attempt),
            deadline: self.scenario.deadline(message, self.contender),
            posting: None,
        }
    }

    fn tenant(&self, message: Message) -> &Tenant {
        let tenants = &self.scenario.tenants;
        &tenants.shares()[tenants.of(message.number)].tenant
    }

    /// Each message has a recipient of its own.
    fn whose(&self, message: Message) -> Whose {
        Whose::numbered(Place::of(&self.origin, self.tenant(message)), message.number.into())
    }

    fn seen(&self, turn: Turn, message: Message, verdict: &Verdict) -> Seen {
        Seen {
            origin: self.origin.clone(),
            count: Count::of(verdict, message.attempt > Attempt::FIRST),
            whose: self.whose(message),
            tenant: self.tenant(message).clone(),
            address: None,
            probe: turn.probe,
            retry_after: verdict.retry_after(),
            failed_again: None,
            posted: None,
        }
    }
}

/// What needs nothing but the store, which answers at once.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("invariant: the store in memory is always ready")
}

#[cfg(test)]
mod tests;
