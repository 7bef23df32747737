//! A tenant that may have a few attempts under way, at receivers that take seconds, from workers that do not know of each other.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::clock::Clock;
use super::drawing::secs;
use super::faults::Faults;
use super::messages::Sending;
use super::receivers::{Behaviour, Receiver};
use super::whole::Scenario;

const TENANT: &str = "acme";

/// Clocks are no further apart than three seconds: infra/docs/limits.md.
const OFF_BY_MS: i64 = 1_450;

/// Nothing fails that workers learn the number of free seats from: without that, concurrency is not limited.
pub(super) fn scenario(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let most_at_once = rng.random_range(1..=6);
    let clock =
        |rng: &mut StdRng| Clock { ahead: rng.random_range(-OFF_BY_MS..=OFF_BY_MS), ..Clock::default() };
    let clocks = (0..rng.random_range(2..=6)).map(|_| clock(rng)).collect();
    let receiver = |rng: &mut StdRng| Receiver {
        is_webhook: rng.random_bool(0.5),
        phases: vec![(Duration::ZERO, Behaviour::Slow(rng.random_range(500..9_500)))],
    };
    let receivers: Vec<Receiver> = (0..6).map(|_| receiver(rng)).collect();
    let bursts: Vec<Duration> = (0..4).map(|_| secs(rng, 0, 240)).collect();
    let sendings = (0..rng.random_range(20..=60)).map(|n| Sending {
        at: *bursts.choose(rng).unwrap_or(&Duration::ZERO)
            + Duration::from_millis(rng.random_range(0..3_000)),
        tenant: TENANT,
        id: format!("m{n}"),
        receiver: n % receivers.len(),
        class: [None, Some("campaign")].choose(rng).copied().flatten(),
        ..Sending::default()
    });
    let sendings = sendings.collect();
    let faults = match rng.random_bool(0.5) {
        true => Faults::default(),
        false => Faults { death: 0.15, duplicate: 0.1, slow: 0.1, cold_start: 0.1, ..Faults::default() },
    };
    let faults_end = Duration::from_secs(1_200);
    Scenario { clocks, receivers, sendings, faults, faults_end, most_at_once: Some(most_at_once), ..blank }
}
