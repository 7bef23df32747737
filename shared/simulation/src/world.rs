//! The loop: invocations of dispatch and cleanup, their deaths, executions, sweeps, users and operators.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redial_core::body::Body;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::queue::Queue;
use redial_core::recipient::Recipient;
use redial_core::route::WaitSettings;
use redial_core::subscription::{State as SubscriptionState, Subscription};
use redial_core::time::Timestamp;
use redial_core::wait::{Release, WaitBucket};
use redial_core::webhook::WebhookTarget;
use redial_engine::cleanup::{self, QueueMessage, Sweep};
use redial_engine::deliver::{self, Incoming, Invocation};
use redial_engine::ports::Receipt;
use redial_engine::protection::{Guard, Settings as ProtectionSettings};
use redial_memory::{self as memory, CleanupWorker, Memory, State};
use serde_json::{Value, json};

use crate::scenario::{BEGIN, Operation, Scenario, Sending, TENANTS};
use crate::situations::{Situation, Situations};
use crate::sqs::{Source, Sqs, Stored};
use crate::timeline::{Event, Next, Timeline};
use crate::trace::Trace;
use crate::verdict::{self, Remains};
use crate::watch::{Promise, Watch, WatchedLedger};
use crate::worker::{Stage, Worker, endpoint};

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
const SWEEP_EVERY: Duration = Duration::from_secs(300);
/// After how long without faults everything has to be over: the longest schedule of retries, a TTL of a day, and what cleanup needs.
const SETTLING: Duration = Duration::from_secs(4 * 86_400);
/// How many steps a scenario may take.
const MOST_STEPS: u64 = 400_000;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// A worker of dispatch whose ledger is under watch.
type Dispatch = deliver::Worker<Watched>;

#[derive(Debug)]
struct Watched;

impl deliver::Ports for Watched {
    type System = Memory;
    type Telemetry = Memory;
    type Outbox = Memory;
    type Ledger = WatchedLedger;
    type Subscriptions = Memory;
    type Policies = Memory;
    type Audiences = Memory;
    type Protection = Memory;
    type PushSender = Memory;
    type WebhookSender = Memory;
    type Parking = Memory;
    type WaitRegistry = Memory;
    type WaitExecutions = Memory;
    type DeadLetterBodies = Memory;
}

/// What a simulation found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub seed: u64,
    /// What must not be, in the order in which it came about.
    pub violations: Vec<String>,
    pub situations: Situations,
    pub steps: u64,
    pub deliveries: usize,
    pub posts: usize,
    /// Of the trace.
    pub hash: u64,
    pub trace: String,
}

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario, keeps_trace: bool) -> Report {
    World::new(scenario, keeps_trace).run()
}

/// What an invocation answers.
enum Done {
    /// The MessageIds that must come back.
    Batch(Vec<String>),
    Swept,
}

struct Task {
    future: Pin<Box<dyn Future<Output = Done>>>,
    worker: usize,
    source: Option<Source>,
    messages: Vec<Stored>,
}

/// A worker's place: the instance in it changes with every death and cold start.
struct Place {
    schedule: Worker,
    dispatch: Arc<Dispatch>,
    cleanup: Arc<CleanupWorker>,
    is_busy: bool,
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
            rng: Arc::new(Mutex::new(StdRng::seed_from_u64(scenario.seed ^ 0x5eed))),
            watch: Watch::default(),
            trace: Trace::new(keeps_trace),
        };
        let memory = Memory::at(begin);
        memory.state().has_events = true;
        for (at, _) in scenario.sendings.iter().enumerate() {
            timeline.at(begin.plus(scenario.sendings[at].at), Event::Send(at));
        }
        for (at, (after, _)) in scenario.operations.iter().enumerate() {
            timeline.at(begin.plus(*after), Event::Operation(at));
        }
        for (sweep, first) in [(Sweep::Waits, 60), (Sweep::Prune, 120), (Sweep::Bodies, 180)] {
            timeline.after(Duration::from_secs(first), Event::Sweep(sweep));
        }
        let mut world = Self {
            memory,
            sqs: Sqs::default(),
            places: Vec::new(),
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            serial: 0,
            executions: BTreeMap::new(),
            incarnations: vec![0; scenario.receivers.len()],
            events: Vec::new(),
            accepted: BTreeMap::new(),
            planned: scenario.sendings.len(),
            stage,
        };
        for receiver in 0..scenario.receivers.len() {
            world.subscribe(receiver);
        }
        for number in 0..scenario.skews.len() {
            let place = world.instance(number);
            world.places.push(place);
        }
        world
    }

    /// A worker that remembers nothing.
    fn instance(&self, number: usize) -> Place {
        let scenario = &self.stage.scenario;
        let schedule = Worker::new(format!("worker{number}"), scenario.skews[number], self.stage.clone());
        let memory = self.memory.scheduled(Arc::new(schedule.clone()));
        let waits = WaitSettings { shards: scenario.shards, ..WaitSettings::default() };
        let settings = deliver::Settings { waits, ..memory::dispatch_settings() };
        let of = || memory.clone();
        let ledger = WatchedLedger {
            memory: of(),
            watch: self.stage.watch.clone(),
            trace: self.stage.trace.clone(),
            worker: schedule.name.clone(),
        };
        let dispatch = Dispatch {
            settings,
            guard: Guard::new(ProtectionSettings::default(), u32::try_from(number).unwrap_or_default()),
            system: of(),
            telemetry: of(),
            outbox: of(),
            ledger,
            subscriptions: of(),
            policies: of(),
            audiences: of(),
            protection: of(),
            push_sender: of(),
            webhook_sender: of(),
            parking: of(),
            wait_registry: of(),
            wait_executions: of(),
            dead_letter_bodies: of(),
        };
        let cleanup = memory.cleanup(memory::cleanup_settings());
        Place { schedule, dispatch: Arc::new(dispatch), cleanup: Arc::new(cleanup), is_busy: false }
    }

    fn now(&self) -> Timestamp {
        self.stage.timeline.now()
    }

    fn trace(&self, who: &str, what: std::fmt::Arguments<'_>) {
        self.stage.trace.add(self.now(), who, what);
    }

    fn run(mut self) -> Report {
        let end = self.stage.begin.plus(self.stage.scenario.faults_end + SETTLING);
        let mut steps = 0;
        loop {
            while let Some(id) = self.next_ready() {
                self.poll(id);
                self.collect();
            }
            self.receive();
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
        let state = self.memory.state();
        let remains = Remains {
            is_quiet: self.is_quiet_with(&state),
            state: &state,
            sqs: &self.sqs,
            events: &self.events,
            accepted: &self.accepted,
        };
        verdict::judge(&remains, &mut self.stage.watch.memo());
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
            hash: self.stage.trace.hash(),
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
        self.planned == 0
            && !self.stage.has_faults()
            && self.tasks.is_empty()
            && self.sqs.is_empty()
            && self.executions.is_empty()
            && state.parked.is_empty()
            && state.registered.is_empty()
            && state.open_windows.is_empty()
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Send(at) => self.send(at),
            Event::Operation(at) => self.operate(at),
            Event::Receive => {}
            Event::Deadline(id) => {
                if self.tasks.contains_key(&id) {
                    self.stage.watch.saw(Situation::Timeout);
                    self.dies(id, "time-out");
                }
            }
            Event::Execution(bucket) => self.execution_ends(bucket),
            Event::Sweep(which) => {
                self.stage.timeline.after(SWEEP_EVERY, Event::Sweep(which));
                self.sweep(which);
            }
        }
    }

    // ---- Producers, users and operators ------------------------------------------------------------------------------

    fn send(&mut self, at: usize) {
        self.planned -= 1;
        let sending = self.stage.scenario.sendings[at].clone();
        let now = self.now();
        let receiver = &self.stage.scenario.receivers[sending.receiver];
        let address = endpoint(sending.receiver, receiver.is_webhook, self.incarnations[sending.receiver]);
        let mut to = json!({"subscription": format!("r{}", sending.receiver)});
        if sending.by_address {
            to = if receiver.is_webhook {
                json!({"webhook": {"url": address}})
            } else {
                json!({"web_push": {"endpoint": address, "keys": {"p256dh": P256DH, "auth": AUTH}}})
            };
        }
        let Sending { tenant, id, content, .. } = &sending;
        let mut body =
            json!({"tenant": tenant, "id": id, "to": to, "payload": format!("{tenant}/{id}/{content}")});
        let deliver_at = sending.deliver_at.map(|after| self.stage.begin.plus(after));
        let more = [
            ("ttl", sending.ttl.map(Value::from)),
            ("class", sending.class.map(Value::from)),
            ("retry", sending.retry.map(Value::from)),
            ("deliver_at", deliver_at.map(|at| at.to_rfc3339().into())),
        ];
        for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            body[name] = value;
        }
        let from = deliver_at.unwrap_or(now).max(now);
        let usual = match sending.class {
            _ if receiver.is_webhook => 365 * 86_400,
            Some("otp") => 60,
            Some("campaign") => 86_400,
            _ => 14_400,
        };
        // A TTL of 0 is one attempt, whenever it can be made.
        let ttl = Duration::from_secs(sending.ttl.filter(|ttl| *ttl > 0).map_or(usual, u64::from));
        let ttl = if sending.ttl == Some(0) { SETTLING * 2 } else { ttl };
        let attempts = match sending.retry {
            Some("none") => 1,
            Some("schedule-standard") => 4,
            Some("schedule-cautious" | "fixed-jitter") => 6,
            _ => 8,
        };
        let key = delivery(tenant, id);
        let until = from.plus(ttl);
        let mut memo = self.stage.watch.memo();
        // Of several messages of one id any may be the one that counts.
        let promise = memo.promises.entry(key.clone()).or_insert(Promise { from, until, attempts });
        *promise = Promise { from: promise.from.min(from), until: promise.until.max(until), attempts };
        drop(memo);
        self.accepted.entry(key.clone()).or_default().push(sending.clone());
        let lane = if sending.class == Some("campaign") { Lane::Bulk } else { Lane::Transactional };
        self.trace("producer", format_args!("sends {key} content {content} to r{}", sending.receiver));
        self.enqueue(Source::Ingest(lane), body.to_string(), Duration::ZERO);
    }

    fn operate(&mut self, at: usize) {
        let (_, operation) = self.stage.scenario.operations[at].clone();
        self.trace("user", format_args!("{operation:?}"));
        match operation {
            Operation::Moves(receiver) => {
                self.stage.watch.saw(Situation::Moved);
                self.incarnations[receiver] += 1;
                self.subscribe(receiver);
            }
            Operation::Returns(receiver) => {
                let is_off = TENANTS.iter().any(|tenant| {
                    let state = self.memory.state();
                    let stored = state.subscriptions.get(&subscription(tenant, receiver));
                    stored.is_none_or(|stored| stored.state != SubscriptionState::Active)
                });
                if is_off {
                    self.incarnations[receiver] += 1;
                    self.subscribe(receiver);
                }
            }
        }
    }

    /// Stores a receiver's subscription with each tenant.
    fn subscribe(&mut self, receiver: usize) {
        let is_webhook = self.stage.scenario.receivers[receiver].is_webhook;
        let address = endpoint(receiver, is_webhook, self.incarnations[receiver]);
        let endpoint = Endpoint::parse(&address).expect("invariant: an HTTPS address");
        for tenant in TENANTS {
            let key = subscription(tenant, receiver);
            let recipient = if is_webhook {
                Recipient::Webhook(WebhookTarget::at(endpoint.clone()))
            } else {
                let keys = PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys");
                Recipient::WebPush(PushTarget { endpoint: endpoint.clone(), keys, vapid_key_id: None })
            };
            let stored = Subscription::new(key.clone(), recipient);
            self.memory.state().subscriptions.insert(key, stored);
        }
    }

    // ---- Queues and executions ---------------------------------------------------------------------------------------

    fn enqueue(&mut self, source: Source, body: String, delay: Duration) {
        let now = self.now();
        if body.contains("\"receives\":") {
            self.stage.watch.saw(Situation::SentAgain);
        }
        let id = self.sqs.send(source, body, now, delay);
        self.trace("sqs", format_args!("{source:?} holds {id} for {delay:?}"));
        self.stage.timeline.after(delay, Event::Receive);
    }

    /// Takes what workers sent into the queues, and what they started into executions.
    fn collect(&mut self) {
        let (sent, come_back, started) = {
            let mut state = self.memory.state();
            let started: Vec<_> = state
                .executions
                .iter()
                .filter(|bucket| !self.executions.contains_key(bucket))
                .copied()
                .collect();
            (std::mem::take(&mut state.outbox), std::mem::take(&mut state.come_back), started)
        };
        for message in sent {
            let delay = Duration::from_secs(message.delay.get().into());
            match message.queue {
                Queue::Ingest(lane) => self.enqueue(Source::Ingest(lane), message.body, delay),
                Queue::Retry(lane) => self.enqueue(Source::Retry(lane), message.body, delay),
                Queue::DeadLetters => self.enqueue(Source::DeadLetters, message.body, delay),
                Queue::Events => {
                    let event = serde_json::from_str(&message.body).expect("invariant: an event is JSON");
                    self.trace("events", format_args!("{}", message.body));
                    self.events.push(event);
                }
            }
        }
        for (receipt, secs) in come_back {
            self.comes_back(&receipt, secs);
        }
        for bucket in started {
            let is_stopped = self.stage.strikes(self.stage.scenario.faults.stopped);
            self.executions.insert(bucket, is_stopped);
            let late = Duration::from_millis(self.stage.rng().random_range(0..3_000));
            self.stage.timeline.at(bucket.start().plus(late), Event::Execution(bucket));
        }
    }

    fn comes_back(&mut self, receipt: &Receipt, secs: u32) {
        if self.stage.strikes(self.stage.scenario.faults.visibility_lost) {
            return;
        }
        let Some((id, receives)) = receipt.handle.rsplit_once('/') else { return };
        let at = self.now().plus(Duration::from_secs(secs.into()));
        let source = Source::of(receipt.kind, receipt.lane);
        if self.sqs.change_visibility(source, id, receives.parse().unwrap_or_default(), at) {
            self.stage.timeline.at(at, Event::Receive);
        }
    }

    fn execution_ends(&mut self, bucket: WaitBucket) {
        let Some(is_stopped) = self.executions.remove(&bucket) else { return };
        self.memory.state().executions.remove(&bucket);
        if is_stopped {
            self.stage.watch.saw(Situation::ExecutionStopped);
            return self.trace("sfn", format_args!("{} was stopped", bucket.name()));
        }
        let repeated = self.stage.strikes(self.stage.scenario.faults.repeated);
        if repeated {
            self.stage.watch.saw(Situation::ExecutionRepeated);
        }
        for _ in 0..1 + usize::from(repeated) {
            self.trace("sfn", format_args!("{} releases", bucket.name()));
            let body = Release::Bucket(bucket).to_body();
            self.enqueue(Source::Retry(bucket.lane()), body, Duration::ZERO);
        }
    }

    // ---- Invocations -------------------------------------------------------------------------------------------------

    fn free_place(&mut self) -> Option<usize> {
        let free: Vec<usize> = (0..self.places.len()).filter(|at| !self.places[*at].is_busy).collect();
        if free.is_empty() {
            return None;
        }
        let at = free[self.stage.rng().random_range(0..free.len())];
        if self.stage.strikes(self.stage.scenario.faults.cold_start) {
            self.places[at] = self.instance(at);
        }
        Some(at)
    }

    /// Hands visible messages to free workers.
    fn receive(&mut self) {
        let now = self.now();
        for source in Source::ALL {
            while self.sqs.visible_at(source).is_some_and(|at| at <= now) {
                let Some(place) = self.free_place() else { return };
                let most = self.stage.rng().random_range(1..=10);
                let duplicates =
                    if self.stage.has_faults() { self.stage.scenario.faults.duplicate } else { 0.0 };
                let before = self.sqs.redriven;
                let messages = self.sqs.receive(source, now, most, &mut self.stage.rng(), duplicates);
                for _ in before..self.sqs.redriven {
                    self.stage.watch.saw(Situation::Redriven);
                }
                if messages.is_empty() {
                    break;
                }
                self.stage.timeline.after(crate::sqs::VISIBILITY, Event::Receive);
                match source.kind() {
                    Some((kind, lane)) => self.invoke_dispatch(place, source, kind, lane, messages),
                    None => self.invoke_cleanup(place, source, messages),
                }
            }
        }
    }

    fn begins(&mut self, place: usize) -> (u64, String) {
        self.serial += 1;
        let token = format!("i{}", self.serial);
        self.places[place].schedule.begins(&token);
        self.places[place].is_busy = true;
        self.stage.timeline.after(FUNCTION_TIMEOUT, Event::Deadline(self.serial));
        (self.serial, token)
    }

    fn deadline(&self, place: usize) -> Timestamp {
        let now = self.now().plus(FUNCTION_TIMEOUT);
        Timestamp::from_ms(now.as_ms() + self.places[place].schedule.skew)
    }

    fn invoke_dispatch(
        &mut self,
        place: usize,
        source: Source,
        kind: QueueKind,
        lane: Lane,
        messages: Vec<Stored>,
    ) {
        let (id, lease_token) = self.begins(place);
        let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{lease_token} receives {ids:?} of {source:?}"));
        let incoming: Vec<Incoming> = messages
            .iter()
            .map(|message| Incoming {
                message_id: message.id.clone(),
                receipt: Receipt { lane, kind, handle: format!("{}/{}", message.id, message.receives) },
                body: Body::new(message.body.clone()),
                sent: message.sent,
                receive_count: message.receives,
            })
            .collect();
        let invocation = Invocation { lease_token, deadline: self.deadline(place) };
        let worker = self.places[place].dispatch.clone();
        let future = async move { Done::Batch(worker.deliver(&invocation, incoming).await) };
        self.start(id, Task { future: Box::pin(future), worker: place, source: Some(source), messages });
    }

    fn invoke_cleanup(&mut self, place: usize, source: Source, messages: Vec<Stored>) {
        let (id, token) = self.begins(place);
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{token} cleans {} of {source:?}", messages.len()));
        let worker = self.places[place].cleanup.clone();
        let received = messages.clone();
        let future = async move {
            let mut failed = Vec::new();
            for message in received {
                let cleaned = QueueMessage {
                    message_id: message.id.clone(),
                    body: Body::new(message.body),
                    sent: message.sent,
                    is_reference: source == Source::DeadLetters,
                };
                if worker.clean(&cleaned).await.is_err() {
                    failed.push(message.id);
                }
            }
            Done::Batch(failed)
        };
        self.start(id, Task { future: Box::pin(future), worker: place, source: Some(source), messages });
    }

    fn sweep(&mut self, which: Sweep) {
        let Some(place) = self.free_place() else { return };
        let (id, _) = self.begins(place);
        let worker = self.places[place].cleanup.clone();
        let deadline = self.deadline(place);
        let watch = self.stage.watch.clone();
        let future = async move {
            if let Ok(cleanup::Swept { released, pruned, .. }) = worker.sweep(which, deadline).await {
                (0..released).for_each(|_| watch.saw(Situation::ReleasedBySweep));
                (0..pruned).for_each(|_| watch.saw(Situation::Pruned));
            }
            Done::Swept
        };
        self.start(id, Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() });
    }

    fn start(&mut self, id: u64, task: Task) {
        self.tasks.insert(id, task);
        self.poll(id);
        self.collect();
    }

    fn poll(&mut self, id: u64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let waker = Waker::from(Arc::new(Waking(id, self.ready.clone())));
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
        let place = task.worker;
        if self.places[place].schedule.is_dead() {
            return self.dies(id, "death");
        }
        if let Poll::Ready(done) = polled {
            self.ends(id, done);
        }
    }

    /// The instance is gone, and SQS hears nothing.
    fn dies(&mut self, id: u64, why: &str) {
        let Some(task) = self.tasks.remove(&id) else { return };
        let schedule = self.places[task.worker].schedule.clone();
        self.trace(&schedule.name, format_args!("{} ends by {why}", schedule.token()));
        self.stage.watch.died(&schedule.token());
        self.places[task.worker] = self.instance(task.worker);
    }

    /// An invocation has answered: what it does not return is deleted.
    fn ends(&mut self, id: u64, done: Done) {
        let Some(task) = self.tasks.remove(&id) else { return };
        self.places[task.worker].is_busy = false;
        let (Done::Batch(back), Some(source)) = (done, task.source) else { return };
        let name = self.places[task.worker].schedule.name.clone();
        self.trace(&name, format_args!("ends; {back:?} come back"));
        for message in task.messages.iter().filter(|message| !back.contains(&message.id)) {
            if !self.stage.strikes(self.stage.scenario.faults.ack_lost) {
                self.sqs.delete(source, &message.id);
            }
        }
    }
}

fn delivery(tenant: &str, id: &str) -> DeliveryKey {
    DeliveryKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: DeliveryId::parse(id).expect("invariant: a delivery's id"),
    }
}

fn subscription(tenant: &str, receiver: usize) -> SubscriptionKey {
    SubscriptionKey {
        tenant: Tenant::parse(tenant).expect("invariant: a tenant's name"),
        id: SubscriptionId::parse(&format!("r{receiver}")).expect("invariant: a subscription's id"),
    }
}
