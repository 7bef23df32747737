//! What becomes of the SQS message itself: it is acknowledged, or it comes back, and when.

use std::time::Duration;

use rand::{Rng, RngExt};

use crate::time::Timestamp;

/// A received message's fate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Everything that it asked for is durable: SQS may delete it.
    Acknowledged,
    /// It comes back.
    ComesBack(Setback),
}

/// Why a message comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setback {
    /// There was no time or no place for it in this invocation.
    NotAdmitted,
    /// Another worker has its attempt until then.
    Leased {
        /// The end of that lease.
        until: Timestamp,
    },
    /// Our own infrastructure failed, or the message's handling panicked.
    Infrastructure,
}

/// SQS's own limit of a visibility time-out (ChangeMessageVisibility, API reference).
const MAX_VISIBILITY_SECS: u64 = 43_200;

impl Setback {
    /// After how many seconds it comes back, at its `receive_count`-th receipt. Without this a passing fault would
    /// hide a one-time code for the queue's whole visibility time-out.
    pub fn visibility_secs(self, receive_count: u32, now: Timestamp, rng: &mut dyn Rng) -> u32 {
        let secs = match self {
            Self::NotAdmitted => rng.random_range(0..=5),
            Self::Leased { until } => {
                let rest = until.since(now) + Duration::from_millis(999);
                rest.as_secs().min(MAX_VISIBILITY_SECS)
            }
            Self::Infrastructure => {
                let doublings = receive_count.saturating_sub(1).min(8);
                rng.random_range(5..=(10u64 << doublings).min(60))
            }
        };
        u32::try_from(secs).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn faults_bring_a_message_back_within_a_minute_sooner_at_first() {
        let mut rng = StdRng::seed_from_u64(1);
        for receive_count in [0, 1, 2, 5, u32::MAX] {
            for _ in 0..200 {
                let secs =
                    Setback::Infrastructure.visibility_secs(receive_count, Timestamp::default(), &mut rng);
                assert!((5..=60).contains(&secs));
                assert!(receive_count > 1 || secs <= 10);
            }
        }
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
