//! The ports to dead letters.

use super::{Answer, Answers};
use redial_core::dead_letter::{DeadLetterBody, Reference};
use redial_core::time::Timestamp;

/// Keeps bodies for a replay.
pub trait DeadLetterBodies: Send + Sync {
    /// Stores these; storing one again changes nothing.
    fn put(&self, bodies: Vec<DeadLetterBody>) -> impl Answers<()>;
}

/// Keeps descriptions, and tidies bodies up.
pub trait DeadLetterStore: Send + Sync {
    /// Stores a description, to be found by tenant and day; storing it again changes nothing.
    fn describe(&self, reference: &Reference, now: Timestamp) -> impl Answer<()>;

    /// Deletes up to `limit` bodies that count as absent at `now`, and says how many.
    fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> impl Answer<u32>;
}
