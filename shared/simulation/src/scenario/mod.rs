//! What a seed stands for: who sends what to whom, what receivers answer, and what goes wrong meanwhile.

pub mod faults;
pub mod messages;
pub mod operations;
pub mod receivers;
pub mod storage;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use faults::Faults;
use messages::Sending;
use operations::Operation;
use receivers::Receiver;
use storage::{Others, Storage};

/// When every scenario begins.
pub const BEGIN: &str = "2026-11-21T10:00:00Z";

/// For how long producers send.
const SENDING: Duration = Duration::from_secs(2 * 3600);

pub const TENANTS: [&str; 2] = ["acme", "globex"];

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
    pub storage: Storage,
}

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let rng = &mut source(seed, "scenario");
        let faults_end = secs(rng, 600, 4 * 3600);
        // Few messages let their schedules be read; many let a breaker open.
        let are_many = rng.random_bool(0.1);
        let workers = rng.random_range(1..=8);
        let is_skewed = rng.random_bool(0.5);
        let mut receivers = receivers::draw(&mut source(seed, "receivers"), faults_end);
        let mut faults = Faults::draw(&mut source(seed, "faults"), faults_end, are_many);
        let mut sendings = messages::draw(&mut source(seed, "messages"), receivers.len(), are_many);
        let operations = operations::draw(&mut source(seed, "operations"), receivers.len());
        let others = &mut Others {
            faults: &mut faults,
            faults_end,
            receivers: &mut receivers,
            sendings: &mut sendings,
        };
        let storage = Storage::draw(&mut source(seed, "storage"), others);
        Self {
            seed,
            skews: (0..workers).map(|_| if is_skewed { rng.random_range(-2000..=2000) } else { 0 }).collect(),
            shards: *[1, 2, 4, 16].choose(rng).unwrap_or(&1),
            faults,
            faults_end,
            sendings,
            operations,
            receivers,
            storage,
        }
    }
}

/// Random numbers for one part of a scenario, so that a seed's other parts stay what they are when this one changes.
fn source(seed: u64, part: &str) -> StdRng {
    StdRng::seed_from_u64(part.bytes().fold(seed, |mixed, byte| mixed.rotate_left(9) ^ u64::from(byte)))
}

fn secs(rng: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from * 1000..=to * 1000))
}

/// A moment before `end`.
fn moment(rng: &mut StdRng, end: Duration) -> Duration {
    Duration::from_millis(rng.random_range(0..end.as_millis() as u64))
}
