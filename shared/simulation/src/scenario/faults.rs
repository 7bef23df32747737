//! What goes wrong around Redial, and when.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::drawing::{moment, secs};

/// How the parts around Redial misbehave until faults end. Rates are probabilities.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// An invocation dies.
    pub death: f64,
    /// Up to which of its effects, one or the other with the same probability; 0: up to the usual one.
    pub dies_by: u32,
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
    /// An execution is stopped before its bucket begins: some time before, or in the moment in which it would have released it.
    pub stopped: f64,
    /// An execution releases its bucket up to twenty minutes late.
    pub late: f64,
    /// An execution releases its bucket a second time.
    pub repeated: f64,
    /// A worker starts again, with nothing in its memory.
    pub cold_start: f64,
    pub outages: Vec<Outage>,
    pub hot: Option<Hot>,
    /// How long an index does not show what was written.
    pub index_lag: Duration,
}

/// A partition of DynamoDB's that refuses for a while, because its keys are used too much at once; the others go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hot {
    /// One of those that may be hot.
    pub partition: u64,
    pub from: Duration,
    pub until: Duration,
}

impl Hot {
    const PARTITIONS: u64 = 3;

    /// In a share of the scenarios.
    pub(super) fn draw(rng: &mut StdRng, end: Duration) -> Option<Self> {
        let from = moment(rng, end);
        let until = (from + secs(rng, 60, 3600)).min(end);
        let partition = rng.random_range(0..Self::PARTITIONS);
        rng.random_bool(0.1).then_some(Self { partition, from, until })
    }

    /// Whether a partition key lies in it.
    pub fn holds(self, partition_key: &str) -> bool {
        let mixed = partition_key
            .bytes()
            .fold(0_u64, |mixed, byte| (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (mixed >> 20) % Self::PARTITIONS == self.partition
    }
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
    &["park", "page", "unpark", "register", "divide", "shards_of", "begun_before", "forget"],
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

/// Of the bus that events are relayed to, in half of these scenarios.
pub(super) fn of_the_bus(rng: &mut StdRng, end: Duration) -> Option<Outage> {
    let from = secs(rng, 0, end.as_secs());
    let until = secs(rng, from.as_secs(), end.as_secs());
    rng.random_bool(0.5).then_some(Outage { effects: &["put_events"], from, until })
}

/// In a share of the scenarios; usually it is less than a second.
pub(super) fn index_lag(rng: &mut StdRng) -> Duration {
    let lag = secs(rng, 1, 600);
    if rng.random_bool(0.2) { lag } else { Duration::ZERO }
}

impl Faults {
    /// Each kind of fault is there in some scenarios, and often or seldom: many at once hide each other.
    pub(super) fn draw(rng: &mut StdRng, end: Duration, are_many: bool) -> Self {
        // Nearly every invocation dies: messages are received until they are redriven.
        let is_deadly = !are_many && rng.random_bool(0.03);
        let mut rate = |most: f64| {
            let share: f64 = rng.random();
            if rng.random_bool(0.5) { share * share * most } else { 0.0 }
        };
        let faults = Self {
            death: if is_deadly { 0.97 } else { rate(0.6) },
            dies_by: 0,
            refused: rate(0.2),
            lost: rate(0.2),
            slow: rate(0.1),
            duplicate: rate(0.4),
            ack_lost: rate(0.3),
            visibility_lost: rate(0.5),
            stopped: rate(0.8),
            late: rate(0.5),
            repeated: rate(0.5),
            cold_start: rate(0.3),
            outages: Vec::new(),
            hot: None,
            index_lag: Duration::ZERO,
        };
        let outages = (0..rng.random_range(0..=2)).map(|_| {
            let from = moment(rng, end);
            let until = (from + secs(rng, 10, 3600)).min(end);
            Outage { effects: OUTAGES.choose(rng).copied().unwrap_or_default(), from, until }
        });
        Self { outages: outages.collect(), ..faults }
    }
}
