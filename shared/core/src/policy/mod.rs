//! Retry policies: how often, how long apart, and which failures are worth it.
//!
//! A policy is a value that was validated when it was read ([`parse`]): arithmetic on it cannot overflow, and no
//! delay is negative or without end. It does not know the clock, and draws its jitter from a source that it is given. What
//! a policy *means* for one failed attempt is [`crate::plan`]'s to say; which policy holds for a message is
//! [`choice`]'s.

pub mod catalogue;
pub mod choice;
mod exponential;
mod jitter;
pub mod parse;
mod schedule;
pub mod stored;
mod wait_factor;

use std::time::Duration;

pub use choice::{Chosen, Circumstances, Source};
pub use exponential::Exponential;
pub use jitter::{DelayRange, Jitter};
pub use schedule::Schedule;
pub use stored::TenantPolicies;
pub use wait_factor::WaitFactor;

use crate::identity::Attempt;
use crate::time::Ttl;
use crate::verdict::Overrides;

/// The longest single delay that a policy may ask for: a year.
pub const MAX_DELAY: Duration = Duration::from_secs(365 * 86_400);

/// The most that is added to a Retry-After, so that a fleet that heard the same value does not return as one.
pub const MAX_RETRY_AFTER_SMEAR: Duration = Duration::from_secs(30);

/// A validated retry policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name, or `inline` for a message's own.
    pub name: String,
    /// What it is for, in its author's words.
    pub description: Option<String>,
    /// How retries are spaced; `None` retries nothing (`retries_enabled: false`).
    pub retries: Option<Retries>,
    /// Statuses that are retried whatever the verdict table says; on web push not 401, 404 and 413.
    pub retryable: Vec<u16>,
    /// Statuses that are final whatever the verdict table says; on web push not 401, 404 and 413.
    pub permanent: Vec<u16>,
    /// Whether an attempt that may have arrived is repeated.
    pub retry_in_doubt: bool,
    /// Largest share of the message's TTL that a delay may take, 0 to 1.
    pub max_delay_ttl_fraction: Option<f64>,
    /// Share of a Retry-After that is added to it at random, 0 to 1.
    pub retry_after_smear: f64,
    /// How long a dead letter's description is kept, in days.
    pub dlq_retention_days: u16,
}

/// How often and how far apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Retries {
    /// Retries after the first attempt: `max_retries + 1` attempts in all.
    pub max_retries: u32,
    /// The nominal delays.
    pub backoff: Backoff,
    /// How they are spread.
    pub jitter: Jitter,
}

/// The families of nominal delays.
#[derive(Clone, PartialEq, Debug)]
pub enum Backoff {
    /// Growing by a factor, up to a cap.
    Exponential(Exponential),
    /// A list.
    Schedule(Schedule),
    /// Growing by 004's formula.
    WaitFactor(WaitFactor),
}

impl Backoff {
    /// The nominal delay before retry number `retry` (from 1), at most a year.
    pub fn nominal(&self, retry: u32) -> Duration {
        match self {
            Self::Exponential(it) => it.nominal(retry),
            Self::Schedule(it) => it.nominal(retry),
            Self::WaitFactor(it) => it.nominal(retry),
        }
    }

    /// What no nominal delay exceeds.
    fn cap(&self) -> Duration {
        match self {
            Self::Exponential(it) => it.max_delay,
            Self::Schedule(_) | Self::WaitFactor(_) => MAX_DELAY,
        }
    }
}

impl Retries {
    /// The delays before retry number `retry` (from 1) as the formula gives them.
    pub fn range(&self, retry: u32) -> DelayRange {
        self.jitter.around(self.backoff.nominal(retry), self.backoff.cap()).below(MAX_DELAY)
    }
}

impl Policy {
    /// The statuses that it judges for itself.
    pub fn overrides(&self) -> Overrides<'_> {
        Overrides { retryable: &self.retryable, permanent: &self.permanent }
    }

    /// The delays that retry `retry` (from 1) of a message of this TTL may have, when the other side names none; `None`
    /// if the policy has no such retry.
    ///
    /// The share of the TTL cuts the range rather than the delay that was drawn from it: else all that were drawn above the
    /// cut would come back together.
    pub fn delay_range(&self, retry: u32, ttl: Ttl) -> Option<DelayRange> {
        let retries = self.retries.as_ref().filter(|it| (1..=it.max_retries).contains(&retry))?;
        let range = retries.range(retry);
        Some(match self.max_delay_ttl_fraction {
            Some(fraction) => range.below(jitter::scaled(ttl.duration(), fraction)),
            None => range,
        })
    }

    /// Whether no attempt follows this one.
    pub fn is_last(&self, attempt: Attempt) -> bool {
        self.retries.as_ref().is_none_or(|retries| attempt.0 >= retries.max_retries)
    }

    /// The delays that may follow a Retry-After while so much of the TTL is left: never less than it, and a smear on top.
    ///
    /// The smear ends a second before the TTL does, because a retry that comes later would have no whole second left to travel in
    /// the `TTL` header. It cuts the range rather than the delay that was drawn, as in [`Policy::delay_range`].
    pub fn retry_after_range(&self, retry_after: Duration, remaining: Duration) -> DelayRange {
        let smear = jitter::scaled(retry_after, self.retry_after_smear).min(MAX_RETRY_AFTER_SMEAR);
        let latest = remaining.saturating_sub(Duration::from_secs(1)).max(retry_after);
        DelayRange::new(retry_after, retry_after.saturating_add(smear)).below(latest)
    }
}

#[cfg(test)]
#[path = "article_tests.rs"]
mod article_tests;
