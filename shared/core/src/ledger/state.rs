//! Where a delivery stands, and how it may move on.

/// A delivery's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum State {
    /// Accepted, not yet attempted.
    Queued,
    /// An attempt is being made, or was being made when its worker died.
    Sending,
    /// Accepted by the push service.
    Sent,
    /// Failed, and waiting for its next attempt.
    Retrying,
    /// Held back without an attempt.
    Deferred,
    /// The endpoint is gone.
    Gone,
    /// The TTL was over before it could be sent.
    Expired,
    /// Failed for good: a dead letter.
    Failed,
    /// Failed for good under a policy without retries: no dead letter.
    FailedNoRetries,
    /// A message to an audience: handed on to the deliveries of its recipients.
    Expanded,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Sending,
        Self::Sent,
        Self::Retrying,
        Self::Deferred,
        Self::Gone,
        Self::Expired,
        Self::Failed,
        Self::FailedNoRetries,
        Self::Expanded,
    ];

    /// Its name in the ledger, in logs and on the command line.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Retrying => "retrying",
            Self::Deferred => "deferred",
            Self::Gone => "gone",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::FailedNoRetries => "failed_no_retries",
            Self::Expanded => "expanded",
        }
    }

    /// The state of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.label() == label)
    }

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
    fn every_label_reads_back() {
        for state in State::ALL {
            assert_eq!(State::from_label(state.label()), Some(state));
        }
    }

    #[test]
    fn nothing_follows_a_terminal_state() {
        for from in State::ALL {
            for to in State::ALL {
                if from.is_terminal() {
                    assert!(!from.may_become(to), "{from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn every_state_that_is_not_terminal_can_be_claimed_and_ended() {
        for from in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            assert!(from.may_become(State::Sending), "{from:?}");
            assert!(from.may_become(State::Expired), "{from:?}");
        }
    }
}
