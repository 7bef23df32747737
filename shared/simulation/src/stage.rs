//! What all workers of a simulation share: the scenario, virtual time, random numbers, and what is remembered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use redial_core::time::Timestamp;

use crate::scenario::Scenario;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::watch::Watch;

/// What all workers of a simulation share.
#[derive(Clone, Debug)]
pub struct Stage {
    pub scenario: Arc<Scenario>,
    pub begin: Timestamp,
    pub timeline: Timeline,
    pub rng: Arc<Mutex<StdRng>>,
    pub watch: Watch,
    pub trace: Trace,
}

impl Stage {
    pub fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that comes about now, of what only happens while there are faults.
    pub fn strikes(&self, rate: f64) -> bool {
        self.has_faults() && rate > 0.0 && self.rng().random_bool(rate)
    }

    pub fn has_faults(&self) -> bool {
        let now = self.since_begin();
        let later = self.scenario.audiences.later;
        now < self.scenario.faults_end || later.is_some_and(|later| later.from <= now && now < later.until)
    }

    /// How much time has passed.
    pub fn since_begin(&self) -> Duration {
        self.timeline.now().since(self.begin)
    }

    /// Whether that worker runs the newer of two releases now.
    pub fn is_newer(&self, worker: usize) -> bool {
        let Some(releases) = &self.scenario.storage.releases else { return false };
        let now = self.since_begin();
        let mixed = self.scenario.seed.wrapping_add(worker as u64 * 7_919).wrapping_mul(2_654_435_761) >> 7;
        let is_one = (mixed % 1000) as f64 <= releases.share * 1000.0;
        now >= releases.all_from || (is_one && releases.from <= now && now < releases.until)
    }

    pub fn is_out(&self, effect: &str) -> bool {
        let now = self.since_begin();
        let mut outages = self.scenario.faults.outages.iter();
        outages.any(|outage| outage.effects.contains(&effect) && outage.from <= now && now < outage.until)
    }
}
