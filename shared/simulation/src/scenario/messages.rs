//! What producers send.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::drawing::{self, SENDING, moment, secs};
use super::hours::Hours;

/// A message that a producer sends.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sending {
    pub at: Duration,
    pub tenant: &'static str,
    pub id: String,
    /// Which receiver it goes to.
    pub receiver: usize,
    /// Makes the content: the same id with another number is another content.
    pub content: u32,
    /// Seconds.
    pub ttl: Option<u32>,
    pub class: Option<&'static str>,
    pub retry: Option<&'static str>,
    /// Not before this.
    pub deliver_at: Option<Duration>,
    /// In these hours of the day only.
    pub hours: Option<Hours>,
    /// By its address instead of its subscription.
    pub by_address: bool,
}

/// Messages, some with copies of the same id.
pub(super) fn draw(rng: &mut StdRng, receivers: usize, are_many: bool) -> Vec<Sending> {
    let count = if are_many { rng.random_range(60..=120) } else { rng.random_range(1..=12) };
    let mut sendings: Vec<Sending> = Vec::new();
    for n in 0..count {
        let next = sending(rng, n, receivers);
        let copies = if rng.random_bool(0.3) { rng.random_range(1..=3) } else { 0 };
        for _ in 0..copies {
            let at = next.at + secs(rng, 0, 1200);
            let content = if rng.random_bool(0.15) { next.content + 1 } else { next.content };
            sendings.push(Sending { at, content, ..next.clone() });
        }
        sendings.push(next);
    }
    sendings
}

fn sending(rng: &mut StdRng, n: usize, receivers: usize) -> Sending {
    let at = moment(rng, SENDING);
    Sending {
        at,
        tenant: drawing::tenant(rng),
        id: format!("m{n}"),
        receiver: rng.random_range(0..receivers),
        content: 0,
        ttl: rng.random_bool(0.4).then(|| *[0, 5, 60, 600, 3600, 86_400].choose(rng).unwrap_or(&60)),
        class: [None, Some("otp"), Some("campaign")].choose(rng).copied().flatten(),
        retry: [
            None,
            None,
            Some("fixed-jitter"),
            Some("schedule-standard"),
            Some("schedule-cautious"),
            Some("none"),
        ]
        .choose(rng)
        .copied()
        .flatten(),
        deliver_at: rng.random_bool(0.15).then(|| at + secs(rng, 1, 3 * 3600)),
        hours: None,
        by_address: rng.random_bool(0.2),
    }
}
