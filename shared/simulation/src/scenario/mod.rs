//! What a seed stands for: who sends what to whom, what receivers answer, and what goes wrong meanwhile.

pub mod acks;
pub mod api;
pub mod audiences;
pub mod faults;
pub mod messages;
pub mod operations;
pub mod operators;
pub mod pressure;
pub mod protection;
pub mod receivers;
pub mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use api::Besides;
use audiences::Audiences;
use faults::Faults;
use messages::Sending;
use operations::Operation;
use operators::Action;
use pressure::Pressure;
use protection::Stream;
use receivers::Receiver;
use storage::{Others, Storage};

/// When every scenario begins.
pub const BEGIN: &str = "2026-11-21T10:00:00Z";

/// For how long producers send.
const SENDING: Duration = Duration::from_secs(2 * 3600);

pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// By how much a worker's clock is wrong. It stays within two seconds of `far`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// In the beginning, in milliseconds; negative if it is behind.
    pub ahead: i64,
    /// What it is ahead besides, in milliseconds, where clocks are further off than a lease allows for.
    pub far: i64,
    /// By how many milliseconds more with each hour, until it is at a bound and turns round.
    pub drift: i64,
}

impl Clock {
    const BOUND: i64 = 2_000;

    fn draw(rng: &mut StdRng, is_skewed: bool, drifts: bool) -> Self {
        let ahead = if is_skewed { rng.random_range(-Self::BOUND..=Self::BOUND) } else { 0 };
        Self { ahead, far: 0, drift: if drifts { rng.random_range(-Self::BOUND..=Self::BOUND) } else { 0 } }
    }

    /// What it is ahead of the true time after so long, in milliseconds.
    pub fn ahead_after(self, passed: Duration) -> i64 {
        let drifted = i128::from(self.drift) * passed.as_millis() as i128 / 3_600_000;
        let place = (i128::from(self.ahead + Self::BOUND) + drifted) as i64;
        let there_and_back = place.rem_euclid(4 * Self::BOUND);
        there_and_back.min(4 * Self::BOUND - there_and_back) - Self::BOUND + self.far
    }
}

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
    /// A steady stream instead of a few messages.
    pub stream: Option<Stream>,
    pub actions: Vec<(Duration, Action)>,
    /// The messages that go through the HTTP API, by their places, and what their requests have besides.
    pub by_api: BTreeMap<usize, Besides>,
    /// The ids whose messages ask for acknowledgements.
    pub acknowledged: BTreeSet<String>,
}

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
        let scenario = Self {
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
            stream: None,
            actions: Vec::new(),
            by_api: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
        };
        scenario.with_operators().under_pressure()
    }

    /// What operators do, the HTTP API, acknowledgements and streams, where nothing else happens but that reads are old.
    fn with_operators(self) -> Self {
        let storage = Storage { stale: self.storage.stale, ..Storage::default() };
        if self.audiences != Audiences::default() || self.storage != storage {
            return self;
        }
        let actions = operators::look_after(&mut source(self.seed, "operators"), self.faults_end);
        Self { actions, ..self }.with_stream().with_api().with_acks()
    }

    /// Pressure, where nothing else happens.
    fn under_pressure(mut self) -> Self {
        let is_plain = self.audiences == Audiences::default()
            && self.storage == Storage::default()
            && self.stream.is_none()
            && self.actions.is_empty()
            && self.by_api.is_empty()
            && self.acknowledged.is_empty();
        if is_plain {
            let rng = &mut source(self.seed, "pressure");
            pressure::put_on(&mut self, rng);
        }
        self
    }

    /// In a share of the seeds the messages, receivers and faults are those of a stream.
    fn with_stream(self) -> Self {
        let rng = &mut source(self.seed, "protection");
        let spread = |end| Faults::draw(&mut source(self.seed, "stream's faults"), end, true);
        let Some(drawn) = protection::draw(rng, spread) else { return self };
        let protection::Drawn { stream, receivers, sendings, faults, faults_end } = drawn;
        let actions = operators::protect(rng, receivers.len(), stream.until);
        let stream = Some(stream);
        Self { stream, receivers, sendings, faults, faults_end, actions, operations: Vec::new(), ..self }
    }

    fn with_api(self) -> Self {
        let by_api = match self.stream {
            None => api::draw(&mut source(self.seed, "api"), self.sendings.len()),
            Some(_) => BTreeMap::new(),
        };
        Self { by_api, ..self }
    }

    fn with_acks(self) -> Self {
        let ids = self.sendings.iter().map(|sending| sending.id.as_str());
        let acknowledged = acks::draw(&mut source(self.seed, "acks"), ids);
        Self { acknowledged, ..self }
    }

    /// What decides everything that is not fixed by the scenario itself.
    pub fn random_numbers(&self) -> StdRng {
        source(self.seed ^ (self.schedule << 48), "schedule")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_drifts_between_its_bounds() {
        let clock = Clock { ahead: 1_500, drift: 1_000, far: 0 };
        let after =
            [0.0, 0.5, 1.0, 4.5, 6.5].map(|hours| clock.ahead_after(Duration::from_secs_f64(hours * 3600.0)));
        assert_eq!(after, [1_500, 2_000, 1_500, -2_000, 0]);
        assert_eq!(Clock { drift: -1_000, ..clock }.ahead_after(Duration::from_secs(3600)), 500);
        assert_eq!(Clock { ahead: -700, ..Clock::default() }.ahead_after(Duration::from_secs(9)), -700);
    }
}
