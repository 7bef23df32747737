//! Retry policies: how often, how long apart, and which failures are worth it.
//!
//! A policy is a value that was validated when it was read ([`parse`]): arithmetic on it cannot overflow, and no
//! delay is negative or without end. It does not know the clock, and draws its jitter from a source that it is given. What
//! a policy *means* for one failed attempt is [`crate::plan`]'s to say.

mod exponential;
mod jitter;
pub mod parse;
pub mod presets;

use std::time::Duration;

use rand::{Rng, RngExt};

pub use exponential::Exponential;
pub use jitter::Jitter;

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
    /// How retries are spaced; `None` retries nothing (`retries_enabled: false`).
    pub retries: Option<Retries>,
    /// Statuses that are retried whatever the verdict table says.
    pub retryable: Vec<u16>,
    /// Statuses that are final whatever the verdict table says.
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
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retries {
    /// Retries after the first attempt: `max_retries + 1` attempts in all.
    pub max_retries: u32,
    /// The nominal delays.
    pub backoff: Exponential,
    /// How they are spread.
    pub jitter: Jitter,
}

impl Policy {
    /// The statuses that it judges for itself.
    pub fn overrides(&self) -> Overrides<'_> {
        Overrides { retryable: &self.retryable, permanent: &self.permanent }
    }

    /// The delay before retry `retry` (from 1) of a message of this TTL, when the other side named none.
    pub fn backoff_delay(&self, retries: &Retries, retry: u32, ttl: Ttl, rng: &mut dyn Rng) -> Duration {
        let drawn = retries.jitter.spread(retries.backoff.nominal(retry), rng);
        self.capped(drawn, ttl).min(MAX_DELAY)
    }

    /// The delay that follows a Retry-After: never less than it, and a little more at random.
    pub fn retry_after_delay(&self, asked: Duration, rng: &mut dyn Rng) -> Duration {
        let most = jitter::scaled(asked, self.retry_after_smear).min(MAX_RETRY_AFTER_SMEAR);
        let ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        asked.saturating_add(Duration::from_millis(rng.random_range(0..=ms)))
    }

    fn capped(&self, delay: Duration, ttl: Ttl) -> Duration {
        match self.max_delay_ttl_fraction {
            Some(fraction) => delay.min(jitter::scaled(ttl.duration(), fraction)),
            None => delay,
        }
    }
}
