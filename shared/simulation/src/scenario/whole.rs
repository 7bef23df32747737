//! All that a seed stands for.

use std::time::Duration;

use rand::rngs::StdRng;

use super::audiences::Audiences;
use super::clock::Clock;
use super::drawing::source;
use super::faults::Faults;
use super::messages::Sending;
use super::operations::Operation;
use super::pressure::Pressure;
use super::receivers::Receiver;
use super::storage::Storage;

/// All that a seed stands for.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// Which of its schedules: 0, or another that a search for a smaller scenario tried.
    pub schedule: u64,
    /// One for each worker.
    pub clocks: Vec<Clock>,
    pub shards: u16,
    pub faults: Faults,
    pub faults_end: Duration,
    pub receivers: Vec<Receiver>,
    pub sendings: Vec<Sending>,
    pub operations: Vec<(Duration, Operation)>,
    pub audiences: Audiences,
    pub storage: Storage,
    pub pressure: Pressure,
}

impl Scenario {
    /// What decides everything that is not fixed by the scenario itself.
    pub fn random_numbers(&self) -> StdRng {
        source(self.seed ^ (self.schedule << 48), "schedule")
    }
}
