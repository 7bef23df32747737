//! Retry policies: how many retries, how far apart, and which failures are retried.
//!
//! A policy is a value that was validated when it was read ([`parse`]): arithmetic on it cannot overflow, and every delay is
//! between zero and a year. It draws its jitter from a random source that it is given. What a policy means for one failed attempt is
//! decided in [`crate::plan`], and which policy a message has in [`choice`].

pub mod catalogue;
pub mod choice;
mod delays;
pub mod parse;
pub mod stored;

use std::time::Duration;

pub use choice::{Chosen, Circumstances, Source};
pub use delays::{Backoff, DelayRange, Exponential, Jitter, MAX_DELAY, Schedule, WaitFactor};
pub use stored::TenantPolicies;

use crate::identity::Attempt;
use crate::time::Ttl;
use crate::verdict::Overrides;

/// The most that is added to a Retry-After, so that workers that got the same value do not return together.
pub const MAX_RETRY_AFTER_SMEAR: Duration = Duration::from_secs(30);

/// What no policy and no Retry-After goes below before retry number `retry` (from 1): a tenth of a second more with each, from the
/// second on. A hundred retries without a delay take at least eight minutes with it; without it they took seconds.
pub fn least_delay(retry: u32) -> Duration {
    if retry < 2 { Duration::ZERO } else { Duration::from_millis(100).saturating_mul(retry) }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name, or `inline` for a message's own.
    pub name: String,
    pub description: Option<String>,
    /// `None`: no retries (`retries_enabled: false`).
    pub retries: Option<Retries>,
    /// Statuses that are retried whatever the verdict table says; on web push not 401, 404 and 413.
    pub retryable: Vec<u16>,
    /// Statuses that are final whatever the verdict table says; on web push not 401, 404 and 413.
    pub permanent: Vec<u16>,
    pub retry_in_doubt: bool,
    /// Largest share of the message's TTL that a delay may take, 0 to 1.
    pub max_delay_ttl_fraction: Option<f64>,
    /// Share of a Retry-After that is added to it at random, 0 to 1.
    pub retry_after_smear: f64,
    pub dlq_retention_days: u16,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Retries {
    /// Retries after the first attempt: `max_retries + 1` attempts in all.
    pub max_retries: u32,
    pub backoff: Backoff,
    pub jitter: Jitter,
}

impl Retries {
    /// The delays before retry number `retry` (from 1) as the formula gives them.
    pub fn range(&self, retry: u32) -> DelayRange {
        self.jitter.around(self.backoff.nominal(retry), self.backoff.cap()).below(MAX_DELAY)
    }
}

impl Policy {
    pub fn overrides(&self) -> Overrides<'_> {
        Overrides { retryable: &self.retryable, permanent: &self.permanent }
    }

    /// The delays of retry `retry` (from 1) of a message of this TTL, without a Retry-After; `None` if the policy has no such retry.
    /// The share of the TTL limits the range rather than the delay that is drawn: otherwise all that are drawn above the limit would
    /// come back together.
    /// The last retry comes no sooner than after half of its nominal delay, with full jitter too: a message that drew short delays only would
    /// have used up its attempts in the seconds until workers know of an outage.
    pub fn delay_range(&self, retry: u32, ttl: Ttl) -> Option<DelayRange> {
        let retries = self.retries.as_ref().filter(|retries| (1..=retries.max_retries).contains(&retry))?;
        let range = retries.range(retry);
        let range = match self.max_delay_ttl_fraction {
            Some(fraction) => range.below(delays::scaled(ttl.duration(), fraction)),
            None => range,
        };
        let least = least_delay(retry).min(ttl.duration() / 2);
        if self.is_last(Attempt(retry)) {
            let half = retries.backoff.nominal(retry).min(range.max) / 2;
            return Some(range.above(least.max(half)));
        }
        Some(range.above(least))
    }

    pub fn is_last(&self, attempt: Attempt) -> bool {
        self.retries.as_ref().is_none_or(|retries| attempt.0 >= retries.max_retries)
    }

    /// The delays after a Retry-After while `remaining` of the TTL is left: never shorter than it, and a random smear on top.
    /// The smear ends a second before the TTL does, because a later retry would have no whole second left for the `TTL` header. It
    /// limits the range rather than the delay that is drawn, as in [`Policy::delay_range`].
    pub fn retry_after_range(&self, retry_after: Duration, remaining: Duration) -> DelayRange {
        let smear = delays::scaled(retry_after, self.retry_after_smear).min(MAX_RETRY_AFTER_SMEAR);
        let latest = remaining.saturating_sub(Duration::from_secs(1)).max(retry_after);
        DelayRange::new(retry_after, retry_after.saturating_add(smear)).below(latest)
    }
}

#[cfg(test)]
#[path = "preset_tests.rs"]
mod preset_tests;
