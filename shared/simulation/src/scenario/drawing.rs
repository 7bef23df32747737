//! Random numbers for the parts of a scenario, and what all parts have in common.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// When every scenario begins.
pub const BEGIN: &str = "2026-11-21T10:00:00Z";

/// For how long producers send.
pub(super) const SENDING: Duration = Duration::from_secs(2 * 3600);

pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// Random numbers for one part of a scenario, so that a seed's other parts stay what they are when this one changes.
pub(super) fn source(seed: u64, part: &str) -> StdRng {
    StdRng::seed_from_u64(part.bytes().fold(seed, |mixed, byte| mixed.rotate_left(9) ^ u64::from(byte)))
}

pub(super) fn secs(rng: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from * 1000..=to * 1000))
}

pub(super) fn tenant(rng: &mut StdRng) -> &'static str {
    TENANTS.choose(rng).copied().unwrap_or(TENANTS[0])
}

/// A moment before `end`.
pub(super) fn moment(rng: &mut StdRng, end: Duration) -> Duration {
    Duration::from_millis(rng.random_range(0..end.as_millis() as u64))
}
