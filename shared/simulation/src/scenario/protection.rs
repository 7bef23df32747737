//! A steady stream of messages to one or two origins that fail, so that breakers open, half-open, ramp and close often.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::outcome::{InDoubt, NotSent};

use super::drawing::{self, secs};
use super::faults::Faults;
use super::messages::Sending;
use super::receivers::{Behaviour, Receiver};

/// The share of scenarios that have a stream, of those that are about nothing else.
const SHARE: f64 = 0.1;

/// The pause between two messages of a stream, in milliseconds: a fast one may meet a storm of 429s, a slow one many cooldowns.
const FAST_MS: std::ops::RangeInclusive<u64> = 100..=500;
const SLOW_MS: std::ops::RangeInclusive<u64> = 500..=8_000;

/// What a scenario with a stream is made of.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Drawn {
    pub(super) stream: Stream,
    pub(super) receivers: Vec<Receiver>,
    pub(super) sendings: Vec<Sending>,
    pub(super) faults: Faults,
    pub(super) faults_end: Duration,
}

/// A stream, as its promises see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    pub until: Duration,
    /// Whether nothing fails but the receivers: workers may still start cold, and messages arrive twice.
    pub is_calm: bool,
    /// Whether each message has one attempt, so that all probes are last attempts.
    pub only_last_attempts: bool,
}

pub(super) fn draw(rng: &mut StdRng, spread: impl FnOnce(Duration) -> Faults) -> Option<Drawn> {
    if !rng.random_bool(SHARE) {
        return None;
    }
    let interval = if rng.random_bool(0.25) { FAST_MS } else { SLOW_MS };
    let interval = Duration::from_millis(rng.random_range(interval));
    let count: u32 = rng.random_range(100..=220);
    let until = interval * count;
    let receivers = receivers(rng, until);
    let is_calm = rng.random_bool(0.6);
    let faults_end = until.max(Duration::from_secs(600));
    let faults = if is_calm {
        let rate = |rng: &mut StdRng| if rng.random_bool(0.3) { rng.random_range(0.0..0.1) } else { 0.0 };
        Faults { cold_start: rate(rng), duplicate: rate(rng), ..Faults::default() }
    } else {
        spread(faults_end)
    };
    let retry = *[None, None, Some("none"), Some("fixed-jitter"), Some("schedule-standard")]
        .choose(rng)
        .unwrap_or(&None);
    let otp = if rng.random_bool(0.3) { 0.3 } else { 0.0 };
    let sendings = (0..count).map(|n| Sending {
        at: interval * n,
        tenant: drawing::tenant(rng),
        id: format!("s{n}"),
        receiver: rng.random_range(0..receivers.len()),
        class: rng.random_bool(otp).then_some("otp"),
        retry,
        ..Sending::default()
    });
    let sendings = sendings.collect();
    let stream = Stream { until, is_calm, only_last_attempts: retry == Some("none") };
    Some(Drawn { stream, receivers, sendings, faults, faults_end })
}

/// One or two receivers that fail once or twice, and are well in the last part of the stream.
fn receivers(rng: &mut StdRng, until: Duration) -> Vec<Receiver> {
    let count = rng.random_range(1..=2);
    let receiver = |_| {
        let mut phases = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let from = until.mul_f64(rng.random_range(0.02..0.5));
            phases.push((from, sickness(rng)));
            let lasting = secs(rng, 10, 60).max(until.mul_f64(rng.random_range(0.02..0.3)));
            phases.push(((from + lasting).min(until.mul_f64(0.7)), Behaviour::Accepts));
        }
        phases.sort_by_key(|(from, _)| *from);
        Receiver { is_webhook: rng.random_bool(0.5), phases }
    };
    (0..count).map(receiver).collect()
}

fn sickness(rng: &mut StdRng) -> Behaviour {
    match rng.random_range(0..9) {
        0..3 => Behaviour::Answers(503),
        3 => Behaviour::Unreachable(NotSent::Connect),
        4 => Behaviour::Swallows(InDoubt::Reset),
        5 => Behaviour::Swallows(InDoubt::Timeout),
        6 | 7 => Behaviour::Asks(429, rng.random_range(5..=120)),
        _ => Behaviour::Flaps(rng.random_range(0.2..0.9)),
    }
}
