//! What happens after a delivery has ended: dead letters are described, endpoints are verified and removed, waits that
//! were forgotten are ended, bodies whose time is over are deleted.
//!
//! Everything here may run twice, and late: each step is idempotent by its key, and nothing in a delivery's way waits for it.

mod quarantine;
mod references;
mod sweep;

pub use quarantine::poisoned;
pub use references::referenced;
pub use sweep::{Sweep, Swept, sweep};

use std::time::Duration;

use crate::endpoint::HashKeys;
use crate::subscription::SpikeGuard;

/// How late a bucket of waits is before the sweep releases it, unless the operator sets it otherwise.
pub const LATE_AFTER: Duration = Duration::from_secs(120);

/// What the operator has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// When so many gone endpoints are too many.
    pub guard: SpikeGuard,
    /// How late a bucket of waits may be before the sweep releases it.
    pub late_after: Duration,
}
