//! The operator's settings of cleanup.

use std::time::Duration;

use redial_core::endpoint::HashKeys;
use redial_core::subscription::SpikeGuard;

/// How late a bucket of waits is before the sweep releases it, unless the operator sets it otherwise.
pub const LATE_AFTER: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct Settings {
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// How many gone endpoints are too many.
    pub guard: SpikeGuard,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
    /// How late a bucket of waits may be before the sweep releases it.
    pub late_after: Duration,
}
