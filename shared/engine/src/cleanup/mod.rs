//! What happens after a delivery has ended: dead letters are described, endpoints are verified and removed, waits that
//! were forgotten are ended, expired bodies are deleted.
//!
//! Everything here may run twice, and late: each step is idempotent by its key, and no delivery waits for it.

mod events;
mod quarantine;
mod references;
mod settings;
mod sweep;

pub use settings::{LATE_AFTER, Settings};
pub use sweep::{Sweep, Swept};

use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt;

use crate::ports::{
    Audiences, Clock, DeadLetterBodies, DeadLetterStore, LedgerReader, Outbox, Parking, Policies, PortError,
    SubscriptionHealth, Telemetry, WaitRegistry,
};
use quarantine::Quarantine;
use redial_core::body::Body;
use redial_core::dead_letter::Reference;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;

/// A message of one of the two queues that cleanup drains.
#[derive(Clone, Debug)]
pub struct QueueMessage {
    pub message_id: String,
    pub body: Body,
    pub sent: Timestamp,
    /// Whether it comes from the dead-letter queue, which carries references; the quarantine carries raw bodies.
    pub is_reference: bool,
}

/// A worker of cleanup: its settings, and an adapter for each port.
#[derive(Debug)]
pub struct Worker<C, T, O, L, Po, H, Au, Pa, Re, D> {
    pub settings: Settings,
    pub clock: C,
    pub telemetry: T,
    pub outbox: O,
    pub ledger: L,
    pub policies: Po,
    pub subscriptions: H,
    pub audiences: Au,
    pub parking: Pa,
    pub wait_registry: Re,
    pub dead_letters: D,
}

impl<C, T, O, L, Po, H, Au, Pa, Re, D> Worker<C, T, O, L, Po, H, Au, Pa, Re, D>
where
    C: Clock,
    T: Telemetry,
    O: Outbox,
    L: LedgerReader,
    Po: Policies,
    H: SubscriptionHealth,
    Au: Audiences,
    Pa: Parking,
    Re: WaitRegistry,
    D: DeadLetterBodies + DeadLetterStore,
{
    /// Deals with one message. A panic over it is its own failure, and no other's.
    pub async fn clean(&self, message: &QueueMessage) -> Result<(), PortError> {
        let cleaned = AssertUnwindSafe(self.clean_one(message)).catch_unwind().await;
        cleaned.unwrap_or_else(|_panic| {
            Err(PortError { operation: "cleanup", code: "Panic".to_owned(), throttled: false })
        })
    }

    async fn clean_one(&self, message: &QueueMessage) -> Result<(), PortError> {
        let Self { settings, telemetry, outbox, subscriptions, dead_letters, .. } = self;
        let now = self.clock.now();
        let reference = if message.is_reference { Reference::from_body(message.body.expose()) } else { None };
        match reference {
            Some(reference) => {
                telemetry.reference(&reference);
                dead_letters.describe(&reference, now).await?;
                references::follow_up(settings, subscriptions, outbox, telemetry, &reference, now).await
            }
            // What is no reference on the queue of references is kept like any other body that cannot be read.
            None => {
                let quarantine = Quarantine {
                    outbox,
                    telemetry,
                    ledger: &self.ledger,
                    policies: &self.policies,
                    subscriptions,
                    audiences: &self.audiences,
                    dead_letters,
                    now,
                };
                quarantine.drain(&message.message_id, &message.body, message.sent).await
            }
        }
    }

    /// Makes a sweep, at the longest until `deadline`; what is left is the next one's.
    pub async fn sweep(&self, which: Sweep, deadline: Timestamp) -> Result<Swept, PortError> {
        let Self { settings, clock, telemetry, outbox, .. } = self;
        let swept = match which {
            Sweep::Waits => {
                let (registry, parking) = (&self.wait_registry, &self.parking);
                sweep::waits(registry, parking, outbox, clock, settings, deadline).await?
            }
            Sweep::Prune => {
                sweep::prune(&self.subscriptions, outbox, telemetry, clock, settings, deadline).await?
            }
            Sweep::Bodies => sweep::bodies(&self.dead_letters, clock, deadline).await?,
        };
        telemetry.count(Metric::WaitsSwept, u64::from(swept.released));
        telemetry.count(Metric::Pruned, u64::from(swept.pruned));
        telemetry.count(Metric::Quarantined, u64::from(swept.quarantined));
        Ok(swept)
    }
}
