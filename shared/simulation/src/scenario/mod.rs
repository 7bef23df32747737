//! What a seed stands for: who sends what to whom, what receivers answer, and what goes wrong meanwhile.

pub mod audiences;
pub mod clock;
pub mod drawing;
pub mod faults;
pub mod messages;
pub mod operations;
pub mod pressure;
pub mod receivers;
pub mod storage;
mod under_pressure;
mod whole;

use rand::RngExt;
use rand::seq::IndexedRandom;

use audiences::Audiences;
use drawing::{secs, source};
use faults::Faults;
use pressure::Pressure;
use storage::{Others, Storage};

pub use clock::Clock;
pub use drawing::{BEGIN, TENANTS};
pub use whole::Scenario;

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let rng = &mut source(seed, "scenario");
        let faults_end = secs(rng, 600, 4 * 3600);
        // Few messages let their schedules be read; many let a breaker open.
        let are_many = rng.random_bool(0.1);
        let workers = rng.random_range(1..=8);
        let is_skewed = rng.random_bool(0.5);
        let drifts = rng.random_bool(0.3);
        let mut receivers = receivers::draw(&mut source(seed, "receivers"), faults_end);
        let of_audiences = &mut source(seed, "audiences");
        let audiences = Audiences::draw(of_audiences, faults_end);
        let mut faults = Faults::draw(&mut source(seed, "faults"), faults_end, are_many);
        faults.outages.extend(audiences.outages(of_audiences, faults_end));
        audiences.temper(&mut faults);
        let mut sendings = messages::draw(&mut source(seed, "messages"), receivers.len(), are_many);
        let operations = operations::draw(&mut source(seed, "operations"), receivers.len());
        let others = &mut Others {
            faults: &mut faults,
            faults_end,
            receivers: &mut receivers,
            sendings: &mut sendings,
        };
        // A scenario is about one area: together they would make each other's promises hard to say.
        let has_audiences = audiences != Audiences::default();
        let storage = if has_audiences {
            Storage::default()
        } else {
            Storage::draw(&mut source(seed, "storage"), others)
        };
        let is_plain = !has_audiences && storage == Storage::default();
        let mut scenario = Self {
            seed,
            schedule: 0,
            clocks: (0..workers).map(|_| Clock::draw(rng, is_skewed, drifts)).collect(),
            shards: *[1, 2, 4, 16].choose(rng).unwrap_or(&1),
            faults,
            faults_end,
            sendings,
            operations,
            receivers,
            audiences,
            storage,
            pressure: Pressure::default(),
        };
        if is_plain {
            under_pressure::put_on(&mut scenario, &mut source(seed, "pressure"));
        }
        scenario
    }
}
