//! All that a seed stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;

use super::api::Besides;
use super::audiences::Audiences;
use super::clock::Clock;
use super::crowd::{Crowd, Lone};
use super::drawing::source;
use super::faults::Faults;
use super::focus::Focus;
use super::hostile::Foe;
use super::messages::Sending;
use super::operations::Operation;
use super::operators::Action;
use super::pressure::Pressure;
use super::protection::Stream;
use super::receivers::Receiver;
use super::storage::Storage;
use super::together::Together;

/// All that a seed stands for.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// Which of its schedules: 0, or another that a search for a smaller scenario tried.
    pub schedule: u64,
    /// The one situation that it is about, if it is about one alone.
    pub focus: Option<Focus>,
    /// One for each worker.
    pub clocks: Vec<Clock>,
    /// Its areas, if it has two.
    pub together: Option<Together>,
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
    /// A hostile tenant beside the others.
    pub foe: Option<Foe>,
    /// Many recipients of one service, some of which differ.
    pub crowd: Option<Crowd>,
    pub actions: Vec<(Duration, Action)>,
    /// The messages that go through the HTTP API, by their places, and what their requests have besides.
    pub by_api: BTreeMap<usize, Besides>,
    /// The ids whose messages ask for acknowledgements.
    pub acknowledged: BTreeSet<String>,
    /// Whether events go by a queue of the stack's own, and from there to the producers' queue and to a bus.
    pub relays: bool,
    /// How many of the first tenant's attempts may be under way together, if that is limited.
    pub most_at_once: Option<u32>,
    /// Whether each tenant's events are also posted to a webhook of its own.
    pub calls_back: bool,
}

impl Scenario {
    /// One in which nothing happens.
    pub(super) fn blank(seed: u64) -> Self {
        Self {
            seed,
            schedule: 0,
            focus: None,
            clocks: vec![Clock::default()],
            together: None,
            shards: 4,
            faults: Faults::default(),
            faults_end: Duration::ZERO,
            receivers: Vec::new(),
            sendings: Vec::new(),
            operations: Vec::new(),
            audiences: Audiences::default(),
            storage: Storage::default(),
            pressure: Pressure::default(),
            stream: None,
            foe: None,
            crowd: None,
            actions: Vec::new(),
            by_api: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            relays: false,
            most_at_once: None,
            calls_back: false,
        }
    }

    /// The recipient that alone fails, where nothing else does.
    pub fn fails_alone(&self) -> Option<Lone> {
        self.crowd.filter(|_| self.is_calm_stream())?.fails_alone()
    }

    /// The receiver that alone is refused, where nothing else fails but all receivers together.
    pub fn refused_alone(&self) -> Option<String> {
        let is_so = self.focus == Some(Focus::Refused) && self.faults == Faults::default();
        is_so.then(|| "r0".to_owned())
    }

    /// Whether it is a stream in which nothing fails but receivers.
    pub fn is_calm_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_calm)
    }

    /// What decides everything that is not fixed by the scenario itself.
    pub fn random_numbers(&self) -> StdRng {
        source(self.seed ^ (self.schedule << 48), "schedule")
    }
}
