//! What a seed stands for: who sends what to whom, what receivers answer, and what goes wrong meanwhile.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redial_core::outcome::{InDoubt, NotSent};

/// When every scenario begins.
pub const BEGIN: &str = "2026-11-21T10:00:00Z";

/// For how long producers send.
const SENDING: Duration = Duration::from_secs(2 * 3600);

/// How the parts around Redial misbehave until [`Scenario::faults_end`]. Rates are probabilities.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// An invocation dies.
    pub death: f64,
    /// An effect on an item is refused.
    pub refused: f64,
    /// An effect on an item is made, and its answer is lost.
    pub lost: f64,
    /// A call takes seconds.
    pub slow: f64,
    /// A message is received again at once.
    pub duplicate: f64,
    /// The deletion of what was acknowledged fails.
    pub ack_lost: f64,
    /// A change of visibility gets lost.
    pub visibility_lost: f64,
    /// An execution is stopped before its bucket begins.
    pub stopped: f64,
    /// An execution releases its bucket a second time.
    pub repeated: f64,
    /// A worker begins anew, with nothing in its memory.
    pub cold_start: f64,
    pub outages: Vec<Outage>,
}

/// Calls that fail for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage {
    pub effects: &'static [&'static str],
    pub from: Duration,
    pub until: Duration,
}

/// What may be out together.
const OUTAGES: &[&[&str]] = &[
    &["claim", "record", "ledger.get"],
    &["send"],
    &["come_back_after"],
    &["load", "switch_off", "recovered", "failed", "give_up", "subscription.get", "flag", "mark_gone"],
    &["protection", "look", "exchange", "add", "lease"],
    &["park", "page", "unpark", "register", "shards_of", "begun_before", "forget"],
    &["ensure_running"],
    &["bodies.put", "describe"],
    &["policies"],
    &[
        "claim",
        "record",
        "ledger.get",
        "load",
        "protection",
        "park",
        "page",
        "register",
        "bodies.put",
        "describe",
    ],
];

/// What a receiver does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behaviour {
    Accepts,
    Answers(u16),
    /// A status with `Retry-After`, in seconds.
    Asks(u16, u32),
    /// It takes the request, and no answer comes.
    Swallows(InDoubt),
    Unreachable(NotSent),
    /// It accepts after so many milliseconds.
    Slow(u64),
    /// Each request fails with that probability.
    Flaps(f64),
}

/// A receiver, and from when it does what.
#[derive(Clone, PartialEq, Debug)]
pub struct Receiver {
    pub is_webhook: bool,
    pub phases: Vec<(Duration, Behaviour)>,
}

impl Receiver {
    pub fn at(&self, time: Duration) -> Behaviour {
        self.phases.iter().rev().find(|(from, _)| *from <= time).map_or(Behaviour::Accepts, |(_, it)| *it)
    }
}

/// A message that a producer sends.
#[derive(Clone, PartialEq, Debug)]
pub struct Sending {
    pub at: Duration,
    pub tenant: &'static str,
    pub id: String,
    /// Which receiver it goes to.
    pub receiver: usize,
    /// Makes the content: the same id with another number is another content.
    pub content: u32,
    /// Seconds.
    pub ttl: Option<u32>,
    pub class: Option<&'static str>,
    pub retry: Option<&'static str>,
    /// Not before this.
    pub deliver_at: Option<Duration>,
    /// By its address instead of its subscription.
    pub by_address: bool,
}

/// What a user or an operator does.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// A browser subscribes again: its subscription leads to a new endpoint.
    Moves(usize),
    /// A browser whose subscription is gone subscribes again.
    Returns(usize),
}

/// All that a seed stands for.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// What each worker's clock is ahead of the true time, in milliseconds.
    pub skews: Vec<i64>,
    pub shards: u16,
    pub faults: Faults,
    pub faults_end: Duration,
    pub receivers: Vec<Receiver>,
    pub sendings: Vec<Sending>,
    pub operations: Vec<(Duration, Operation)>,
}

pub const TENANTS: [&str; 2] = ["acme", "globex"];

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let faults_end = secs(rng, 600, 4 * 3600);
        let receivers: Vec<Receiver> =
            (0..rng.random_range(1..=4)).map(|_| receiver(rng, faults_end)).collect();
        // Few messages let their schedules be read; many let a breaker open.
        let are_many = rng.random_bool(0.1);
        let count = if are_many { rng.random_range(60..=120) } else { rng.random_range(1..=12) };
        let mut sendings: Vec<Sending> = Vec::new();
        for n in 0..count {
            let next = sending(rng, n, receivers.len());
            let copies = if rng.random_bool(0.3) { rng.random_range(1..=3) } else { 0 };
            for _ in 0..copies {
                let at = next.at + secs(rng, 0, 1200);
                let content = if rng.random_bool(0.15) { next.content + 1 } else { next.content };
                sendings.push(Sending { at, content, ..next.clone() });
            }
            sendings.push(next);
        }
        let operations = (0..rng.random_range(0..=3)).map(|_| operation(rng, receivers.len())).collect();
        let workers = rng.random_range(1..=8);
        let skewed = rng.random_bool(0.5);
        Self {
            seed,
            skews: (0..workers).map(|_| if skewed { rng.random_range(-2000..=2000) } else { 0 }).collect(),
            shards: *[1, 2, 4, 16].choose(rng).unwrap_or(&1),
            faults: faults(rng, faults_end, are_many),
            faults_end,
            receivers,
            sendings,
            operations,
        }
    }
}

fn secs(rng: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from * 1000..=to * 1000))
}

/// Each kind of fault is there in some scenarios, and often or seldom: many at once hide each other.
fn faults(rng: &mut StdRng, end: Duration, are_many: bool) -> Faults {
    // Nearly every invocation dies: messages are received until they are redriven.
    let is_deadly = !are_many && rng.random_bool(0.03);
    let mut rate = |most: f64| {
        let share: f64 = rng.random();
        if rng.random_bool(0.5) { share * share * most } else { 0.0 }
    };
    let faults = Faults {
        death: if is_deadly { 0.97 } else { rate(0.6) },
        refused: rate(0.2),
        lost: rate(0.2),
        slow: rate(0.1),
        duplicate: rate(0.4),
        ack_lost: rate(0.3),
        visibility_lost: rate(0.5),
        stopped: rate(0.8),
        repeated: rate(0.5),
        cold_start: rate(0.3),
        outages: Vec::new(),
    };
    let outages = (0..rng.random_range(0..=2)).map(|_| {
        let from = Duration::from_millis(rng.random_range(0..end.as_millis() as u64));
        let until = (from + secs(rng, 10, 3600)).min(end);
        Outage { effects: OUTAGES.choose(rng).copied().unwrap_or_default(), from, until }
    });
    Faults { outages: outages.collect(), ..faults }
}

fn receiver(rng: &mut StdRng, end: Duration) -> Receiver {
    let mut phases = Vec::new();
    for _ in 0..rng.random_range(0..=3) {
        let from = Duration::from_millis(rng.random_range(0..end.as_millis() as u64));
        phases.push((from, behaviour(rng)));
        let until = (from + secs(rng, 5, 3600)).min(end);
        phases.push((until, Behaviour::Accepts));
    }
    phases.sort_by_key(|(from, _)| *from);
    let is_webhook = rng.random_bool(0.4);
    Receiver { is_webhook, phases }
}

fn behaviour(rng: &mut StdRng) -> Behaviour {
    let status = *[500, 502, 503, 504, 429].choose(rng).unwrap_or(&503);
    match rng.random_range(0..10) {
        0..3 => Behaviour::Answers(status),
        3 => Behaviour::Asks(status, rng.random_range(1..=3000)),
        4 => Behaviour::Swallows(if rng.random_bool(0.5) { InDoubt::Timeout } else { InDoubt::Reset }),
        5 => Behaviour::Unreachable(NotSent::Connect),
        6 => Behaviour::Slow(rng.random_range(100..9_000)),
        7 => Behaviour::Answers(410),
        8 => Behaviour::Answers(*[400, 403, 404, 413].choose(rng).unwrap_or(&400)),
        _ => Behaviour::Flaps(rng.random()),
    }
}

fn sending(rng: &mut StdRng, n: usize, receivers: usize) -> Sending {
    let at = Duration::from_millis(rng.random_range(0..SENDING.as_millis() as u64));
    Sending {
        at,
        tenant: TENANTS.choose(rng).copied().unwrap_or("acme"),
        id: format!("m{n}"),
        receiver: rng.random_range(0..receivers),
        content: 0,
        ttl: rng.random_bool(0.4).then(|| *[0, 5, 60, 600, 3600, 86_400].choose(rng).unwrap_or(&60)),
        class: [None, Some("otp"), Some("campaign")].choose(rng).copied().flatten(),
        retry: [
            None,
            None,
            Some("fixed-jitter"),
            Some("schedule-standard"),
            Some("schedule-cautious"),
            Some("none"),
        ]
        .choose(rng)
        .copied()
        .flatten(),
        deliver_at: rng.random_bool(0.15).then(|| at + secs(rng, 1, 3 * 3600)),
        by_address: rng.random_bool(0.2),
    }
}

fn operation(rng: &mut StdRng, receivers: usize) -> (Duration, Operation) {
    let which = rng.random_range(0..receivers);
    let operation = if rng.random_bool(0.5) { Operation::Moves(which) } else { Operation::Returns(which) };
    (Duration::from_millis(rng.random_range(0..SENDING.as_millis() as u64)), operation)
}
