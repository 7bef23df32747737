//! Why a received message comes back to its queue, and after how long.
//!
//! Redrive counts receives and knows no reasons, so an outage of our own would look like a crash loop to it. The waits grow to 15
//! minutes, and from the [`SENT_AGAIN_FROM`]th receive a new SQS message with a receive count of its own takes the message's place.

use std::time::Duration;

use rand::{Rng, RngExt};

use crate::endpoint::EndpointHash;
use crate::ledger::{Record, Unrecorded};
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setback {
    /// This invocation had no time or no place for it.
    NotAdmitted,
    /// Another worker has claimed its attempt.
    Leased { until: Timestamp },
    /// A gate holds it back, and an earlier receive may have sent it on already: another one sent on would multiply it.
    HeldBack { until: Timestamp },
    /// Our own infrastructure failed.
    Infrastructure,
    /// An attempt was made, or a claim may have been, and what followed could not be recorded.
    Unrecorded(Box<Unrecorded>),
    /// The message's handling panicked. Like a crash, it ends by the queue's redrive, because it is never sent again.
    Panicked,
    /// Another release wrote it, and this one cannot read it.
    Unreadable,
}

/// From this receive on, a message that comes back is sent again as a new SQS message. Five receives are left for crashes before
/// redrive (`maxReceiveCount` 20) takes it away. After errors almost two hours have passed by then, so that copies cannot multiply.
pub const SENT_AGAIN_FROM: u32 = 15;

/// SQS refuses a visibility time-out that ends later than 12 hours after the receive (ChangeMessageVisibility, API reference): an invocation
/// that lasts a quarter of an hour is taken off.
const MAX_VISIBILITY_SECS: u64 = 43_200 - 900;

/// The wait after the first error of our own, in seconds. It doubles with each receive.
const FIRST_BACKOFF_SECS: u64 = 5;

const MAX_BACKOFF_SECS: u64 = 900;

/// From this receive on, a message that meets a lease backs off: another copy of it makes the attempt.
const PATIENT_FROM: u32 = 8;

/// The wait in seconds after the `receives`-th receive (from 1) ended in an error of our own: min(900, 5 · 2^(n − 1)).
fn backoff_secs(receives: u32) -> u64 {
    let doublings = receives.saturating_sub(1).min(16);
    (FIRST_BACKOFF_SECS << doublings).min(MAX_BACKOFF_SECS)
}

fn rest_secs(until: Timestamp, now: Timestamp) -> u64 {
    let rest = until.since(now) + Duration::from_millis(999);
    rest.as_secs().min(MAX_VISIBILITY_SECS)
}

impl Setback {
    pub fn unrecorded(record: Record, endpoint_hash: Option<&EndpointHash>) -> Self {
        Self::Unrecorded(Box::new(Unrecorded { record, endpoint_hash: endpoint_hash.cloned() }))
    }

    /// After how many seconds the message comes back, if this was its `receives`-th receive, those of its former SQS messages
    /// included. Without this a passing error would hide a one-time code for the queue's whole visibility time-out.
    pub fn visibility_secs(&self, receives: u32, now: Timestamp, rng: &mut dyn Rng) -> u32 {
        let backoff = backoff_secs(receives);
        let secs = match self {
            Self::NotAdmitted => rng.random_range(0..=backoff),
            // Leases end within a minute, so the receive from which a message is sent again would come within ten, again and again, and with
            // each lost acknowledgement one copy more.
            Self::Leased { until } if receives >= PATIENT_FROM => rest_secs(*until, now).max(backoff),
            Self::Leased { until } => rest_secs(*until, now),
            // A breaker that is half open holds back for seconds: copies would multiply within a minute.
            Self::HeldBack { until } => rest_secs(*until, now).max(backoff),
            Self::Infrastructure | Self::Unrecorded(_) | Self::Panicked | Self::Unreadable => {
                rng.random_range(backoff..=backoff + backoff / 5).min(MAX_BACKOFF_SECS)
            }
        };
        u32::try_from(secs).unwrap_or(u32::MAX)
    }

    /// Whether it is an error of our own.
    pub const fn is_failure(&self) -> bool {
        match self {
            Self::Infrastructure | Self::Unrecorded(_) | Self::Panicked => true,
            Self::NotAdmitted | Self::Leased { .. } | Self::HeldBack { .. } | Self::Unreadable => false,
        }
    }

    /// Whether a new SQS message takes the message's place at its `receive_count`-th receive: not where redrive is to end it.
    pub const fn is_sent_again(&self, receive_count: u32) -> bool {
        receive_count >= SENT_AGAIN_FROM
            && match self {
                Self::NotAdmitted
                | Self::Leased { .. }
                | Self::HeldBack { .. }
                | Self::Infrastructure
                | Self::Unrecorded(_) => true,
                Self::Panicked | Self::Unreadable => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::rng;

    fn waits(setback: &Setback, receives: u32) -> Vec<u64> {
        let (now, mut rng) = (Timestamp::from_secs(100), rng());
        (0..200).map(|_| setback.visibility_secs(receives, now, &mut rng).into()).collect()
    }

    #[test]
    fn errors_of_our_own_back_off_from_five_seconds_to_fifteen_minutes() {
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
        let least: u64 = (1..20).map(backoff_secs).sum();
        assert!(least > 2 * 3600, "{least} s before the 20th receive: an outage does not reach redrive");
    }

    #[test]
    fn a_refused_message_backs_off_and_a_leased_one_awaits_the_lease() {
        assert!(waits(&Setback::NotAdmitted, 1).iter().all(|secs| *secs <= 5));
        let later = waits(&Setback::NotAdmitted, 12);
        assert!(later.iter().sum::<u64>() > 200 * 300, "{later:?}");
        for (receives, until_ms, secs) in
            [(1, 112_300, 13), (1, 100_000, 0), (7, 112_300, 13), (8, 112_300, 640), (15, 112_300, 900)]
        {
            let until = Timestamp::from_ms(until_ms);
            assert_eq!(waits(&Setback::Leased { until }, receives), [secs; 200], "{receives}");
        }
    }

    #[test]
    fn a_message_that_is_held_back_waits_for_its_time_and_backs_off() {
        for (receives, until_secs, secs) in [
            (2, 130, 30),
            (2, 103, 10),
            (4, 130, 40),
            (15, 103, 900),
            (15, 1_300, 1_200),
            (2, 90_000, 42_300),
        ] {
            let until = Timestamp::from_secs(until_secs);
            assert_eq!(waits(&Setback::HeldBack { until }, receives), [secs; 200], "{receives} {until_secs}");
        }
    }

    #[test]
    fn only_the_fifteenth_receive_of_a_message_that_did_not_panic_is_sent_again() {
        for (setback, expected) in [
            (Setback::NotAdmitted, true),
            (Setback::Leased { until: Timestamp::default() }, true),
            (Setback::HeldBack { until: Timestamp::default() }, true),
            (Setback::Infrastructure, true),
            (Setback::Panicked, false),
            (Setback::Unreadable, false),
        ] {
            assert_eq!([14, 15].map(|n| setback.is_sent_again(n)), [false, expected], "{setback:?}");
        }
    }
}
