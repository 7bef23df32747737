//! What a stack holds that was not sent: on its queues, and parked.

use redial_core::time::Timestamp;

use super::{
    queues::{QUEUES, depths},
    waits,
};
use crate::{aws_error::AwsError, parked::Waiting, stack::Target};

/// Approximate numbers of messages; what cleanup reads is not among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Left {
    /// On the four queues of messages.
    pub(crate) waiting: u64,
    pub(crate) in_flight: u64,
    pub(crate) delayed: u64,
    /// In buckets and lines.
    pub(crate) parked: Waiting,
}

impl Left {
    pub(crate) fn sum_on_queues(self) -> u64 {
        self.waiting + self.in_flight + self.delayed
    }
}

/// Without what is parked.
pub(crate) async fn on_queues(target: &Target) -> Result<Left, AwsError> {
    let mut left = Left::default();
    for (queue, depth) in QUEUES.iter().zip(depths(target).await) {
        if queue.lane.is_some() {
            let depth = depth?;
            left.waiting += depth.waiting;
            left.in_flight += depth.in_flight;
            left.delayed += depth.delayed;
        }
    }
    Ok(left)
}

pub(crate) async fn left(target: &Target, now: Timestamp) -> Result<Left, AwsError> {
    let left = on_queues(target).await?;
    let waits = waits::read(target, false, now).await?;
    if let Some(error) = waits.error.clone() {
        return Err(error);
    }
    Ok(Left { parked: waits.all(), ..left })
}
