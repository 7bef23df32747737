//! In-memory twins of the ports, for tests of the passes over them.
//!
//! Every call of a port is an *effect* with a number, and a test may kill the worker before or after any of them: a call
//! that dies never returns, like one of a process that was killed. So a test can kill a worker between any two effects, start
//! another over what the first left, and look at what became of every message.

mod audiences;
mod book;
mod by_state;
mod effects;
mod entries;
mod erasures;
mod expiry;
mod http_api;
mod items;
mod ledger;
mod pages;
mod protection;
mod queues;
mod quotas;
pub mod schedule;
pub mod senders;
mod sheets;
mod state;
mod subscriptions;
mod telemetry;
mod waits;

pub use by_state::ByState;
pub use entries::Entries;
pub use expiry::Row;
pub use pages::StoredPage;
pub use state::{Calls, Death, Outage, PortErrorKind, SentPush, SentWebhook, SpanOfAttempt, State, Takeover};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, PushHosts};
use redial_core::erasure::LONGEST_INVOCATION;
use redial_core::route::WaitSettings;
use redial_core::strip::StripFields;
use redial_core::subscription::{SpikeGuard, Suspects, suspicion};
use redial_core::time::Timestamp;
use redial_core::webhook::SWITCHED_OFF_AFTER;
use redial_core::zone::Zone;
use redial_engine::deliver::{KnownBuckets, KnownLines};
use redial_engine::ports::{Clock, Randomness};
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
    type EventBus = Self;
    type Callbacks = Self;
    type Ledger = Self;
    type Policies = Self;
    type Subscriptions = Self;
    type Audiences = Self;
    type Parking = Self;
    type WaitRegistry = Self;
    type DeadLetters = Self;
    type ErasureRequests = Self;
    type Persons = Self;
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
        strip: StripFields::default(),
        switched_off_after: SWITCHED_OFF_AFTER,
        suspects: Suspects::Send,
        probed_every: suspicion::PROBED_EVERY,
        audience_pages: false,
        origin_lines: true,
        time_zone: Zone::utc(),
    }
}

/// Settings with the same keys.
pub fn cleanup_settings() -> cleanup::Settings {
    cleanup::Settings {
        hash_keys: dispatch_settings().hash_keys,
        guard: SpikeGuard::default(),
        switched_off_after: SWITCHED_OFF_AFTER,
        suspect_apart: suspicion::APART,
        late_after: cleanup::LATE_AFTER,
        longest_invocation: LONGEST_INVOCATION,
        stale_after: None,
        targets: redial_core::targets::Targets::default(),
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

    /// By how much the index by state may be behind its table.
    fn index_lag(&self) -> Duration {
        self.schedule.as_ref().map_or(self.state().index_lag, |schedule| schedule.index_lag())
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
            known_buckets: KnownBuckets::default(),
            known_lines: KnownLines::default(),
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
            event_bus: memory(),
            callbacks: memory(),
            ledger: memory(),
            policies: memory(),
            subscriptions: memory(),
            audiences: memory(),
            parking: memory(),
            wait_registry: memory(),
            dead_letters: memory(),
            erasure_requests: memory(),
            persons: memory(),
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
