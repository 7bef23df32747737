//! What happens after a delivery has ended: dead letters are described, endpoints are verified and removed, waits that
//! were forgotten are ended, expired bodies are deleted, events are relayed, persons are erased.
//!
//! Everything here may run twice, and late: each step is idempotent by its key, and no delivery waits for it.

mod erasures;
mod quarantine;
mod recorded;
mod references;
mod relay;
mod removed;
mod sweep;
mod walk;
mod worker;

pub use sweep::{Sweep, Swept};
pub use worker::{LATE_AFTER, Ports, QueueMessage, Settings, Worker};

use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt;

use crate::ports::{Clock, DeadLetterStore, Erasures, PortError, Telemetry};
use crate::within::within;
use redial_core::dead_letter::Reference;
use redial_core::erasure::Subject;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Deals with one message, at the longest until `deadline`. A panic over it is its own failure, and no other's.
    pub async fn clean(&self, message: &QueueMessage, deadline: Timestamp) -> Result<(), PortError> {
        let failed = |code: &str| PortError { operation: "cleanup", code: code.to_owned(), throttled: false };
        let left = deadline.since(self.clock.now());
        let cleaning = AssertUnwindSafe(self.clean_one(message)).catch_unwind();
        let cleaned = if left.is_zero() { None } else { within(&self.clock, left, cleaning).await };
        let cleaned = cleaned.ok_or_else(|| failed("Timeout"));
        let cleaned = cleaned.and_then(|cleaned| cleaned.unwrap_or_else(|_panic| Err(failed("Panic"))));
        cleaned.inspect_err(|error| self.failed(error))
    }

    async fn clean_one(&self, message: &QueueMessage) -> Result<(), PortError> {
        let now = self.clock.now();
        let reference = if message.is_reference { Reference::from_body(message.body.expose()) } else { None };
        // What is no reference on the queue of references is kept like any other body that cannot be read.
        let Some(reference) = reference else { return self.drain(message, now).await };
        self.take(&reference, now).await
    }

    async fn take(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        if self.is_erased(Subject::of_reference(reference)).await? {
            return Ok(());
        }
        self.telemetry.reference(reference);
        self.dead_letters.describe(reference, now).await?;
        self.follow_up(reference, now).await
    }

    /// Whether one of these was erased: then nothing of it is stored again.
    async fn is_erased(&self, subjects: impl IntoIterator<Item = Subject>) -> Result<bool, PortError> {
        let subjects: Vec<Subject> = subjects.into_iter().collect();
        if subjects.is_empty() {
            return Ok(false);
        }
        let answers: Vec<bool> =
            self.subscriptions.erased(subjects).await.into_iter().collect::<Result<_, _>>()?;
        Ok(answers.contains(&true))
    }

    /// Makes a sweep, at the longest until `deadline`; what is left is the next one's.
    pub async fn sweep(&self, which: Sweep, deadline: Timestamp) -> Result<Swept, PortError> {
        let mut swept = Swept::default();
        let done = match which {
            Sweep::Waits => self.sweep_waits(deadline, &mut swept).await,
            // What one of these cannot do, or has no time for, keeps the others from nothing.
            Sweep::Prune => {
                let now = self.clock.now();
                let part = |of_four| now.plus(deadline.since(now) * of_four / 4);
                let walked = self.walk(part(1), &mut swept).await;
                let pruned = self.prune(part(3), &mut swept).await;
                walked.and(pruned).and(self.announce_removed(deadline, &mut swept).await)
            }
            Sweep::Bodies => self.sweep_bodies(deadline, &mut swept).await,
            Sweep::Erasures => self.sweep_erasures(deadline, &mut swept).await,
        };
        self.telemetry.count(Metric::WaitsSwept, u64::from(swept.released));
        self.telemetry.count(Metric::Pruned, u64::from(swept.pruned));
        self.telemetry.count(Metric::Quarantined, u64::from(swept.quarantined));
        self.telemetry.count(Metric::SubscriptionsExpired, u64::from(swept.expired));
        self.telemetry.count(Metric::SubscriptionsStale, u64::from(swept.stale));
        self.telemetry.count(Metric::EndpointsReplaced, u64::from(swept.replaced));
        done.map(|()| swept)
    }
}
