//! A worker of dispatch: what each stage of its pass works with, what it is set to, and what one invocation has.

use std::time::Duration;

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::shards::{KnownBuckets, KnownLines};
use crate::ports::{
    Audiences, Clock, DeadLetterBodies, Erasures, Ledger, LineRegistry, Outbox, Parking, Policies, PortError,
    Protection, PushSender, Quotas, Randomness, Subscriptions, Telemetry, WaitExecutions, WaitRegistry,
    WebhookSender,
};
use crate::protection::Guard;
use crate::quota::QuotaGuard;
use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::gate::WAITED_OUT_INSIDE;
use redial_core::queue::Outgoing;
use redial_core::route::WaitSettings;
use redial_core::strip::StripFields;
use redial_core::subscription::Suspects;
use redial_core::time::Timestamp;
use redial_core::zone::Zone;

/// How long the first outcome of a batch waits for the others before it is recorded.
pub const LINGER: Duration = Duration::from_millis(100);

/// The most attempts of one batch that are under way together.
pub const CONCURRENCY: usize = 100;

/// What an invocation keeps in reserve for recording and handing off after its last attempt.
pub const RESERVE: Duration = Duration::from_secs(2);

/// The time that an invocation needs for an attempt that takes this long: the wait before it, and what follows it.
pub fn time_for(attempt: Duration) -> Duration {
    attempt + WAITED_OUT_INSIDE + RESERVE
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub waits: WaitSettings,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides: tests' and the local stack's.
    pub egress_allow: Vec<Origin>,
    pub hash_keys: HashKeys,
    /// How long a lease outlives its invocation.
    pub lease_margin: Duration,
    /// What the tokens are made with by which browsers acknowledge.
    pub token_keys: TokenKeys,
    /// What payloads of pushes lose before they are sealed.
    pub strip: StripFields,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
    /// What happens to messages to suspect subscriptions.
    pub suspects: Suspects,
    /// How often a probe of one is let through, where they are held.
    pub probed_every: Duration,
    /// Whether messages to audiences that are opened now are sent by the page.
    pub audience_pages: bool,
    /// Whether what an open breaker holds back waits in its origin's line.
    pub origin_lines: bool,
    /// Whose clock the hours of a message follow that names no zone, to a recipient without one.
    pub time_zone: Zone,
}

/// One invocation of the function.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// New for each: what its claims are fenced with.
    pub lease_token: String,
    /// When the function is stopped.
    pub deadline: Timestamp,
}

impl Invocation {
    /// Whether too little time is left at `now` to begin another page of work.
    pub(super) fn is_ending(&self, now: Timestamp) -> bool {
        now.plus(RESERVE) >= self.deadline
    }
}

/// The adapters of a worker's ports.
pub trait Ports {
    type System: Clock + Randomness;
    type Telemetry: Telemetry;
    type Outbox: Outbox;
    type Ledger: Ledger;
    type Subscriptions: Subscriptions + Erasures;
    type Policies: Policies;
    type Audiences: Audiences;
    type Protection: Protection;
    type PushSender: PushSender;
    type WebhookSender: WebhookSender;
    type Parking: Parking;
    type WaitRegistry: WaitRegistry + LineRegistry;
    type WaitExecutions: WaitExecutions;
    type DeadLetterBodies: DeadLetterBodies;
    type Quotas: Quotas;
}

/// A worker of dispatch: its settings, an adapter for each port, and what it remembers of origins.
#[derive(Debug)]
pub struct Worker<P: Ports> {
    pub settings: Settings,
    /// Lives as long as the worker.
    pub guard: Guard,
    /// Lives as long as the worker.
    pub quota_guard: QuotaGuard,
    /// Lives as long as the worker.
    pub known_buckets: KnownBuckets,
    /// Lives as long as the worker.
    pub known_lines: KnownLines,
    pub system: P::System,
    pub telemetry: P::Telemetry,
    pub outbox: P::Outbox,
    pub ledger: P::Ledger,
    pub subscriptions: P::Subscriptions,
    pub policies: P::Policies,
    pub audiences: P::Audiences,
    pub protection: P::Protection,
    pub push_sender: P::PushSender,
    pub webhook_sender: P::WebhookSender,
    pub parking: P::Parking,
    pub wait_registry: P::WaitRegistry,
    pub wait_executions: P::WaitExecutions,
    pub dead_letter_bodies: P::DeadLetterBodies,
    pub quotas: P::Quotas,
}

impl<P: Ports> Worker<P> {
    /// Sends what the messages at these places ask for. A message comes back if anything of it could not be sent.
    pub(super) async fn send(&self, messages: Vec<(usize, Outgoing)>) -> Acknowledgements {
        if messages.is_empty() {
            return Acknowledgements::default();
        }
        let (places, outgoing): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let sent = Box::pin(self.outbox.send(outgoing)).await;
        let acknowledgement = |sent| Acknowledgement::of(sent, &self.telemetry);
        places.into_iter().zip(sent.into_iter().map(acknowledgement)).collect()
    }

    /// Sends all of these, or fails.
    pub(super) async fn send_all(&self, messages: Vec<Outgoing>) -> Result<(), PortError> {
        self.outbox.send(messages).await.into_iter().collect()
    }
}
