//! What a seed stands for: who sends what to whom, what receivers answer, and what goes wrong meanwhile.

pub mod acks;
pub mod api;
pub mod audiences;
pub mod clock;
pub mod crowd;
pub mod drawing;
pub mod faults;
pub mod focus;
mod focused;
pub mod hostile;
pub mod hours;
pub mod messages;
pub mod operations;
pub mod operators;
pub mod persons;
pub mod pressure;
pub mod protection;
pub mod receivers;
mod seats;
pub mod storage;
pub mod together;
mod under_pressure;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;

use audiences::Audiences;
use drawing::{secs, source};
use faults::{Faults, Hot};
use focus::Focus;
use pressure::Pressure;
use storage::{Others, Storage};
use together::Together;

pub use clock::Clock;
pub use drawing::{BEGIN, TENANTS};
pub use whole::Scenario;

/// How often people are drawn until there are some.
const TRIES: usize = 16;

/// A scenario that lasts this long is about what the ledger has forgotten.
const LONG: Duration = Duration::from_secs(7 * 86_400);

/// How old an eventually consistent read of a stream is at the most.
const STALE: Duration = Duration::from_secs(3);

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let focus = Focus::draw(&mut source(seed, "focus"));
        focus.map_or_else(|| Self::of_areas(seed), |focus| focused::scenario(focus, seed))
    }

    fn of_areas(seed: u64) -> Self {
        let rng = &mut source(seed, "scenario");
        let faults_end = secs(rng, 600, 4 * 3600);
        // Few messages let their schedules be read; many let a breaker open.
        let are_many = rng.random_bool(0.1);
        let workers = rng.random_range(1..=8);
        let is_skewed = rng.random_bool(0.5);
        let drifts = rng.random_bool(0.3);
        let mut receivers = receivers::draw(&mut source(seed, "receivers"), faults_end);
        let together = Together::draw(&mut source(seed, "together"));
        let of_audiences = &mut source(seed, "audiences");
        let mut audiences = match together {
            None => Audiences::draw(of_audiences, faults_end),
            Some(areas) if areas.has_audiences() => Audiences::some(of_audiences, faults_end).within_days(),
            Some(_) => Audiences::default(),
        };
        audiences.goes_by_the_page(&mut source(seed, "pages"));
        let mut faults = Faults::draw(&mut source(seed, "faults"), faults_end, are_many);
        faults.outages.extend(audiences.outages(of_audiences, faults_end));
        audiences.temper(&mut faults);
        let retries_twice = audiences.crosses(&mut source(seed, "crossing"), &mut faults);
        let throttled = match retries_twice {
            true => None,
            false => audiences.in_vain(&mut source(seed, "parts in vain"), &mut faults),
        };
        faults.hot = Hot::draw(&mut source(seed, "hot"), faults_end);
        faults.index_lag = faults::index_lag(&mut source(seed, "index"));
        let of_relay = &mut source(seed, "relay");
        let relays = of_relay.random_bool(0.1);
        if relays {
            faults.outages.extend(faults::of_the_bus(of_relay, faults_end));
        }
        let mut sendings = messages::draw(&mut source(seed, "messages"), receivers.len(), are_many);
        let operations = operations::draw(&mut source(seed, "operations"), receivers.len());
        let others = &mut Others {
            faults: &mut faults,
            faults_end,
            receivers: &mut receivers,
            sendings: &mut sendings,
        };
        let of_base = (others.receivers.len(), others.sendings.len());
        // Most scenarios are about one area, so that they can be read.
        let has_audiences = audiences != Audiences::default();
        let storage = match together {
            None if has_audiences => Storage::default(),
            None => Storage::draw(&mut source(seed, "storage"), others),
            Some(areas) if areas.has_storage() => Storage::some(&mut source(seed, "storage"), others),
            Some(_) => Storage::default(),
        };
        let scenario = Self {
            seed,
            schedule: 0,
            focus: None,
            together,
            clocks: (0..workers).map(|_| Clock::draw(rng, is_skewed, drifts)).collect(),
            shards: *[1, 2, 4, 16].choose(rng).unwrap_or(&1),
            faults,
            faults_end,
            sendings,
            operations,
            receivers,
            audiences,
            storage,
            pressure: Pressure { throttled, retries_twice, ..Pressure::default() },
            stream: None,
            foe: None,
            crowd: None,
            actions: Vec::new(),
            by_api: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            relays,
            most_at_once: None,
            calls_back: false,
        };
        let scenario = match together {
            None => scenario.with_operators().under_pressure(),
            Some(areas) => scenario.with_two(areas, of_base),
        };
        scenario.with_callbacks()
    }

    /// Where events are relayed, few enough that posting them does not drown the rest, and the ledger is not to forget what they led to.
    fn with_callbacks(self) -> Self {
        let are_few = self.stream.is_none() && self.foe.is_none() && self.audiences == Audiences::default();
        let calls_back = self.relays && are_few && self.storage.lasts < LONG;
        Self { calls_back, ..self }
    }

    /// What makes the second of two areas, besides audiences and storage. `of_base`: how many receivers and messages are not storage's,
    /// whose receivers keep what they do, and whose messages are sent.
    fn with_two(self, areas: Together, of_base: (usize, usize)) -> Self {
        let mut scenario = self;
        if areas == Together::AudiencesAndFoe {
            let drawn = hostile::some(&mut source(scenario.seed, "hostile"), scenario.faults_beside_a_foe());
            let is_limited = drawn.foe.limit.is_some();
            let audiences = std::mem::take(&mut scenario.audiences);
            // A limit would take an audience days.
            scenario.audiences = if is_limited { Audiences::default() } else { audiences.calmed() };
            scenario.pressure = Pressure::default();
            scenario = scenario.beside(drawn);
        }
        if areas.has_people() {
            scenario = scenario.with_people();
        }
        if areas.has_pressure() && scenario.audiences.is_small() {
            let (receivers, sendings) = of_base;
            let own = scenario.receivers[receivers..].to_vec();
            let own_sendings = scenario.sendings.split_off(sendings);
            let rng = &mut source(scenario.seed, "pressure");
            under_pressure::put_on_another_area(&mut scenario, receivers, rng);
            scenario.receivers[receivers..receivers + own.len()].clone_from_slice(&own);
            scenario.sendings.extend(own_sendings);
        }
        scenario
    }

    /// Operators, the HTTP API or acknowledgements.
    fn with_people(self) -> Self {
        let mut tries = (0..).map(|n| {
            let seed = self.seed.rotate_left(n);
            let actions = operators::look_after(&mut source(seed, "operators"), self.faults_end);
            let by_api = api::draw(&mut source(seed, "api"), self.sendings.len());
            let ids = self.sendings.iter().map(|sending| sending.id.as_str());
            (actions, by_api, acks::draw(&mut source(seed, "acks"), ids))
        });
        let is_some = |(actions, by_api, acknowledged): &(Vec<_>, BTreeMap<_, _>, BTreeSet<_>)| {
            !actions.is_empty() || !by_api.is_empty() || !acknowledged.is_empty()
        };
        let found = tries.by_ref().take(TRIES).find(is_some).unwrap_or_default();
        drop(tries);
        let (actions, by_api, acknowledged) = found;
        Self { actions, by_api, acknowledged, ..self }
    }

    /// What operators do, the HTTP API, acknowledgements and streams, where nothing else happens but that reads are old.
    fn with_operators(self) -> Self {
        let storage = Storage { stale: self.storage.stale, ..Storage::default() };
        if self.audiences != Audiences::default() || self.storage != storage {
            return self;
        }
        let actions = operators::look_after(&mut source(self.seed, "operators"), self.faults_end);
        let plain = Self { actions, ..self };
        match plain.clone().with_foe() {
            Some(scenario) => scenario,
            None => match plain.clone().with_crowd() {
                Some(scenario) => scenario,
                None => plain.with_stream().with_api().with_acks().with_cancellations(),
            },
        }
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
            under_pressure::put_on(&mut self, rng);
        }
        self
    }

    fn faults_beside_a_foe(&self) -> impl FnOnce(Duration) -> Faults + use<> {
        let seed = self.seed;
        move |end| Faults::draw(&mut source(seed, "foe's faults"), end, true)
    }

    /// In a share of the seeds, others' messages beside those of a hostile tenant.
    fn with_foe(self) -> Option<Self> {
        let drawn = hostile::draw(&mut source(self.seed, "hostile"), self.faults_beside_a_foe())?;
        Some(self.beside(drawn))
    }

    fn beside(self, drawn: hostile::Drawn) -> Self {
        let hostile::Drawn { foe, stream, receivers, sendings, faults, faults_end } = drawn;
        // Clocks that are right let a promise about seconds be one about seconds.
        let clocks =
            if foe.is_calm { vec![Clock::default(); self.clocks.len()] } else { self.clocks.clone() };
        let set = |rate| (Duration::ZERO, operators::Action::Limit(operators::Whose::Origin(0), Some(rate)));
        let actions = foe.limit.map(set).into_iter().collect();
        let operations = Vec::new();
        let (foe, stream) = (Some(foe), Some(stream));
        Self { foe, stream, receivers, sendings, faults, faults_end, clocks, operations, actions, ..self }
    }

    /// In a share of the seeds they are those of a stream to many recipients of one service.
    fn with_crowd(self) -> Option<Self> {
        let rng = &mut source(self.seed, "crowd");
        let spread = |end| Faults::draw(&mut source(self.seed, "crowd's faults"), end, true);
        let (crowd, drawn) = crowd::draw(rng, spread)?;
        let protection::Drawn { stream, receivers, sendings, faults, faults_end } = drawn;
        let mut clocks = self.clocks;
        clocks.truncate(crowd::most_workers(&crowd, rng));
        if stream.is_calm {
            clocks.fill(Clock::default());
        }
        let actions = crowd::limit(&crowd, rng);
        let (crowd, stream, operations) = (Some(crowd), Some(stream), Vec::new());
        let storage = Storage { stale: Duration::ZERO, ..self.storage };
        Some(Self {
            crowd,
            stream,
            clocks,
            receivers,
            sendings,
            faults,
            faults_end,
            operations,
            actions,
            storage,
            ..self
        })
    }

    /// In a share of the seeds the messages, receivers and faults are those of a stream.
    fn with_stream(self) -> Self {
        let rng = &mut source(self.seed, "protection");
        let spread = |end| Faults::draw(&mut source(self.seed, "stream's faults"), end, true);
        let Some(drawn) = protection::draw(rng, spread) else { return self };
        let protection::Drawn { stream, receivers, sendings, faults, faults_end } = drawn;
        let actions = operators::protect(rng, receivers.len(), stream.until);
        // It ends with its faults, which may be sooner than those that were drawn before.
        let hot = self.faults.hot.filter(|hot| !stream.is_calm && hot.from < faults_end);
        let hot = hot.map(|hot| Hot { until: hot.until.min(faults_end), ..hot });
        let faults = Faults { hot, ..faults };
        let stream = Some(stream);
        // Workers that open a breaker, and then read how it was before: few, so that the same one goes on.
        let (stale, mut clocks) = (rng.random_bool(0.5).then_some(STALE), self.clocks);
        if stale.is_some() && rng.random_bool(0.5) {
            clocks.truncate(2);
        }
        let stale = stale.unwrap_or(self.storage.stale);
        let storage = Storage { stale, ..self.storage };
        Self {
            stream,
            clocks,
            receivers,
            sendings,
            faults,
            faults_end,
            actions,
            storage,
            operations: Vec::new(),
            ..self
        }
    }

    fn with_api(self) -> Self {
        let by_api = match self.stream {
            None => api::draw(&mut source(self.seed, "api"), self.sendings.len()),
            Some(_) => BTreeMap::new(),
        };
        Self { by_api, ..self }
    }

    /// Where messages are no stream.
    fn with_cancellations(mut self) -> Self {
        if self.stream.is_none() {
            let rng = &mut source(self.seed, "cancellations");
            self.actions.extend(operators::cancel(rng, &self.sendings, self.faults_end));
        }
        self
    }

    fn with_acks(self) -> Self {
        let ids = self.sendings.iter().map(|sending| sending.id.as_str());
        let acknowledged = acks::draw(&mut source(self.seed, "acks"), ids);
        Self { acknowledged, ..self }
    }
}
