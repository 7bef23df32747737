//! A small AWS on virtual time: queues that deliver again what was not acknowledged, executions that end waits, a cleanup that
//! drains dead letters and sweeps. It runs until nothing is under way.

mod cleaning;
mod fixtures;
mod outcomes;
mod queues;

pub(crate) use fixtures::{Whom, endpoint, origin, tenant};

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use redial_core::body::Body;
use redial_core::endpoint::{HashKeys, Origin};
use redial_core::lane::Lane;
use redial_core::ledger::Cancellation;
use redial_core::message::QueueKind;
use redial_core::protection::{Cooldowns, OriginState};
use redial_core::queue::{Attribute, Queue};
use redial_core::route::WaitSettings;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;
use redial_core::wait::Release;
use redial_engine::cancel;
use redial_engine::cleanup::Sweep;
use redial_engine::deliver::{Incoming, Invocation, Settings, return_all};
use redial_engine::ports::{Clock, Partition, Randomness, Receipt, StoredOrigin};
use redial_engine::protection::{Guard, Settings as ProtectionSettings};
use redial_memory::{self as memory, Calls, CleanupWorker, Death, DispatchWorker, Memory, Outage};

/// SQS's visibility time-out: six times the function's time-out.
const VISIBILITY: Duration = Duration::from_secs(180);
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// `maxReceiveCount` of every source queue.
const MAX_RECEIVE_COUNT: u32 = 20;

/// An event on the stack's own queue: its MessageId, its body, and the targets that lack it, where some have it.
type Announced = (String, String, Option<Targets>);

#[derive(Clone, Debug)]
struct Queued {
    message_id: String,
    body: String,
    kind: QueueKind,
    lane: Lane,
    sent: Timestamp,
    visible_at: Timestamp,
    receives: u32,
    traceparent: Option<Traceparent>,
}

/// The queues around workers of dispatch and cleanup.
pub(crate) struct Harness {
    pub(crate) memory: Memory,
    pub(crate) worker: DispatchWorker,
    pub(crate) cleanup: CleanupWorker,
    queued: Vec<Queued>,
    /// The dead-letter queue: message id and body.
    dead_letters: Vec<(String, String)>,
    /// Messages to recipients of audiences that were set aside, if they are.
    recipients: Option<Vec<String>>,
    /// The events that producers received.
    pub(crate) events: Vec<serde_json::Value>,
    /// The stack's own queue of events. It is used where events are relayed.
    announced: Vec<Announced>,
    serial: u32,
    invocations: u32,
    next_sweep: Timestamp,
    executions_run: bool,
    /// Whether SQS delivers first what came last.
    pub(crate) newest_first: bool,
    /// Whether each message that is put on a queue is there twice, under two MessageIds.
    pub(crate) copies: bool,
    /// Bodies that redrive took out of their queues.
    pub(crate) redriven: Vec<String>,
    /// Those of them that cleanup has not dealt with.
    quarantined: Vec<String>,
    /// The delivery that is cancelled when a worker of dispatch is held up.
    pub(crate) to_cancel: Option<&'static str>,
    /// What that came to, and how often it had been posted then.
    pub(crate) cancelled: Option<(Cancellation, usize)>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let start = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid");
        let memory = Memory::at(start);
        let waits = WaitSettings { shards: 3, ..WaitSettings::default() };
        let settings = Settings { waits, ..memory::dispatch_settings() };
        Self {
            worker: memory.dispatch(settings, Guard::default()),
            cleanup: memory.cleanup(memory::cleanup_settings()),
            memory,
            queued: Vec::new(),
            dead_letters: Vec::new(),
            recipients: None,
            events: Vec::new(),
            announced: Vec::new(),
            serial: 0,
            invocations: 0,
            next_sweep: start,
            executions_run: true,
            newest_first: false,
            copies: false,
            redriven: Vec::new(),
            quarantined: Vec::new(),
            to_cancel: None,
            cancelled: None,
        }
    }

    pub(crate) fn run_to_the_end(mut self) -> Self {
        self.run();
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.memory.now()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, memory::State> {
        self.memory.state()
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.memory.pass(time);
    }

    /// Endpoints are hashed with a new key from now on; the former one is still known.
    pub(crate) fn rotate_hash_key(&mut self) {
        let keys = HashKeys::parse("k2:fedcba9876543210,k1:0123456789abcdef").expect("valid");
        self.worker.settings.hash_keys = keys.clone();
        self.cleanup.settings.hash_keys = keys;
    }

    /// Another worker on the same ports, which remembers nothing.
    pub(crate) fn another_worker(&self, number: u32) -> DispatchWorker {
        let guard = Guard::new(ProtectionSettings::default(), number);
        self.memory.another_worker().dispatch(self.worker.settings.clone(), guard)
    }

    /// Another worker takes the place of this one, and remembers nothing.
    pub(crate) fn replace_worker(&mut self, number: u32) {
        self.worker = self.another_worker(number);
        self.memory = self.worker.system.clone();
        self.cleanup = self.memory.cleanup(self.cleanup.settings.clone());
    }

    /// Puts a body on the transactional ingest queue.
    pub(crate) fn produce(&mut self, body: &str) -> String {
        self.enqueue(body.to_owned(), QueueKind::Ingest, Lane::Transactional, self.now())
    }

    /// Puts a body on the transactional ingest queue, and runs it to its end.
    pub(crate) fn deliver(&mut self, body: &str) {
        self.produce(body);
        self.run();
    }

    /// Puts a body on the transactional ingest queue, in this trace by its attribute.
    pub(crate) fn produce_traced(&mut self, body: &str, traceparent: Traceparent) -> String {
        let message_id = self.produce(body);
        self.queued.last_mut().expect("it was just queued").traceparent = Some(traceparent);
        message_id
    }

    /// Puts a body on the bulk lane's ingest queue.
    pub(crate) fn produce_in_bulk(&mut self, body: &str) -> String {
        self.enqueue(body.to_owned(), QueueKind::Ingest, Lane::Bulk, self.now())
    }

    /// Puts a body on the transactional retry queue.
    pub(crate) fn produce_retry(&mut self, body: &str) -> String {
        self.enqueue(body.to_owned(), QueueKind::Retry, Lane::Transactional, self.now())
    }

    /// Puts a body on the transactional ingest queue, `after` from now.
    pub(crate) fn produce_after(&mut self, after: Duration, body: &str) {
        let at = self.now().plus(after);
        self.enqueue(body.to_owned(), QueueKind::Ingest, Lane::Transactional, at);
        self.queued.last_mut().expect("it was just queued").sent = at;
    }

    /// The worker dies so, once.
    pub(crate) fn will_die(&self, death: Death) {
        self.state().death = Some(death);
    }

    /// These calls fail for `lasting`, from the effect of that number on.
    pub(crate) fn will_be_out(&self, calls: Calls, from_effect: usize, lasting: Duration) {
        let until = self.now().plus(lasting);
        self.state().outage = Some(Outage { calls, from_effect, until });
    }

    pub(crate) fn open_breaker(&self, origin: &Origin, lasting: Duration) {
        let mut state = OriginState::default();
        state.open(lasting, self.now(), &Cooldowns::default(), &mut self.memory.rng());
        self.state().origins.insert(origin.clone(), StoredOrigin { state, version: 1 });
    }

    fn enqueue(&mut self, body: String, kind: QueueKind, lane: Lane, visible_at: Timestamp) -> String {
        self.serial += 1;
        let message_id = format!("sqs-{}", self.serial);
        let sent = self.now();
        let id = message_id.clone();
        let queued =
            Queued { message_id: id, body, kind, lane, sent, visible_at, receives: 0, traceparent: None };
        self.queued.push(queued.clone());
        if self.copies {
            self.serial += 1;
            self.queued.push(Queued { message_id: format!("sqs-{}", self.serial), ..queued });
        }
        message_id
    }

    /// Runs until nothing is under way; panics if that never happens.
    pub(crate) fn run(&mut self) {
        for _ in 0..5_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it never ends: {:?}", self.state().ledger);
    }

    /// Sets after how long a failing webhook receiver is switched off.
    pub(crate) fn switch_off_after(&mut self, after: Duration) {
        self.worker.settings.switched_off_after = after;
        self.cleanup.settings.switched_off_after = after;
    }

    /// Runs until `at`, or until the first thing that happens after it.
    pub(crate) fn run_to(&mut self, at: Timestamp) {
        while self.now() < at && self.step() {}
    }

    /// Runs until something has come about; panics if it never does.
    pub(crate) fn run_until(&mut self, come_about: impl Fn(&Self) -> bool) {
        for _ in 0..5_000 {
            if come_about(self) {
                return;
            }
            assert!(self.step(), "nothing is under way any more: {:?}", self.state().ledger);
        }
        panic!("it never comes about: {:?}", self.state().ledger);
    }

    /// The same as [`Self::run`], while an operator stops every execution.
    pub(crate) fn run_without_executions(&mut self) {
        self.executions_run = false;
        self.run();
    }

    /// Does what is next; `false` if nothing is left to do.
    fn step(&mut self) -> bool {
        self.clean_all();
        self.relay_all();
        self.collect();
        let now = self.now();
        if self.holds_in_lines() {
            self.next_sweep = self.next_sweep.min(now.plus(Duration::from_secs(60)));
        }
        if self.next_sweep <= now {
            self.next_sweep = now.plus(Duration::from_secs(300));
            self.sweep(Sweep::Waits);
            return true;
        }
        self.redrive();
        let mut due: Vec<usize> =
            (0..self.queued.len()).filter(|at| self.queued[*at].visible_at <= now).collect();
        if self.newest_first {
            due.reverse();
        }
        if due.is_empty() {
            return self.advance();
        }
        let first = &self.queued[due[0]];
        let due = due.iter().map(|at| &self.queued[*at]);
        let batch = due.filter(|it| it.kind == first.kind && it.lane == first.lane).take(10);
        let batch: Vec<String> = batch.map(|it| it.message_id.clone()).collect();
        self.invoke(&batch);
        true
    }

    /// Lets time pass until something happens.
    fn advance(&mut self) -> bool {
        if !self.executions_run {
            self.state().executions.clear();
        }
        let bucket = self.state().executions.iter().map(|bucket| bucket.start()).min();
        let message = self.queued.iter().map(|message| message.visible_at).min();
        // Late buckets are the sweep's, and what time changes of lines.
        let is_swept = !self.state().registered.is_empty() || self.holds_in_lines();
        let sweep = is_swept.then_some(self.next_sweep);
        // What cleanup could not deal with waits for its queue's visibility time-out.
        let is_left =
            !self.dead_letters.is_empty() || !self.announced.is_empty() || !self.quarantined.is_empty();
        let cleanup = is_left.then(|| self.now().plus(Duration::from_secs(60)));
        let Some(next) = [bucket, message, sweep, cleanup].into_iter().flatten().min() else { return false };
        let now = self.now();
        self.pass(next.since(now));
        let now = self.now();
        let ended: Vec<_> =
            self.state().executions.iter().filter(|bucket| bucket.start() <= now).copied().collect();
        for bucket in ended {
            self.state().executions.remove(&bucket);
            self.enqueue(Release::Bucket(bucket).to_body(), QueueKind::Retry, bucket.lane(), now);
        }
        true
    }

    pub(crate) fn holds_in_lines(&self) -> bool {
        self.state().parked.keys().any(|key| matches!(key.partition, Partition::Line(_)))
    }

    fn collect(&mut self) {
        let sent: Vec<_> = self.state().outbox.drain(..).collect();
        let now = self.now();
        for message in sent {
            match message.queue {
                Queue::Retry(_) if self.recipients.is_some() && message.body.contains("\"recipient\":") => {
                    self.recipients.get_or_insert_default().push(message.body);
                }
                Queue::Retry(lane) => {
                    let visible_at = now.plus(Duration::from_secs(message.delay.get().into()));
                    self.enqueue(message.body, QueueKind::Retry, lane, visible_at);
                }
                Queue::Ingest(lane) => {
                    self.enqueue(message.body, QueueKind::Ingest, lane, now);
                }
                Queue::Events if self.relays() => {
                    self.serial += 1;
                    let targets = match message.attribute {
                        Some(Attribute::Targets(targets)) => Some(targets),
                        Some(Attribute::Trace(_)) | None => None,
                    };
                    self.announced.push((format!("sqs-{}", self.serial), message.body, targets));
                }
                Queue::Events | Queue::ProducersEvents => {
                    self.events.push(serde_json::from_str(&message.body).expect("JSON"));
                }
                Queue::DeadLetters => {
                    self.serial += 1;
                    self.dead_letters.push((format!("sqs-{}", self.serial), message.body));
                }
            }
        }
    }

    /// One invocation of dispatch, whose worker may die.
    fn invoke(&mut self, ids: &[String]) {
        let (now, incoming) = (self.now(), self.receive(ids));
        let invocation = self.invocation();
        let is_out = self.state().is_out("start");
        let mut cancelled = None;
        let done = if is_out {
            // No worker can start: it holds nothing that it would need.
            let memory = &self.memory;
            until_stalled(return_all(memory, memory, &incoming, now, memory.rng()))
        } else {
            let mut delivering = pin!(self.worker.deliver(&invocation, incoming));
            let done = until_stalled(&mut delivering);
            let is_held_up = done.is_none() && self.state().held_up_at.is_some();
            match self.to_cancel.filter(|_| is_held_up) {
                Some(id) => {
                    cancelled = Some((self.cancel(id), self.posts_to(id)));
                    self.memory.resume();
                    until_stalled(delivering)
                }
                None => done,
            }
        };
        self.cancelled = cancelled.or(self.cancelled);
        match done {
            None => {
                self.revive();
                if self.copies {
                    self.deliver_together();
                }
            }
            Some(back) => self.acknowledge(ids, &back),
        }
    }

    pub(crate) fn invocation(&mut self) -> Invocation {
        self.invocations += 1;
        Invocation {
            lease_token: format!("invocation-{}", self.invocations),
            deadline: self.now().plus(FUNCTION_TIMEOUT),
        }
    }

    /// A caller cancels a delivery, whatever becomes of workers.
    pub(crate) fn cancel(&self, id: &str) -> Cancellation {
        let ports = self.memory.another_worker();
        let key = Self::key(id);
        let cancelling = cancel::cancel(&ports, &ports, &key, self.now());
        until_stalled(cancelling).expect("nothing kills it").expect("nothing fails")
    }

    /// Another worker takes the dead one's place.
    fn revive(&mut self) {
        self.memory.revive();
        self.replace_worker(1);
    }

    /// A queued message as SQS delivers it: once, or again.
    pub(crate) fn incoming_of(&mut self, message_id: &str) -> Incoming {
        let queued = self.queued.iter_mut().find(|message| message.message_id == message_id);
        incoming(queued.expect("it is queued"))
    }

    /// One invocation with exactly this message, which the worker survives; whether the message is acknowledged.
    pub(crate) fn acknowledges(&mut self, message_id: &str) -> bool {
        let incoming = self.incoming_of(message_id);
        self.invoke_with(vec![incoming]).is_empty()
    }

    /// One invocation with exactly this message, whose worker dies after its next effect of that name.
    pub(crate) fn dies_over(&mut self, message_id: &str, effect: &'static str) {
        self.will_die(Death::AfterNext(effect));
        let incoming = self.incoming_of(message_id);
        assert_eq!(self.invoke_until_death(vec![incoming]), None);
        assert_eq!(self.state().trace.last(), Some(&effect));
        self.memory.revive();
    }

    /// One invocation with exactly these messages; returns those that come back.
    pub(crate) fn invoke_with(&mut self, incoming: Vec<Incoming>) -> Vec<String> {
        self.invoke_until_death(incoming).expect("nothing kills it")
    }

    /// The same, for an invocation that may never end.
    pub(crate) fn invoke_until_death(&mut self, incoming: Vec<Incoming>) -> Option<Vec<String>> {
        let invocation = self.invocation();
        until_stalled(self.worker.deliver(&invocation, incoming))
    }

    /// The next invocation has the lease token of the last one, as where a claim that was not answered is made again.
    pub(crate) fn repeat_lease_token(&mut self) {
        self.invocations -= 1;
    }

    pub(crate) fn drop_travelling(&mut self) {
        self.collect();
        self.queued.clear();
        self.dead_letters.clear();
    }
}

/// Polls a future for as long as it makes progress; `None` if it waits for what never comes, as after a death.
pub(crate) fn until_stalled<T>(future: impl Future<Output = T>) -> Option<T> {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut future = pin!(future);
    while woken.0.swap(false, Ordering::SeqCst) {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
    }
    None
}

fn incoming(queued: &mut Queued) -> Incoming {
    queued.receives += 1;
    Incoming {
        message_id: queued.message_id.clone(),
        receipt: Receipt { lane: queued.lane, kind: queued.kind, handle: queued.message_id.clone() },
        body: Body::new(queued.body.clone()),
        sent: queued.sent,
        receive_count: queued.receives,
        traceparent: queued.traceparent,
    }
}
