//! A worker's place, and the instance in it: with a ledger, parking and protection that are under watch.

use std::sync::Arc;

use redial_core::endpoint::HashKeys;
use redial_core::route::WaitSettings;
use redial_core::subscription::Suspects;
use redial_core::targets::Targets;
use redial_core::zone::Zone;
use redial_engine::cleanup;
use redial_engine::deliver::{self, KnownBuckets, KnownLines};
use redial_engine::protection::{Guard, Settings as ProtectionSettings};
use redial_engine::quota::QuotaGuard;
use redial_memory::{self as memory, CleanupWorker, Memory};

use crate::knowledge::WatchedProtection;
use crate::released_runs::ReleasedRuns;
use crate::scenario::Scenario;
use crate::stage::Stage;
use crate::watched::{Released, WatchedLedger, WatchedParking};
use crate::worker::Worker;

/// A worker of dispatch whose ledger is under watch.
pub(super) type Dispatch = deliver::Worker<Watched>;

#[derive(Debug)]
pub(super) struct Watched;

impl deliver::Ports for Watched {
    type System = Memory;
    type Telemetry = Memory;
    type Outbox = Released;
    type Ledger = WatchedLedger;
    type Subscriptions = Memory;
    type Policies = Memory;
    type Audiences = ReleasedRuns;
    type Protection = WatchedProtection;
    type PushSender = Memory;
    type WebhookSender = Memory;
    type Parking = WatchedParking;
    type WaitRegistry = Memory;
    type WaitExecutions = Memory;
    type DeadLetterBodies = Memory;
    type Quotas = Memory;
}

/// A worker's place: the instance in it changes with every death and cold start.
pub(super) struct Place {
    pub(super) schedule: Worker,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) cleanup: Arc<CleanupWorker>,
    pub(super) ports: Memory,
    pub(super) is_busy: bool,
    /// Of the keys that it has read.
    pub(super) generation: u32,
}

impl Place {
    /// With a worker that remembers nothing, and has read these keys.
    pub(super) fn new(
        number: usize,
        stage: &Stage,
        shared: &Memory,
        hash_keys: &HashKeys,
        generation: u32,
    ) -> Self {
        let scenario = &stage.scenario;
        let schedule = Worker::new(number, scenario.clocks[number], stage.clone());
        let memory = shared.scheduled(Arc::new(schedule.clone()));
        let resharded = scenario.pressure.resharded.filter(|(from, _)| *from <= stage.since_begin());
        let shards = resharded.map_or(scenario.shards, |(_, shards)| shards);
        // Few messages are enough to divide a bucket.
        let waits = WaitSettings { shards, messages_a_shard: 1, ..WaitSettings::default() };
        let settings = deliver::Settings {
            waits,
            hash_keys: hash_keys.clone(),
            audience_pages: scenario.audiences.by_the_page,
            origin_lines: true,
            time_zone: Zone::utc(),
            suspects: if scenario.storage.holds_suspects { Suspects::Hold } else { Suspects::Send },
            ..memory::dispatch_settings()
        };
        let of = || memory.clone();
        let released = || Released { memory: memory.clone(), stage: stage.clone(), worker: number };
        let watch = || stage.watch.clone();
        let ledger = WatchedLedger {
            memory: of(),
            watch: watch(),
            trace: stage.trace.clone(),
            schedule: schedule.clone(),
        };
        let dispatch = Dispatch {
            settings,
            guard: Guard::new(ProtectionSettings::default(), u32::try_from(number).unwrap_or_default()),
            system: of(),
            telemetry: of(),
            outbox: released(),
            ledger,
            subscriptions: of(),
            policies: of(),
            audiences: ReleasedRuns {
                memory: of(),
                stage: stage.clone(),
                worker: number,
                schedule: schedule.clone(),
            },
            protection: WatchedProtection {
                memory: of(),
                knowledge: schedule.knowledge.clone(),
                watch: watch(),
            },
            push_sender: of(),
            webhook_sender: of(),
            parking: WatchedParking { memory: released(), watch: watch(), schedule: schedule.clone() },
            wait_registry: of(),
            wait_executions: of(),
            dead_letter_bodies: of(),
            quota_guard: QuotaGuard::default(),
            known_buckets: KnownBuckets::default(),
            known_lines: KnownLines::default(),
            quotas: of(),
        };
        let Scenario { relays, calls_back: callbacks, .. } = *stage.scenario;
        let settings = cleanup::Settings {
            hash_keys: hash_keys.clone(),
            targets: Targets { queue: relays, bus: relays, callbacks },
            ..memory::cleanup_settings()
        };
        let cleanup = memory.cleanup(settings);
        Self {
            generation,
            schedule,
            dispatch: Arc::new(dispatch),
            cleanup: Arc::new(cleanup),
            ports: memory,
            is_busy: false,
        }
    }
}
