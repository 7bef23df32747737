//! When dead letters make a browser's subscription suspect, and what ends that.
//!
//! A push service may refuse one subscription for good without ever answering 404 or 410: with 400, with 403, or with errors until all
//! retries are used. Each dead letter of such a kind counts against its subscription, unless others fared alike
//! ([`crate::protection::peers`]): then it is the origin's trouble, or ours. The third one makes the subscription suspect, if each came at
//! least an hour after the one before, the first at most seven days ago, and no success or renewal between.
//!
//! At most ten of a tenant's subscriptions become suspect in a day, or one in a thousand if that is more, about as many as a push service
//! loses anyway: where more fail, it is not each one's own trouble, whatever single workers have seen of it.
//!
//! The hour makes a reference that is delivered twice one dead letter, and a burst of messages one observation. The stored state stays
//! `active`, so that a release without suspects goes on sending.

use std::time::Duration;

use crate::identity::DeliveryId;
use crate::label::labels;
use crate::reason::Reason;
use crate::time::Timestamp;

/// So many dead letters make a subscription suspect.
pub const DEAD_LETTERS: u32 = 3;

/// A dead letter that comes sooner after the last one that counted does not count.
pub const APART: Duration = Duration::from_secs(3600);

/// Those count that came within this time after the first.
pub const WITHIN: Duration = Duration::from_secs(7 * 86_400);

/// Where suspects are held, one message is let through this often: four a day find a browser that works again within hours.
pub const PROBED_EVERY: Duration = Duration::from_secs(6 * 3600);

/// So many of a tenant's subscriptions may become suspect in a day …
const AT_LEAST_A_DAY: u64 = 10;

/// … or one in this number, if that is more.
const ONE_A_DAY_IN: u64 = 1_000;

labels! {
    /// What happens to messages to a suspect subscription.
    #[derive(Default)]
    pub enum Suspects {
        /// They are sent like all others.
        #[default]
        Send = "send",
        /// They become dead letters, but for a probe every few hours.
        Hold = "hold",
    }
}

/// What dead letters say against a browser's subscription, since its last success or renewal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Doubts {
    /// How many dead letters count.
    pub count: u32,
    /// When the first of them came.
    pub since: Option<Timestamp>,
    /// When the last of them came.
    pub last_at: Option<Timestamp>,
    /// When they made it suspect; `None` while they do not.
    pub suspect_at: Option<Timestamp>,
    /// The delivery that was let through last while it was suspect and held.
    pub probe: Option<Probe>,
}

/// A delivery that shows whether a suspect subscription works again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    pub delivery: DeliveryId,
    pub at: Timestamp,
}

impl Doubts {
    /// Whether a success has anything to forget.
    pub fn is_any(&self) -> bool {
        self.count > 0
    }

    /// With a dead letter of that time; `None` if it changes nothing.
    #[must_use]
    pub fn with(&self, at: Timestamp, apart: Duration) -> Option<Self> {
        if self.suspect_at.is_some() || self.last_at.is_some_and(|last| at.since(last) < apart) {
            return None;
        }
        let since = self.since.filter(|since| at.since(*since) <= WITHIN);
        let count = if since.is_some() { self.count.saturating_add(1) } else { 1 };
        Some(Self {
            count,
            since: since.or(Some(at)),
            last_at: Some(at),
            suspect_at: (count >= DEAD_LETTERS).then_some(at),
            probe: None,
        })
    }

    /// Whether this delivery is the probe that was let through last.
    pub fn is_probed_by(&self, delivery: &DeliveryId) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.delivery == *delivery)
    }

    /// Whether another delivery may be the next probe.
    pub fn is_probe_due(&self, every: Duration, now: Timestamp) -> bool {
        self.probe.as_ref().is_none_or(|probe| now.since(probe.at) >= every)
    }
}

/// Whether another of a tenant's `all` subscriptions may become suspect, which would be the `nth` of the day.
pub fn may_become_suspect(nth: u64, all: u64) -> bool {
    nth <= AT_LEAST_A_DAY.max(all / ONE_A_DAY_IN)
}

/// Whether a dead letter of this reason counts against its subscription. `status`: that of the last attempt, if it was answered.
pub fn counts(reason: Reason, status: Option<u16>) -> bool {
    match reason {
        Reason::Rejected
        | Reason::Forbidden
        | Reason::Redirected
        | Reason::BadSubscriptionKey
        | Reason::PermanentByPolicy => true,
        // One that is asked to slow down works.
        Reason::RetriesExhausted => status != Some(429),
        // Without an answer it may have been held back all the time.
        Reason::TtlExceeded => status.is_some_and(|status| status != 429),
        // What is wrong with the message, our keys or our settings.
        Reason::Malformed
        | Reason::IdConflict
        | Reason::HeaderNotPermitted
        | Reason::EndpointNotAllowed
        | Reason::UnknownVapidKey
        | Reason::PayloadTooLarge
        | Reason::Unauthorized
        | Reason::QuotaExceeded
        | Reason::Poison
        | Reason::Cancelled
        // Nothing was sent, because of what is stored.
        | Reason::SubscriptionUnknown
        | Reason::SubscriptionOff
        | Reason::SubscriptionExpired
        | Reason::SubscriptionStale
        | Reason::SubscriptionSuspect
        | Reason::EndpointReplaced
        | Reason::EndpointDisabled
        // A state of its own.
        | Reason::Gone
        | Reason::NotFound
        // No dead letters of a push.
        | Reason::RateLimited
        | Reason::ServerError
        | Reason::NotReady
        | Reason::RetryableByPolicy
        | Reason::NotSent
        | Reason::InDoubt
        | Reason::InDoubtNotRetried
        | Reason::TtlOver
        | Reason::RetriesDisabled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    const HOUR: u64 = 3600;

    fn after(times: &[u64]) -> Doubts {
        times.iter().fold(Doubts::default(), |doubts, secs| doubts.with(at(*secs), APART).unwrap_or(doubts))
    }

    #[test]
    fn the_third_dead_letter_an_hour_apart_makes_it_suspect() {
        for (times, count, suspect_at) in [
            (&[0][..], 1, None),
            (&[0, HOUR], 2, None),
            (&[0, HOUR, 2 * HOUR], 3, Some(at(2 * HOUR))),
            // A reference that comes again, a burst, and one that comes late count once.
            (&[0, 0, HOUR - 1], 1, None),
            (&[HOUR, 0, 2 * HOUR], 2, None),
            // It stays suspect since then.
            (&[0, HOUR, 2 * HOUR, 9 * HOUR], 3, Some(at(2 * HOUR))),
            // The first is too long ago: they begin again.
            (&[0, HOUR, 7 * 86_400 + 1], 1, None),
            (&[0, HOUR, 7 * 86_400], 3, Some(at(7 * 86_400))),
        ] {
            let doubts = after(times);
            assert_eq!((doubts.count, doubts.suspect_at), (count, suspect_at), "{times:?}");
        }
        assert!(!Doubts::default().is_any() && after(&[0]).is_any());
    }

    #[test]
    fn a_probe_is_due_every_six_hours() {
        let suspect = after(&[0, HOUR, 2 * HOUR]);
        assert!(suspect.is_probe_due(PROBED_EVERY, at(2 * HOUR)));
        let delivery = DeliveryId::parse("m1").expect("valid");
        let probed =
            Doubts { probe: Some(Probe { delivery: delivery.clone(), at: at(3 * HOUR) }), ..suspect };
        assert!(!probed.is_probe_due(PROBED_EVERY, at(9 * HOUR - 1)));
        assert!(probed.is_probe_due(PROBED_EVERY, at(9 * HOUR)));
        assert!(probed.is_probed_by(&delivery));
        assert!(!probed.is_probed_by(&DeliveryId::parse("m2").expect("valid")));
    }

    #[test]
    fn ten_or_one_in_a_thousand_become_suspect_in_a_day() {
        for (nth, all, expected) in
            [(1, 1, true), (10, 0, true), (11, 10_999, false), (11, 11_000, true), (1_001, 1_000_000, false)]
        {
            assert_eq!(may_become_suspect(nth, all), expected, "{nth} of {all}");
        }
    }

    #[test]
    fn only_answers_about_the_endpoint_count() {
        let counting: Vec<&str> = Reason::ALL
            .iter()
            .filter(|reason| counts(**reason, Some(503)))
            .map(|reason| reason.label())
            .collect();
        let expected = [
            "bad_subscription_key",
            "rejected",
            "forbidden",
            "redirected",
            "permanent_by_policy",
            "retries_exhausted",
            "ttl_exceeded",
        ];
        assert_eq!(counting, expected);
        for (reason, status, expected) in [
            (Reason::RetriesExhausted, Some(429), false),
            (Reason::RetriesExhausted, None, true),
            (Reason::TtlExceeded, Some(429), false),
            (Reason::TtlExceeded, None, false),
        ] {
            assert_eq!(counts(reason, status), expected, "{reason:?} {status:?}");
        }
    }
}
