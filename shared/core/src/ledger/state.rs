//! The state of a delivery, and how it may change.

use crate::label::labels;

labels! {
    pub enum State {
        /// Accepted, not yet attempted.
        Queued = "queued",
        /// An attempt is being made, or was being made when its worker died.
        Sending = "sending",
        /// Accepted by the push service.
        Sent = "sent",
        /// Failed, and waiting for its next attempt.
        Retrying = "retrying",
        /// Held back without an attempt.
        Deferred = "deferred",
        /// The endpoint is gone.
        Gone = "gone",
        /// The TTL was over before it could be sent.
        Expired = "expired",
        /// Failed for good: a dead letter.
        Failed = "failed",
        /// Failed for good under a policy without retries: no dead letter.
        FailedNoRetries = "failed_no_retries",
        /// A message to an audience: handed on to the deliveries of its recipients.
        Expanded = "expanded",
    }
}

impl State {
    /// Whether nothing follows within the same lineage.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Sent
            | Self::Gone
            | Self::Expired
            | Self::Failed
            | Self::FailedNoRetries
            | Self::Expanded => true,
            Self::Queued | Self::Sending | Self::Retrying | Self::Deferred => false,
        }
    }

    /// Whether a delivery may move from this state to `next` within one lineage.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            // A delivery can end without an attempt: its TTL is over, its subscription is off.
            Self::Queued | Self::Retrying | Self::Deferred => !matches!(next, Self::Queued | Self::Retrying),
            // Sending again: the lease of the first worker ran out. Queued: its worker gave the claim back.
            Self::Sending => true,
            Self::Sent
            | Self::Gone
            | Self::Expired
            | Self::Failed
            | Self::FailedNoRetries
            | Self::Expanded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_state_that_is_not_terminal_can_be_claimed_and_ended() {
        for from in State::ALL {
            for to in State::ALL.into_iter().filter(|_| from.is_terminal()) {
                assert!(!from.may_become(to), "{from:?} to {to:?}");
            }
            for to in [State::Sending, State::Expired] {
                assert_eq!(from.may_become(to), !from.is_terminal(), "{from:?} to {to:?}");
            }
        }
    }
}
