//! Many recipients of one push service: all fail together and one of them longer or never, or one fails alone.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::outcome::{InDoubt, NotSent};

use super::drawing::{self, TENANTS, secs};
use super::faults::Faults;
use super::messages::Sending;
use super::operators::{Action, Whose};
use super::protection::{Drawn, Stream};
use super::receivers::{Behaviour, Receiver};

/// The share of scenarios that have a crowd, of those that are about nothing else.
const SHARE: f64 = 0.15;

/// For how long a service is out, in seconds: its breaker opens, and has cooled down before the service is well again, or after it.
const OUT_FOR: std::ops::RangeInclusive<u64> = 15..=75;

/// The share of the messages that go to a recipient that fails alone.
const TO_THE_LONE: std::ops::RangeInclusive<f64> = 0.25..=0.5;

/// The recipient that differs from the others: one tenant's address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lone {
    pub tenant: &'static str,
    pub receiver: usize,
    pub from: Duration,
    pub until: Duration,
    /// What it does meanwhile, whatever the others do.
    pub behaviour: Behaviour,
}

/// The recipients of one push service.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Crowd {
    /// When all of them fail.
    pub out: Option<(Duration, Duration)>,
    pub lone: Option<Lone>,
    /// The receiver whose address is the same for all tenants.
    pub shared: Option<usize>,
}

impl Crowd {
    /// What the recipient that differs from the others does.
    pub fn differs(&self, tenant: &str, receiver: usize, at: Duration) -> Option<Behaviour> {
        let lone = self.lone.filter(|lone| lone.from <= at && at < lone.until)?;
        ((lone.tenant, lone.receiver) == (tenant, receiver)).then_some(lone.behaviour)
    }

    /// Whether no recipient ever fails where another does not.
    pub fn all_fail_together(&self) -> bool {
        self.lone.is_none()
    }

    /// The recipient that fails where no other does.
    pub fn fails_alone(&self) -> Option<Lone> {
        self.lone.filter(|_| self.out.is_none())
    }
}

/// In a share of the scenarios: a stream to one service.
pub(super) fn draw(rng: &mut StdRng, spread: impl FnOnce(Duration) -> Faults) -> Option<(Crowd, Drawn)> {
    if !rng.random_bool(SHARE) {
        return None;
    }
    let until = secs(rng, 120, 260);
    let count: u32 = rng.random_range(160..=320);
    let is_calm = rng.random_bool(0.75);
    let faults_end = until.max(Duration::from_secs(600));
    let faults = if is_calm {
        let cold_start = if rng.random_bool(0.2) { rng.random_range(0.0..0.02) } else { 0.0 };
        Faults { cold_start, ..Faults::default() }
    } else {
        spread(faults_end)
    };
    let receivers = rng.random_range(2..=6);
    let mut crowd =
        Crowd { shared: rng.random_bool(0.5).then(|| rng.random_range(0..receivers)), ..Crowd::default() };
    let mut phases = Vec::new();
    if rng.random_bool(0.6) {
        let from = until.mul_f64(rng.random_range(0.1..0.3));
        let out = (from, from + secs(rng, *OUT_FOR.start(), *OUT_FOR.end()));
        phases = vec![(out.0, failure(rng)), (out.1, Behaviour::Accepts)];
        crowd.out = Some(out);
    }
    let receivers = vec![Receiver { is_webhook: false, phases }; receivers];
    if crowd.out.is_none() || rng.random_bool(0.7) {
        crowd.lone = Some(lone(rng, &crowd, until, receivers.len()));
    }
    let retry = *[None, None, None, Some("none"), Some("fixed-jitter"), Some("schedule-standard")]
        .choose(rng)
        .unwrap_or(&None);
    let sendings = messages(rng, &crowd, (until, count), receivers.len());
    let sendings = sendings.into_iter().map(|it| Sending { retry, ..it }).collect();
    let stream = Stream { until, is_calm, only_last_attempts: retry == Some("none") };
    Some((crowd, Drawn { stream, receivers, sendings, faults, faults_end }))
}

/// How many workers there are at the most: where one recipient fails alone, each of many would see it too seldom.
pub(super) fn most_workers(crowd: &Crowd, rng: &mut StdRng) -> usize {
    if crowd.fails_alone().is_some() { rng.random_range(1..=2) } else { rng.random_range(1..=8) }
}

/// In a share of the outages an operator limits the service meanwhile: when probes may go, many messages wait for them.
pub(super) fn limit(crowd: &Crowd, rng: &mut StdRng) -> Vec<(Duration, Action)> {
    let Some((from, until)) = crowd.out.filter(|_| rng.random_bool(0.3)) else { return Vec::new() };
    let rate = if rng.random_bool(0.5) { "4/min" } else { "6/min" };
    let at = from + (until - from).mul_f64(rng.random_range(0.2..0.6));
    vec![(at, Action::Limit(Whose::Origin(0), Some(rate)))]
}

pub(super) fn lone(rng: &mut StdRng, crowd: &Crowd, until: Duration, receivers: usize) -> Lone {
    let tenant = drawing::tenant(rng);
    let receiver = crowd.shared.unwrap_or_else(|| rng.random_range(0..receivers));
    let (from, until, behaviour) = match crowd.out {
        // It answers all along, …
        Some((from, until)) if rng.random_bool(0.3) => (from, until, Behaviour::Accepts),
        // … or is dead for longer …
        Some((from, out_until)) => (from, out_until + secs(rng, 20, 90), failure(rng)),
        // … or alone.
        None => {
            let from = until.mul_f64(rng.random_range(0.1..0.2));
            (from, from + secs(rng, 30, 70), failure(rng))
        }
    };
    Lone { tenant, receiver, from, until, behaviour }
}

/// The other tenant.
pub(super) fn other_than(tenant: &str) -> &'static str {
    TENANTS.into_iter().find(|it| *it != tenant).unwrap_or(TENANTS[0])
}

pub(super) fn failure(rng: &mut StdRng) -> Behaviour {
    match rng.random_range(0..6) {
        0..3 => Behaviour::Answers(503),
        3 => Behaviour::Answers(500),
        4 => Behaviour::Unreachable(NotSent::Connect),
        _ => Behaviour::Swallows(InDoubt::Reset),
    }
}

fn messages(
    rng: &mut StdRng,
    crowd: &Crowd,
    (until, count): (Duration, u32),
    receivers: usize,
) -> Vec<Sending> {
    let to_the_lone = crowd.fails_alone().map(|_| rng.random_range(TO_THE_LONE)).unwrap_or_default();
    let is_by_address = if rng.random_bool(0.3) { 0.3 } else { 0.0 };
    let sendings = (0..count).map(|n| {
        let lone = crowd.lone.filter(|_| rng.random_bool(to_the_lone));
        Sending {
            at: until.mul_f64(f64::from(n) / f64::from(count)),
            tenant: lone.map_or_else(|| drawing::tenant(rng), |lone| lone.tenant),
            id: format!("s{n}"),
            receiver: lone.map_or_else(|| rng.random_range(0..receivers), |lone| lone.receiver),
            by_address: rng.random_bool(is_by_address),
            ..Sending::default()
        }
    });
    sendings.collect()
}
