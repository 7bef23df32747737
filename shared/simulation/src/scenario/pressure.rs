//! What presses on a scenario besides its faults.

use std::time::Duration;

/// A retry policy that makes no second attempt where the first may have arrived.
pub const NEVER_IN_DOUBT: &str = "never-in-doubt";

/// The id of a message that is too long.
pub const LONG: &str = "long";

/// What presses on a scenario besides its faults.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pressure {
    /// The probability that SQS's pollers had received a message before, up to so many times, and Lambda had no room for it. That counts
    /// as a receive (AWS, "Using Lambda with Amazon SQS": throttled invocations and `maxReceiveCount`).
    pub throttled: Option<(f64, u32)>,
    /// So many bytes short of what SQS takes is the body of the first message: too long for what travels with a retry.
    pub shortage: Option<usize>,
    /// Clocks are further off than the margin of a lease: leases protect nothing, and fences have to.
    pub has_far_clocks: bool,
    /// From then on, new instances divide buckets into so many shards.
    pub resharded: Option<(Duration, u16)>,
    /// Until then, what is sent to the retry queues has a field of another release.
    pub foreign_until: Option<Duration>,
}
