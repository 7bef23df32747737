//! The loop: what is next on the timeline, until nothing is under way any more.

mod acks;
mod api;
mod asked;
mod audiences;
mod browsers;
mod callbacks;
mod cancellations;
mod hostile;
mod invocations;
mod listings;
mod operators;
mod passes;
mod persons;
mod place;
mod producers;
mod protection;
mod queues;
mod report;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::time::Duration;

use redial_core::dead_letter::DeadLetterKey;
use redial_core::erasure::Erasure;
use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::ledger::Cancellation;
use redial_core::share::{Concurrency, Share};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::cleanup::Sweep;
use redial_engine::http_api::Answer;
use redial_engine::ports::{Acknowledged, PortError};
use redial_memory::{Memory, State};
use serde_json::Value;

pub use report::Report;

use place::Place;

use crate::promises::{self, Remains};
use crate::scenario::focus::Focus;
use crate::scenario::messages::Sending;
use crate::scenario::{BEGIN, Scenario, TENANTS};
use crate::situations::Situation;
use crate::sqs::{Source, Sqs, Stored, VISIBILITY};
use crate::stage::Stage;
use crate::timeline::{Event, Next, Timeline};
use crate::trace::Trace;
use crate::watch::Watch;

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// After how long without faults everything has to be over: the longest schedule of retries, a TTL of a day, and what cleanup needs.
const SETTLING: Duration = Duration::from_secs(4 * 86_400);
/// How often the origins of a stream are looked at.
const LOOKS_EVERY: Duration = Duration::from_secs(10);
/// How many steps a scenario may take.
const MOST_STEPS: u64 = 400_000;

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario, keeps_trace: bool) -> Report {
    World::new(scenario, keeps_trace).run()
}

/// What an invocation answers.
enum Done {
    /// The MessageIds that must come back.
    Batch(Vec<String>),
    Swept,
    /// To a producer, item by item; `None` for what is no message.
    Entered(Vec<Option<Answer>>),
    /// To a caller who cancels a delivery.
    Cancelled(Result<Cancellation, PortError>),
    /// To a tenant who has a person erased.
    Requested(Box<Result<Option<Erasure>, PortError>>),
    /// To a browser.
    Acknowledged(Result<Acknowledged, PortError>),
}

struct Task {
    future: Pin<Box<dyn Future<Output = Done>>>,
    worker: usize,
    source: Option<Source>,
    messages: Vec<Stored>,
}

struct World {
    stage: Stage,
    memory: Memory,
    sqs: Sqs,
    places: Vec<Place>,
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Ready>,
    serial: u64,
    /// Executions under way, with those that will be stopped.
    executions: BTreeMap<WaitBucket, bool>,
    /// The number of each receiver's latest subscription.
    incarnations: Vec<u32>,
    /// What producers received.
    events: Vec<Value>,
    accepted: BTreeMap<DeliveryKey, Vec<Sending>>,
    planned: usize,
    /// Requests to the HTTP API that are under way, by their invocations, and what each of them says.
    requests: BTreeMap<u64, asked::Request>,
    texts: BTreeMap<usize, Vec<asked::Item>>,
    /// Cancellations under way by their invocations: which actions they are.
    cancelling: BTreeMap<u64, usize>,
    /// The same of requests to erase a person.
    erasing: BTreeMap<u64, usize>,
    /// All reports of browsers, and those under way by their invocations.
    reports: Vec<asked::Report>,
    reporting: BTreeMap<u64, usize>,
    /// Dead letters that are marked as sent again.
    replayed: BTreeSet<DeadLetterKey>,
    /// The keys of hashes, and how often they changed.
    keys: Option<&'static str>,
    generation: u32,
    /// How many dead letters cleanup has described.
    described: usize,
    /// How many messages were sent that are too long to be sent again.
    too_long: usize,
    /// Whether nothing happened since subscriptions were looked at last.
    is_observed: bool,
    /// After how many moves audiences were looked at last.
    looked_after: usize,
}

#[derive(Default)]
struct Ready(Mutex<BTreeSet<u64>>);

struct Waking(u64, Arc<Ready>);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.1.0.lock().unwrap_or_else(PoisonError::into_inner).insert(self.0);
    }
}

impl World {
    fn new(scenario: &Scenario, keeps_trace: bool) -> Self {
        let begin = Timestamp::parse_rfc3339(BEGIN).expect("invariant: a constant");
        let timeline = Timeline::starting_at(begin);
        let stage = Stage {
            scenario: Arc::new(scenario.clone()),
            begin,
            timeline: timeline.clone(),
            rng: Arc::new(Mutex::new(scenario.random_numbers())),
            watch: Watch::default(),
            trace: Trace::new(keeps_trace),
        };
        let memory = Memory::at(begin);
        {
            let mut state = memory.state();
            state.has_events = true;
            state.index_lag = scenario.faults.index_lag;
            let concurrency =
                scenario.most_at_once.and_then(|most| Concurrency::parse(&most.to_string()).ok());
            let limited = Tenant::parse(TENANTS[0]).expect("invariant: a tenant's name");
            state.shares.insert(limited, Share { concurrency, ..Share::default() });
        }
        if scenario.together.is_some() {
            stage.watch.saw(Situation::TwoAreas);
        }
        stage.watch.memo().has_far_clocks = scenario.pressure.has_far_clocks;
        let later = scenario.audiences.later.map_or(Duration::ZERO, |later| later.until);
        let calm_from = begin.plus(scenario.faults_end.max(later)).plus(2 * VISIBILITY);
        {
            let mut memo = stage.watch.memo();
            memo.lone = scenario.fails_alone();
            memo.punctual.calm_from = calm_from;
            memo.punctual.sweep_every = scenario.storage.sweep_every;
        }
        for (at, _) in scenario.sendings.iter().enumerate() {
            let event = if scenario.by_api.contains_key(&at) { Event::Request(at) } else { Event::Send(at) };
            timeline.at(begin.plus(scenario.sendings[at].at), event);
        }
        for (at, (after, _)) in scenario.actions.iter().enumerate() {
            timeline.at(begin.plus(*after), Event::Action(at));
        }
        if scenario.stream.is_some() {
            timeline.after(LOOKS_EVERY, Event::Look);
        }
        for (at, (after, _)) in scenario.operations.iter().enumerate() {
            timeline.at(begin.plus(*after), Event::Operation(at));
        }
        for (sweep, first) in [(Sweep::Waits, 60), (Sweep::Prune, 120), (Sweep::Bodies, 180)] {
            timeline.after(Duration::from_secs(first), Event::Sweep(sweep));
        }
        if scenario.focus == Some(Focus::Erased) {
            timeline.after(Duration::from_secs(240), Event::Sweep(Sweep::Erasures));
        }
        let mut world = Self {
            memory,
            sqs: Sqs::new(scenario.pressure.twice_at_last),
            places: Vec::new(),
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            serial: 0,
            executions: BTreeMap::new(),
            incarnations: vec![0; scenario.receivers.len()],
            events: Vec::new(),
            accepted: BTreeMap::new(),
            planned: scenario.sendings.len() + scenario.actions.len(),
            requests: BTreeMap::new(),
            texts: BTreeMap::new(),
            cancelling: BTreeMap::new(),
            erasing: BTreeMap::new(),
            reports: Vec::new(),
            reporting: BTreeMap::new(),
            replayed: BTreeSet::new(),
            keys: None,
            generation: 0,
            described: 0,
            too_long: 0,
            is_observed: false,
            looked_after: 0,
            stage,
        };
        for receiver in 0..scenario.receivers.len() {
            world.subscribe(receiver);
        }
        world.admit_foe();
        world.set_callbacks();
        world.plan_audiences();
        world.plan_storage();
        for number in 0..scenario.clocks.len() {
            let place = world.instance(number);
            world.places.push(place);
        }
        world
    }

    /// A worker that remembers nothing.
    fn instance(&self, number: usize) -> Place {
        Place::new(number, &self.stage, &self.memory, &self.hash_keys(), self.generation)
    }

    fn now(&self) -> Timestamp {
        self.stage.timeline.now()
    }

    fn trace(&self, who: &str, what: std::fmt::Arguments<'_>) {
        self.stage.trace.add(self.now(), who, what);
    }

    fn run(mut self) -> Report {
        let scenario = &self.stage.scenario;
        let later = scenario.audiences.later.map(|later| later.until).unwrap_or_default();
        let last_faults_end = later.max(scenario.faults_end);
        let end = self.stage.begin.plus(last_faults_end.max(scenario.storage.lasts) + SETTLING);
        let mut steps = 0;
        loop {
            while let Some(id) = self.next_ready() {
                self.poll(id);
                self.collect(Some(id));
                self.follow_origins(false);
                self.follow_recipients();
            }
            self.browsers_report();
            self.receive();
            self.observe();
            if self.is_quiet() {
                break;
            }
            steps += 1;
            if steps > MOST_STEPS {
                self.stage.watch.memo().violated("it never ends".to_owned());
                break;
            }
            let next = self.stage.timeline.advance(end);
            self.memory.state().now = self.now();
            match next {
                Next::Woken => {}
                Next::Event(event) => self.happens(event),
                Next::Nothing => break,
            }
        }
        self.look_at_sizes();
        self.look_around();
        self.ask_by_state();
        self.look_recipients_up();
        let state = self.memory.state();
        let remains = Remains {
            scenario: &self.stage.scenario,
            is_quiet: self.is_quiet_with(&state),
            state: &state,
            sqs: &self.sqs,
            events: &self.events,
            faults_end: self.stage.begin.plus(self.stage.scenario.faults_end),
            last_faults_end: self.stage.begin.plus(last_faults_end),
            accepted: &self.accepted,
            storage: &self.stage.scenario.storage,
            calm_from: self.stage.begin.plus(self.stage.scenario.faults_end),
            too_long: self.too_long,
        };
        promises::judge(&remains, &mut self.stage.watch.memo());
        drop(state);
        let posts = {
            let state = self.memory.state();
            state.sent.len() + state.webhooks.len()
        };
        let memo = self.stage.watch.memo();
        Report {
            seed: self.stage.scenario.seed,
            violations: memo.violations.clone(),
            situations: memo.situations.clone(),
            steps,
            deliveries: self.accepted.len(),
            posts,
            calls: memo.calls,
            received: self.sqs.received,
            trace: self.stage.trace.text(),
        }
    }

    fn next_ready(&self) -> Option<u64> {
        self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }

    /// Whether nothing is under way, and nothing is to come.
    fn is_quiet(&self) -> bool {
        let state = self.memory.state();
        self.is_quiet_with(&state)
    }

    fn is_quiet_with(&self, state: &State) -> bool {
        self.planned == 0 && self.is_idle_with(state)
    }

    /// Whether nothing is under way, and nothing fails.
    fn is_idle_with(&self, state: &State) -> bool {
        !self.stage.has_faults()
            && self.tasks.is_empty()
            && self.sqs.is_empty()
            && self.executions.is_empty()
            && state.parked.is_empty()
            && state.registered.is_empty()
            && state.lines.is_empty()
            && state.open_windows.is_empty()
            && state.removed.is_empty()
            && state.erasures.is_empty()
            && state.subscriptions.values().all(|it| it.gone_confirmed_at.is_none())
    }

    fn happens(&mut self, event: Event) {
        self.is_observed &= matches!(event, Event::Receive);
        match event {
            Event::Send(at) => self.send(at),
            Event::Operation(at) => self.operate(at),
            Event::Action(at) => self.operator_acts(at),
            Event::Request(at) => self.request(at),
            Event::Report(at) => self.report(at),
            Event::Look => self.look_after_origins(),
            Event::SendToTag(at) => self.send_to_tag(at),
            Event::Expiry => self.delete_expired(),
            Event::Membership(at) => self.change_membership(at),
            Event::Act(at) => self.act(at),
            Event::Receive => {}
            Event::Deadline(id) => {
                if self.tasks.contains_key(&id) {
                    self.stage.watch.saw(Situation::Timeout);
                    self.dies(id, "time-out");
                }
            }
            Event::Execution(bucket) => self.execution_ends(bucket),
            Event::ExecutionStopped(bucket) => self.execution_is_stopped(bucket),
            Event::Sweep(which) => {
                let every = self.stage.scenario.storage.sweep_every;
                let rests = self.rests_until().map_or(Duration::ZERO, |until| until.since(self.now()));
                // Each in its own minute: at the same moment, the first would keep the only worker from the others for good.
                let times = rests.as_millis().div_ceil(every.as_millis()).max(1);
                self.stage
                    .timeline
                    .after(every * u32::try_from(times).unwrap_or(u32::MAX), Event::Sweep(which));
                self.look_around();
                if which == Sweep::Prune {
                    self.ask_by_state();
                }
                self.stage.watch.memo().lines_move(&self.memory.state(), which == Sweep::Waits);
                self.sweep(which);
            }
        }
    }
}
