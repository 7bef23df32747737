//! What becomes of the SQS message itself: it is acknowledged, or it comes back, and when.

use std::time::Duration;

use rand::{Rng, RngExt};

use redial_core::endpoint::EndpointHash;
use redial_core::ledger::{Record, Unrecorded};
use redial_core::time::Timestamp;

/// A received message's fate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Everything that it asked for is durable: SQS may delete it, and its copies in the batch.
    Acknowledged,
    /// SQS may delete it. A copy of it is judged by itself: another SQS message of the same turn may be the only one that may
    /// still hand off what a crash left undone.
    AcknowledgedAlone,
    /// It comes back.
    ComesBack(Setback),
}

impl Fate {
    /// The same, for this message alone.
    #[must_use]
    pub(super) fn alone(self) -> Self {
        match self {
            Self::Acknowledged | Self::AcknowledgedAlone => Self::AcknowledgedAlone,
            Self::ComesBack(_) => self,
        }
    }

    /// The fate of a follower whose leader has this one. It shares an acknowledgement only where the leader was granted the claim
    /// or repeated the hand-off, for it may itself be the one message that still may.
    pub(super) fn of_follower(leader: &Self) -> Self {
        match leader {
            Self::Acknowledged => Self::Acknowledged,
            Self::AcknowledgedAlone => Self::ComesBack(Setback::NotAdmitted),
            // What was not recorded of the leader's attempt is the leader's to say.
            Self::ComesBack(Setback::Unrecorded(_)) => Self::ComesBack(Setback::Infrastructure),
            Self::ComesBack(setback) => Self::ComesBack(setback.clone()),
        }
    }
}

/// Why a message comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setback {
    /// There was no time or no place for it in this invocation.
    NotAdmitted,
    /// Another worker has its attempt until then.
    Leased {
        /// The end of that lease.
        until: Timestamp,
    },
    /// Our own infrastructure failed.
    Infrastructure,
    /// An attempt was made, or a claim may have been, and what followed could not be recorded.
    Unrecorded(Box<Unrecorded>),
    /// The message's handling panicked. Like a crash, it ends by the queue's redrive, for it is never sent again.
    Panicked,
    /// It was written by another release, and this one cannot read it.
    Unreadable,
}

/// SQS's own limit of a visibility time-out (ChangeMessageVisibility, API reference).
const MAX_VISIBILITY_SECS: u64 = 43_200;

/// The wait after the first error of our own, in seconds. It doubles with each receive.
const FIRST_BACKOFF_SECS: u64 = 5;

/// The longest wait after an error of our own, in seconds.
const MAX_BACKOFF_SECS: u64 = 900;

/// From this receive on, a message that comes back is sent again as a new SQS message. Five receives are left for crashes before
/// redrive (`maxReceiveCount` 20) takes it away. After errors almost two hours have passed by then, so that copies cannot multiply.
pub(super) const SENT_AGAIN_FROM: u32 = 15;

/// How long a message waits whose `receives`-th receive (from 1) ended in an error of our own, in seconds.
fn backoff_secs(receives: u32) -> u64 {
    let doublings = receives.saturating_sub(1).min(16);
    (FIRST_BACKOFF_SECS << doublings).min(MAX_BACKOFF_SECS)
}

impl Setback {
    /// This record was not written.
    pub(super) fn unrecorded(record: Record, endpoint_hash: Option<&EndpointHash>) -> Self {
        Self::Unrecorded(Box::new(Unrecorded { record, endpoint_hash: endpoint_hash.cloned() }))
    }

    /// After how many seconds it comes back, if this was its `receives`-th receive, those of its former SQS messages
    /// included. Without this a passing error would hide a one-time code for the queue's whole visibility time-out.
    pub fn visibility_secs(&self, receives: u32, now: Timestamp, rng: &mut dyn Rng) -> u32 {
        let backoff = backoff_secs(receives);
        let secs = match self {
            Self::NotAdmitted => rng.random_range(0..=backoff),
            Self::Leased { until } => {
                let rest = until.since(now) + Duration::from_millis(999);
                rest.as_secs().min(MAX_VISIBILITY_SECS)
            }
            Self::Infrastructure | Self::Unrecorded(_) | Self::Panicked | Self::Unreadable => {
                rng.random_range(backoff..=backoff + backoff / 5).min(MAX_BACKOFF_SECS)
            }
        };
        u32::try_from(secs).unwrap_or(u32::MAX)
    }

    /// Whether a new SQS message may take this one's place: not where the queue's redrive is what ends it.
    pub const fn may_be_sent_again(&self) -> bool {
        match self {
            Self::NotAdmitted | Self::Leased { .. } | Self::Infrastructure | Self::Unrecorded(_) => true,
            Self::Panicked | Self::Unreadable => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn waits(setback: &Setback, receives: u32) -> Vec<u64> {
        let mut rng = StdRng::seed_from_u64(1);
        let wait = |_| setback.visibility_secs(receives, Timestamp::default(), &mut rng).into();
        (0..200).map(wait).collect()
    }

    #[test]
    fn errors_of_ours_back_off_from_five_seconds_to_fifteen_minutes() {
        for (receives, least, most) in [
            (0, 5, 6),
            (1, 5, 6),
            (2, 10, 12),
            (5, 80, 96),
            (8, 640, 768),
            (9, 900, 900),
            (u32::MAX, 900, 900),
        ] {
            for setback in [Setback::Infrastructure, Setback::Panicked, Setback::Unreadable] {
                let waits = waits(&setback, receives);
                assert!(waits.iter().all(|secs| (least..=most).contains(secs)), "{receives}: {waits:?}");
            }
        }
    }

    #[test]
    fn redrive_is_out_of_reach_of_a_two_hour_outage() {
        let least: u64 = (1..20).map(backoff_secs).sum();
        assert!(least > 2 * 3600, "{least} s before the 20th receive");
    }

    #[test]
    fn a_message_that_is_not_admitted_again_and_again_backs_off() {
        assert!(waits(&Setback::NotAdmitted, 1).iter().all(|secs| *secs <= 5));
        let later = waits(&Setback::NotAdmitted, 12);
        assert!(later.iter().sum::<u64>() > 200 * 300, "{later:?}");
    }

    #[test]
    fn a_leased_message_comes_back_when_the_lease_is_over() {
        let mut rng = StdRng::seed_from_u64(1);
        let now = Timestamp::from_secs(100);
        let until = Timestamp::from_ms(112_300);
        assert_eq!(Setback::Leased { until }.visibility_secs(1, now, &mut rng), 13);
        assert_eq!(Setback::Leased { until: now }.visibility_secs(1, now, &mut rng), 0);
    }
}
