//! What happens after a delivery has ended: dead letters are described, endpoints are verified and removed, waits that
//! were forgotten are ended, bodies whose time is over are deleted.
//!
//! Everything here may run twice, and late: each step is idempotent by its key, and nothing in a delivery's way waits for it.

mod quarantine;
mod references;
mod sweep;

pub use sweep::{Sweep, Swept, sweep};

use std::panic::AssertUnwindSafe;

use std::time::Duration;

use futures_util::future::FutureExt;

use crate::ports::{CleanupEnvironment, Outbox, PortError};
use redial_core::body::Body;
use redial_core::dead_letter::Reference;
use redial_core::endpoint::HashKeys;
use redial_core::event::Event;
use redial_core::subscription::SpikeGuard;
use redial_core::time::Timestamp;

/// How late a bucket of waits is before the sweep releases it, unless the operator sets it otherwise.
pub const LATE_AFTER: Duration = Duration::from_secs(120);

/// What the operator has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// When so many gone endpoints are too many.
    pub guard: SpikeGuard,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
    /// How late a bucket of waits may be before the sweep releases it.
    pub late_after: Duration,
}

/// A message of one of the two queues that cleanup drains.
#[derive(Clone, Debug)]
pub struct Letter {
    /// SQS's MessageId.
    pub message_id: String,
    /// Its body.
    pub body: Body,
    /// SQS's SentTimestamp.
    pub sent: Timestamp,
    /// Whether it comes from the dead-letter queue, which carries references; the quarantine carries raw bodies.
    pub is_reference: bool,
}

/// Deals with one message. A panic over it is its own failure, and no other's.
pub async fn clean<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    letter: &Letter,
) -> Result<(), PortError> {
    let cleaned = AssertUnwindSafe(clean_one(env, settings, letter)).catch_unwind().await;
    cleaned.unwrap_or_else(|_panic| {
        Err(PortError { operation: "cleanup", code: "Panic".to_owned(), throttled: false })
    })
}

/// Tells the producer, where somebody listens.
async fn announce<E: CleanupEnvironment>(env: &E, event: Event) -> Result<(), PortError> {
    if !env.outbox().has_events() {
        return Ok(());
    }
    env.outbox().send(vec![event.outgoing()]).await.into_iter().collect()
}

async fn clean_one<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    letter: &Letter,
) -> Result<(), PortError> {
    let reference = if letter.is_reference { Reference::from_body(letter.body.expose()) } else { None };
    match reference {
        Some(reference) => references::referenced(env, settings, &reference).await,
        // What is no reference on the queue of references is kept like any other body that nobody can read.
        None => quarantine::poisoned(env, &letter.message_id, &letter.body, letter.sent).await,
    }
}
