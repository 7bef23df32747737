//! In-memory twins of the ports, for tests of the passes over them.
//!
//! Every call of a port is an *effect* with a number, and a test may kill the worker before or after any of them: a call
//! that dies never returns, like one of a process that was killed. So a test can kill a worker between any two effects, start
//! another over what the first left, and look at what became of every message.

mod audiences;
mod expiry;
mod http_api;
mod items;
mod ledger;
mod protection;
mod queues;
mod quotas;
pub mod schedule;
pub mod senders;
mod subscriptions;
mod telemetry;
mod waits;

pub use expiry::Row;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::access::{ApiKeyId, StoredKey, TokenKeys};
use redial_core::ack::AckEvent;
use redial_core::audience::{Progress, Run, RunKey};
use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Reference};
use redial_core::endpoint::{EndpointHash, HashKeys, Origin, PushHosts};
use redial_core::identity::{DeliveryKey, SubscriptionKey, Tenant};
use redial_core::ledger::{Entry, PastAttempt};
use redial_core::metric::Metric;
use redial_core::outcome::{NotSent, Outcome};
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::Stored;
use redial_core::protection::Counted;
use redial_core::queue::Outgoing;
use redial_core::quota::{Exceeded, Limit, Quota};
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::route::WaitSettings;
use redial_core::subscription::{SpikeGuard, Subscription};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_core::webhook::SWITCHED_OFF_AFTER;
use redial_engine::ports::{
    Added, Clock, Limited, ParkedItem, ParkedKey, PortError, PruneCandidate, PublicKey, Randomness, Receipt,
    StoredOrigin,
};
use redial_engine::protection::Guard;
use redial_engine::quota::QuotaGuard;
use redial_engine::{cleanup, deliver};

use schedule::Schedule;

pub type DispatchWorker = deliver::Worker<Memory>;
pub type CleanupWorker = cleanup::Worker<Memory>;

impl deliver::Ports for Memory {
    type System = Self;
    type Telemetry = Self;
    type Outbox = Self;
    type Ledger = Self;
    type Subscriptions = Self;
    type Policies = Self;
    type Audiences = Self;
    type Protection = Self;
    type PushSender = Self;
    type WebhookSender = Self;
    type Parking = Self;
    type WaitRegistry = Self;
    type WaitExecutions = Self;
    type DeadLetterBodies = Self;
    type Quotas = Self;
}

impl cleanup::Ports for Memory {
    type Clock = Self;
    type Telemetry = Self;
    type Outbox = Self;
    type Ledger = Self;
    type Policies = Self;
    type Subscriptions = Self;
    type Audiences = Self;
    type Parking = Self;
    type WaitRegistry = Self;
    type DeadLetters = Self;
}

/// Settings for which `https://push.example` is a push service.
pub fn dispatch_settings() -> deliver::Settings {
    deliver::Settings {
        waits: WaitSettings::default(),
        push_hosts: PushHosts::parse("push.example").expect("valid"),
        egress_allow: Vec::new(),
        hash_keys: HashKeys::parse("k1:0123456789abcdef").expect("valid"),
        lease_margin: Duration::from_secs(10),
        token_keys: TokenKeys::new([("k1".to_owned(), [7; TokenKeys::KEY_BYTES])]).expect("valid"),
        switched_off_after: SWITCHED_OFF_AFTER,
    }
}

/// Settings with the same keys.
pub fn cleanup_settings() -> cleanup::Settings {
    cleanup::Settings {
        hash_keys: dispatch_settings().hash_keys,
        guard: SpikeGuard::default(),
        switched_off_after: SWITCHED_OFF_AFTER,
        late_after: cleanup::LATE_AFTER,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Before the effect of that number (from 1) is made.
    Before(usize),
    /// After it was made, before it is answered.
    After(usize),
    /// After the next effect of this name was made, before it is answered.
    AfterNext(&'static str),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentPush {
    pub endpoint: String,
    pub payload: Vec<u8>,
    pub ttl_secs: u32,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentWebhook {
    pub url: String,
    pub tenant: Tenant,
    pub id: String,
    /// `webhook-timestamp`, in epoch seconds.
    pub timestamp: i64,
    pub body: Vec<u8>,
    /// `content-type`, where there is a body: a custom one, or the payload's own.
    pub content_type: Option<String>,
    /// The custom headers, the message's over its receiver's.
    pub headers: Vec<(String, String)>,
    /// What it is signed with, `whsec_…`; empty for the tenant's own secrets.
    pub secrets: Vec<String>,
    /// How long it was waited for an answer at most.
    pub within: Duration,
    pub at: Timestamp,
}

/// What the ports hold, and what tests make them do.
#[derive(Debug, Default)]
pub struct State {
    pub now: Timestamp,
    pub effects: usize,
    /// Names of the effects so far.
    pub trace: Vec<&'static str>,
    pub death: Option<Death>,
    /// The effect before which the worker is held up, until [`Memory::resume`].
    pub held_up_at: Option<usize>,
    /// What wakes it then.
    held_up: Vec<Waker>,
    pub outage: Option<Outage>,
    /// How long each call of that name takes.
    pub slow: HashMap<&'static str, Duration>,
    /// Calls that are to fail: by name, how often.
    pub failing: HashMap<&'static str, (usize, PortErrorKind)>,
    pub ledger: HashMap<DeliveryKey, Entry>,
    /// Attempts that were recorded, in order.
    pub attempts: HashMap<DeliveryKey, Vec<PastAttempt>>,
    /// What browsers acknowledged first, and when.
    pub acknowledged: BTreeMap<(DeliveryKey, AckEvent), Timestamp>,
    pub public_keys: Vec<PublicKey>,
    pub origins: BTreeMap<Origin, StoredOrigin>,
    /// What origins' states were before, each with when it was replaced: for eventually consistent reads.
    pub former_origins: BTreeMap<Origin, Vec<(Timestamp, StoredOrigin)>>,
    pub counters: BTreeMap<(Origin, u16), Counted>,
    pub limits: BTreeMap<Limited, Rate>,
    /// Tenants' own quotas.
    pub quotas: BTreeMap<(Tenant, Quota), Limit>,
    /// What tenants' quotas count, but for subscriptions.
    pub used: BTreeMap<Added, u64>,
    /// Exceeded quotas that were logged.
    pub exceeded: Vec<(Tenant, Exceeded)>,
    /// From when slots of buckets are free.
    pub slots: BTreeMap<String, Timestamp>,
    /// Breakers' transitions that were logged: from, to.
    pub breakers: Vec<(&'static str, &'static str)>,
    /// Subscriptions that were logged as put in quarantine, with their endpoints' hashes.
    pub quarantined: Vec<(SubscriptionKey, String)>,
    pub policies: BTreeMap<Tenant, Vec<Stored>>,
    /// Tenants' policies as they were last read.
    pub followed: BTreeMap<Tenant, TenantPolicies>,
    pub access_keys: BTreeMap<ApiKeyId, StoredKey>,
    pub subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// What is left of erased ones: the hash of the endpoint, and when.
    pub tombstones: BTreeMap<SubscriptionKey, (EndpointHash, Timestamp)>,
    pub runs: BTreeMap<RunKey, Run>,
    /// A part that another worker moves there just before it is moved.
    pub crossing: Option<((RunKey, u8), Progress)>,
    pub progress: BTreeMap<(RunKey, u8), Progress>,
    /// When the rows of that expire.
    pub part_expiries: BTreeMap<(RunKey, u8), Timestamp>,
    /// Whether producers listen to events.
    pub has_events: bool,
    pub outbox: Vec<Outgoing>,
    /// Messages that come back, and after how many seconds.
    pub come_back: Vec<(Receipt, u32)>,
    pub parked: BTreeMap<ParkedKey, ParkedItem>,
    pub registered: BTreeMap<WaitBucket, u16>,
    pub executions: BTreeSet<WaitBucket>,
    pub bodies: BTreeMap<DeadLetterKey, DeadLetterBody>,
    /// The items of those that are longer than one.
    pub body_parts: BTreeMap<DeadLetterKey, BTreeMap<usize, String>>,
    pub described: BTreeMap<DeadLetterKey, Reference>,
    /// What the senders answer, by endpoint, the first first; then [`State::usual_answer`].
    pub answers: HashMap<String, Vec<Outcome>>,
    /// How long receivers whose URLs begin so take to answer.
    pub slow_receivers: BTreeMap<String, Duration>,
    /// What the senders answer else; if unset, a push 201 and a webhook 200.
    pub usual_answer: Option<Outcome>,
    /// Endpoints whose send panics, once each.
    pub panicking: HashSet<String>,
    /// Endpoints whose every send panics.
    pub always_panicking: HashSet<String>,
    /// Whether pushes are signed with a key that is not known until the keys were loaded again.
    pub key_is_unknown: bool,
    pub sent: Vec<SentPush>,
    pub webhooks: Vec<SentWebhook>,
    pub key_reloads: usize,
    pub counts: BTreeMap<Metric, u64>,
    pub dead_letters: BTreeMap<Reason, u64>,
    /// What failed in the attempts that sent nothing, in their order.
    pub not_sent: Vec<NotSent>,
    pub candidates: BTreeMap<i64, BTreeMap<SubscriptionKey, PruneCandidate>>,
    pub open_windows: BTreeSet<i64>,
}

/// Which calls: whether a call of that name is one of them.
pub type Calls = fn(&str) -> bool;

/// Calls that fail for a while.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// `events` is what is sent to the queue of events alone.
    pub calls: Calls,
    /// It begins with the effect of this number (from 1).
    pub from_effect: usize,
    /// It is over then.
    pub until: Timestamp,
}

impl State {
    /// Whether calls of that name fail now.
    pub fn is_out(&self, name: &str) -> bool {
        self.outage
            .is_some_and(|it| (it.calls)(name) && self.effects >= it.from_effect && self.now < it.until)
    }

    /// How a call of that name is to fail now, and whether what it asks for is done all the same.
    fn failure(&mut self, name: &'static str) -> Option<(PortError, bool)> {
        if self.is_out(name) {
            return Some((PortErrorKind::Broken.error(name), false));
        }
        let (times, kind) = self.failing.get_mut(name).filter(|(times, _)| *times > 0)?;
        *times -= 1;
        Some((kind.error(name), *kind == PortErrorKind::Lost))
    }
}

/// How a failing call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortErrorKind {
    /// The service asks for fewer calls.
    Throttled,
    Broken,
    /// What it asks for is done, and the answer is lost.
    Lost,
}

impl PortErrorKind {
    fn error(self, name: &'static str) -> PortError {
        let code = if self == Self::Lost { "TimedOut" } else { "Planned" };
        PortError { operation: name, code: code.to_owned(), throttled: self == Self::Throttled }
    }
}

/// Every port in memory, as one worker uses them. Clones share the state and the worker.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    /// This worker's, and no other's.
    is_dead: Arc<AtomicBool>,
    /// What decides when this worker's effects are made, in a simulation.
    schedule: Option<Arc<dyn Schedule>>,
}

impl Memory {
    pub fn at(now: Timestamp) -> Self {
        let memory = Self::default();
        memory.state().now = now;
        memory
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same state, used by another worker.
    #[must_use]
    pub fn another_worker(&self) -> Self {
        Self { state: self.state.clone(), ..Self::default() }
    }

    pub fn dispatch(&self, settings: deliver::Settings, guard: Guard) -> DispatchWorker {
        let memory = || self.clone();
        DispatchWorker {
            settings,
            guard,
            system: memory(),
            telemetry: memory(),
            outbox: memory(),
            ledger: memory(),
            subscriptions: memory(),
            policies: memory(),
            audiences: memory(),
            protection: memory(),
            push_sender: memory(),
            webhook_sender: memory(),
            parking: memory(),
            wait_registry: memory(),
            wait_executions: memory(),
            dead_letter_bodies: memory(),
            quota_guard: QuotaGuard::default(),
            quotas: memory(),
        }
    }

    pub fn cleanup(&self, settings: cleanup::Settings) -> CleanupWorker {
        let memory = || self.clone();
        CleanupWorker {
            settings,
            clock: memory(),
            telemetry: memory(),
            outbox: memory(),
            ledger: memory(),
            policies: memory(),
            subscriptions: memory(),
            audiences: memory(),
            parking: memory(),
            wait_registry: memory(),
            dead_letters: memory(),
        }
    }

    pub fn pass(&self, time: Duration) {
        let mut state = self.state();
        state.now = state.now.plus(time);
    }

    /// Makes the next `times` calls of that name fail.
    pub fn fail(&self, name: &'static str, times: usize, kind: PortErrorKind) {
        self.state().failing.insert(name, (times, kind));
    }

    /// Lets a worker go on that was held up.
    pub fn resume(&self) {
        let held_up = {
            let mut state = self.state();
            state.held_up_at = None;
            std::mem::take(&mut state.held_up)
        };
        held_up.into_iter().for_each(Waker::wake);
    }

    /// Starts again after a death: the effects are counted from one again, and nothing kills.
    pub fn revive(&self) {
        self.is_dead.store(false, Ordering::SeqCst);
        let mut state = self.state();
        state.death = None;
        state.effects = 0;
        state.trace.clear();
    }

    /// One effect: counted, failed if it is to fail, dead if it is to die.
    async fn effect<T>(
        &self,
        name: &'static str,
        make: impl FnOnce(&mut State) -> T,
    ) -> Result<T, PortError> {
        self.effect_at(name, None, make).await
    }

    /// One effect on an item of that partition key.
    async fn effect_at<T>(
        &self,
        name: &'static str,
        partition_key: Option<String>,
        make: impl FnOnce(&mut State) -> T,
    ) -> Result<T, PortError> {
        if let Some(schedule) = &self.schedule {
            let mut make = Some(make);
            let once = |state: &mut State, ()| make.take().map(|make| make(state));
            let made = self
                .make_scheduled(&**schedule, name, vec![()], |()| partition_key.clone(), once)
                .await
                .pop();
            return made
                .and_then(|made| made.transpose())
                .unwrap_or_else(|| Err(PortErrorKind::Broken.error(name)));
        }
        if self.is_dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let (dies_before, dies_after, held_up) = {
            let mut state = self.state();
            state.effects += 1;
            state.trace.push(name);
            let number = state.effects;
            let took = state.slow.get(name).copied().unwrap_or_default();
            state.now = state.now.plus(took);
            let (before, after) = match state.death {
                None => (false, false),
                Some(Death::Before(n)) => (n <= number, false),
                Some(Death::After(n)) => (n < number, n == number),
                Some(Death::AfterNext(of)) => (false, of == name),
            };
            if before || after {
                // Only this worker dies.
                state.death = None;
                self.is_dead.store(true, Ordering::SeqCst);
            }
            (before, after, state.held_up_at == Some(number))
        };
        if dies_before {
            return std::future::pending().await;
        }
        if held_up {
            std::future::poll_fn(|context| {
                let mut state = self.state();
                if state.held_up_at.is_none() {
                    return Poll::Ready(());
                }
                state.held_up.push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
        let made = {
            let mut state = self.state();
            match state.failure(name) {
                None => Ok(make(&mut state)),
                Some((error, is_done)) => {
                    if is_done {
                        make(&mut state);
                    }
                    Err(error)
                }
            }
        };
        if dies_after {
            return std::future::pending().await;
        }
        made
    }

    /// An effect on many items, each of which gets the failure if there is one.
    async fn effect_on_each<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        make: impl FnMut(&mut State, T) -> R,
    ) -> Vec<Result<R, PortError>> {
        self.effect_on_each_at(name, items, |_| None, make).await
    }

    /// The same on items with partition keys.
    async fn effect_on_each_at<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        partition_key: impl Fn(&T) -> Option<String>,
        mut make: impl FnMut(&mut State, T) -> R,
    ) -> Vec<Result<R, PortError>> {
        if let Some(schedule) = &self.schedule {
            return self.make_scheduled(&**schedule, name, items, partition_key, make).await;
        }
        let n = items.len();
        let made = self
            .effect(name, |state| items.into_iter().map(|item| make(state, item)).collect::<Vec<_>>())
            .await;
        match made {
            Ok(made) => made.into_iter().map(Ok).collect(),
            Err(error) => (0..n).map(|_| Err(error.clone())).collect(),
        }
    }
}

/// A store takes one statement an item in a batch.
fn assert_distinct<T: Ord>(keys: impl Iterator<Item = T>) {
    let keys: Vec<T> = keys.collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "one item twice in a batch");
}

impl Clock for Memory {
    fn now(&self) -> Timestamp {
        let now = self.state().now;
        self.schedule.as_ref().map_or(now, |schedule| schedule.clock(now))
    }

    /// Time passes at once; for a worker that is dead, never.
    async fn sleep(&self, duration: Duration) {
        if let Some(schedule) = &self.schedule {
            return schedule.sleep(duration).await;
        }
        if self.is_dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let until = self.now().plus(duration);
        let mut state = self.state();
        state.now = state.now.max(until);
    }
}

impl Randomness for Memory {
    fn rng(&self) -> StdRng {
        let own = || StdRng::seed_from_u64(self.state().effects as u64);
        self.schedule.as_ref().map_or_else(own, |schedule| schedule.rng())
    }
}
