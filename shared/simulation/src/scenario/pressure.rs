//! What presses on a scenario besides its faults.

use std::time::Duration;

use redial_core::setback::SENT_AGAIN_FROM;

/// A retry policy that makes no second attempt where the first may have arrived.
pub const NEVER_IN_DOUBT: &str = "never-in-doubt";

/// The id of a message whose body takes several items of DynamoDB's.
pub const PARTED: &str = "parted";

/// The id of a message that is too long.
pub const LONG: &str = "long";

/// SQS's pollers have received a message before, and Lambda had no room for it. That counts as a receive (AWS, "Using Lambda with Amazon
/// SQS": throttled invocations and `maxReceiveCount`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InVain {
    /// The share of messages.
    pub share: f64,
    /// How often at least, and at most.
    pub least: u32,
    pub most: u32,
}

impl InVain {
    /// Whether the first receive by a worker may be one at which it sends a message again.
    pub const fn is_sent_again_at_once(self) -> bool {
        self.most + 1 >= SENT_AGAIN_FROM
    }
}

/// What presses on a scenario besides its faults.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pressure {
    pub throttled: Option<InVain>,
    /// The share of last receives that SQS makes twice: what is redriven then is still with a worker.
    pub twice_at_last: f64,
    /// Only what the retry queues hold is received twice.
    pub retries_twice: bool,
    /// By how many bytes the body of the first message is short of what SQS takes: too long for what travels with a retry.
    pub shortage: Option<usize>,
    /// How many bytes fill the payload of the message [`PARTED`], each of which takes six.
    pub filled: usize,
    /// Clocks are further off than the margin of a lease: leases protect nothing, and fences have to.
    pub has_far_clocks: bool,
    /// From then on, new instances divide buckets into this number of shards.
    pub resharded: Option<(Duration, u16)>,
    /// Until then, what is sent to the retry queues has a field of another release.
    pub foreign_until: Option<Duration>,
}
