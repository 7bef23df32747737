//! What receivers answer, and when.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::outcome::{InDoubt, NotSent};

use super::drawing::{moment, secs};

/// What a receiver does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behaviour {
    Accepts,
    Answers(u16),
    /// A status with `Retry-After`, in seconds.
    Asks(u16, u32),
    /// It takes the request, and no answer comes.
    Swallows(InDoubt),
    Unreachable(NotSent),
    /// It accepts after this number of milliseconds.
    Slow(u64),
    /// After this number of milliseconds it accepts, refuses for good, or fails.
    Fickle(u64),
    /// Each request fails with that probability.
    Flaps(f64),
    /// A status with headers that are not what they should be, by their place in [`Hostile::ALL`].
    Hostile(u16, usize),
}

/// How long a response asks to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Its value is none.
    No,
    Secs(u64),
    /// Until then, in RFC 3339.
    Until(&'static str),
}

/// Headers that no service should send, and what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hostile {
    pub headers: &'static [(&'static str, &'static str)],
    pub wait: Wait,
}

const LONG: &str =
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999";

impl Hostile {
    pub const STATUSES: [u16; 13] = [0, 100, 199, 300, 304, 401, 408, 418, 429, 500, 503, 599, 999];

    pub const ALL: &'static [Self] = &[
        Self { headers: &[("retry-after", LONG)], wait: Wait::Secs(86_400 * 360) },
        Self { headers: &[("retry-after", "-5")], wait: Wait::No },
        Self { headers: &[("retry-after", "1.5")], wait: Wait::No },
        Self { headers: &[("retry-after", "\t 900 ")], wait: Wait::Secs(900) },
        Self { headers: &[("retry-after", "")], wait: Wait::No },
        Self { headers: &[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], wait: Wait::Secs(86_400 * 360) },
        Self {
            headers: &[("retry-after", "Sat, 21 Nov 2026 11:30:00 GMT")],
            wait: Wait::Until("2026-11-21T11:30:00Z"),
        },
        Self { headers: &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], wait: Wait::No },
        Self {
            headers: &[
                ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
                ("retry-after", "Thu, 01 Jan 1970 00:20:00 GMT"),
            ],
            wait: Wait::Secs(1_200),
        },
        Self {
            headers: &[("date", LONG), ("retry-after", "1200"), ("ttl", LONG), ("apns-id", LONG)],
            wait: Wait::Secs(1_200),
        },
    ];
}

/// A receiver, and from when it does what.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Receiver {
    pub is_webhook: bool,
    pub phases: Vec<(Duration, Behaviour)>,
}

impl Receiver {
    pub fn at(&self, time: Duration) -> Behaviour {
        self.phases.iter().rev().find(|(from, _)| *from <= time).map_or(Behaviour::Accepts, |(_, it)| *it)
    }
}

pub(super) fn draw(rng: &mut StdRng, end: Duration) -> Vec<Receiver> {
    (0..rng.random_range(1..=4)).map(|_| receiver(rng, end)).collect()
}

pub(super) fn receiver(rng: &mut StdRng, end: Duration) -> Receiver {
    let mut phases = Vec::new();
    for _ in 0..rng.random_range(0..=3) {
        let from = moment(rng, end);
        phases.push((from, behaviour(rng)));
        let until = (from + secs(rng, 5, 3600)).min(end);
        phases.push((until, Behaviour::Accepts));
    }
    phases.sort_by_key(|(from, _)| *from);
    let is_webhook = rng.random_bool(0.4);
    Receiver { is_webhook, phases }
}

fn behaviour(rng: &mut StdRng) -> Behaviour {
    let status = *[500, 502, 503, 504, 429].choose(rng).unwrap_or(&503);
    match rng.random_range(0..10) {
        0..3 => Behaviour::Answers(status),
        3 => Behaviour::Asks(status, rng.random_range(1..=3000)),
        4 => Behaviour::Swallows(if rng.random_bool(0.5) { InDoubt::Timeout } else { InDoubt::Reset }),
        5 => Behaviour::Unreachable(NotSent::Connect),
        6 => Behaviour::Slow(rng.random_range(100..9_000)),
        7 => Behaviour::Answers(410),
        8 => Behaviour::Answers(*[400, 403, 404, 413].choose(rng).unwrap_or(&400)),
        _ => Behaviour::Flaps(rng.random()),
    }
}
