//! In-memory twins of the ports, for tests of the passes over them.
//!
//! Every call of a port is an *effect* with a number, and a test may kill the worker before or after any of them: a call
//! that dies never returns, like one of a process that was killed. So a test can kill a worker between any two effects, start
//! another over what the first left, and look at what became of every message.

mod access;
mod audiences;
mod expiry;
mod http_api;
mod ledger;
mod policies;
mod protection;
mod queues;
pub mod sender;
mod subscriptions;
mod telemetry;
mod waits;
mod webhooks;

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
use redial_core::protection::Count;
use redial_core::queue::Outgoing;
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::route::WaitSettings;
use redial_core::subscription::{SpikeGuard, Subscription};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_core::webhook::SWITCHED_OFF_AFTER;
use redial_engine::ports::{
    Clock, Limited, ParkedItem, ParkedKey, PortError, PruneCandidate, PublicKey, Randomness, Receipt,
    StoredOrigin,
};
use redial_engine::protection::Guard;
use redial_engine::{cleanup, deliver};

type M = Memory;
pub type DispatchWorker = deliver::Worker<M, M, M, M, M, M, M, M, M, M, M, M, M, M>;
pub type CleanupWorker = cleanup::Worker<M, M, M, M, M, M, M, M, M, M>;

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
}

/// A push that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentPush {
    pub endpoint: String,
    pub payload: Vec<u8>,
    /// The TTL header, in seconds.
    pub ttl_secs: u32,
    pub at: Timestamp,
}

/// A webhook that was posted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentWebhook {
    pub url: String,
    pub tenant: Tenant,
    /// `webhook-id`.
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
    /// The outage of a dependency, if there is one.
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
    /// What browsers subscribe with.
    pub public_keys: Vec<PublicKey>,
    pub origins: BTreeMap<Origin, StoredOrigin>,
    pub counters: BTreeMap<(Origin, u16), Count>,
    pub limits: BTreeMap<Limited, Rate>,
    /// From when slots of buckets are free.
    pub slots: BTreeMap<String, Timestamp>,
    /// Breakers' transitions that were logged: from, to.
    pub breakers: Vec<(&'static str, &'static str)>,
    /// Subscriptions that were logged as put in quarantine, with their endpoints' hashes.
    pub quarantined: Vec<(SubscriptionKey, String)>,
    pub policies: BTreeMap<Tenant, Vec<Stored>>,
    /// Tenants' policies as they were last read.
    pub followed: BTreeMap<Tenant, TenantPolicies>,
    /// Stored API keys and principals' rights.
    pub access_keys: BTreeMap<ApiKeyId, StoredKey>,
    pub subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// What is left of erased ones: the hash of the endpoint, and when.
    pub tombstones: BTreeMap<SubscriptionKey, (EndpointHash, Timestamp)>,
    pub runs: BTreeMap<RunKey, Run>,
    /// A part that another worker moves there just before it is moved.
    pub crossing: Option<((RunKey, u8), Progress)>,
    /// How far their parts are.
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
    /// Bodies of dead letters.
    pub bodies: BTreeMap<DeadLetterKey, DeadLetterBody>,
    /// Descriptions of dead letters.
    pub described: BTreeMap<DeadLetterKey, Reference>,
    /// What the senders answer, by endpoint, the first first; then [`State::usual_answer`].
    pub answers: HashMap<String, Vec<Outcome>>,
    /// What the senders answer else; if unset, a push 201 and a webhook 200.
    pub usual_answer: Option<Outcome>,
    /// Endpoints whose send panics, once each.
    pub panicking: HashSet<String>,
    /// Endpoints whose every send panics.
    pub always_panicking: HashSet<String>,
    /// Whether pushes are signed with a key that is not known until the keys were loaded again.
    pub key_is_unknown: bool,
    /// Pushes that were made.
    pub sent: Vec<SentPush>,
    /// Webhooks that were posted.
    pub webhooks: Vec<SentWebhook>,
    /// How often keys were loaded again.
    pub key_reloads: usize,
    pub counts: BTreeMap<Metric, u64>,
    /// Dead letters by reason.
    pub dead_letters: BTreeMap<Reason, u64>,
    pub values: BTreeMap<Metric, Vec<f64>>,
    /// Plans of the attempts that were logged.
    pub plans: Vec<&'static str>,
    /// What failed in the attempts that sent nothing, in their order.
    pub not_sent: Vec<NotSent>,
    /// Candidates for pruning, by window.
    pub candidates: BTreeMap<i64, BTreeMap<SubscriptionKey, PruneCandidate>>,
    /// Windows that are not closed.
    pub open_windows: BTreeSet<i64>,
    /// Subscriptions that a tenant has, where a test sets it apart from [`State::subscriptions`].
    pub subscription_counts: HashMap<Tenant, u64>,
}

/// Calls that fail for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Names of calls; and `events` for what is sent to the queue of events alone.
    pub calls: &'static [&'static str],
    /// It begins with the effect of this number (from 1).
    pub from_effect: usize,
    /// It is over then.
    pub until: Timestamp,
}

impl Outage {
    /// What a call of that name fails with.
    fn error(name: &'static str) -> PortError {
        PortError { operation: name, code: "Outage".to_owned(), throttled: false }
    }
}

impl State {
    /// Whether calls of that name fail now.
    pub fn is_out(&self, name: &str) -> bool {
        self.outage.is_some_and(|it| {
            it.calls.contains(&name) && self.effects >= it.from_effect && self.now < it.until
        })
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

/// Every port in memory, as one worker uses them. Clones share the state and the worker.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    /// This worker's, and no other's.
    is_dead: Arc<AtomicBool>,
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
        Self { state: self.state.clone(), is_dead: Arc::default() }
    }

    /// A worker of dispatch on these ports.
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
            senders: deliver::Senders { push: memory(), webhooks: memory() },
            waits: deliver::Waits { parking: memory(), registry: memory(), executions: memory() },
            dead_letter_bodies: memory(),
        }
    }

    /// A worker of cleanup on these ports.
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
        if self.is_dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let (death, held_up) = {
            let mut state = self.state();
            state.effects += 1;
            state.trace.push(name);
            let number = state.effects;
            let took = state.slow.get(name).copied().unwrap_or_default();
            state.now = state.now.plus(took);
            let death = match state.death {
                Some(Death::Before(n)) if n <= number => Some(Death::Before(n)),
                Some(Death::After(n)) if n < number => Some(Death::Before(n)),
                Some(Death::After(n)) if n == number => Some(Death::After(n)),
                Some(Death::Before(_) | Death::After(_)) | None => None,
            };
            if death.is_some() {
                // Only this worker dies.
                state.death = None;
                self.is_dead.store(true, Ordering::SeqCst);
            }
            (death, state.held_up_at == Some(number))
        };
        if matches!(death, Some(Death::Before(_))) {
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
            let is_out = state.is_out(name);
            match state.failing.get_mut(name) {
                _ if is_out => Err(Outage::error(name)),
                Some((times, PortErrorKind::Lost)) if *times > 0 => {
                    *times -= 1;
                    make(&mut state);
                    Err(PortError { operation: name, code: "TimedOut".to_owned(), throttled: false })
                }
                Some((times, kind)) if *times > 0 => {
                    *times -= 1;
                    let throttled = *kind == PortErrorKind::Throttled;
                    Err(PortError { operation: name, code: "Planned".to_owned(), throttled })
                }
                _ => Ok(make(&mut state)),
            }
        };
        if death.is_some() {
            return std::future::pending().await;
        }
        made
    }

    /// An effect on many items, each of which gets the failure if there is one.
    async fn effect_on_each<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        mut make: impl FnMut(&mut State, T) -> R,
    ) -> Vec<Result<R, PortError>> {
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

impl Clock for Memory {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    /// Time passes at once; for a worker that is dead, never.
    async fn sleep(&self, duration: Duration) {
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
        StdRng::seed_from_u64(self.state().effects as u64)
    }
}
