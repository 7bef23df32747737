//! A hostile tenant among others: it floods, its receivers hang, limit, refuse and turn gone, and it asks for all that a policy may ask for.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::outcome::InDoubt;

use super::drawing::{self, secs};
use super::faults::Faults;
use super::messages::Sending;
use super::protection::Stream;
use super::receivers::{Behaviour, Receiver};

/// The share of scenarios that have a hostile tenant, of those without audiences and without acts on what is stored.
const SHARE: f64 = 0.12;

/// The pause between two messages of the others, in milliseconds: a worker that gets many sees within seconds that they are well.
const FAST_MS: std::ops::RangeInclusive<u64> = 60..=400;
const SLOW_MS: std::ops::RangeInclusive<u64> = 400..=3_000;

/// An operator's limits of an origin, and each as messages a second. The others' messages are half as many at the most.
const LIMITS: [(&str, f64); 4] = [("2/s", 2.0), ("5/s", 5.0), ("10/s", 10.0), ("40/s", 40.0)];

/// What it may be called: whose place it shares differs with the name, and from origin to origin.
pub const NAMES: [&str; 12] = [
    "mallory", "eve", "trudy", "oscar", "chuck", "sybil", "darth", "craig", "mike", "walter", "grace",
    "faythe",
];

/// Policies of its own, by the names that its messages have for them here.
pub const POLICIES: [(&str, &str); 4] = [
    (
        "storm",
        r#"{"max_retries":100,"base_delay_ms":0,"jitter":"none","retryable":[400,403,409,422],"retry_after_smear":0}"#,
    ),
    ("storm-list", r#"{"retry_delays":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"jitter":"none"}"#),
    ("hours", r#"{"retry_delays":[3600,3600,3600],"jitter":"none"}"#),
    ("never-mind", r#"{"retries_enabled":false}"#),
];

/// The most attempts that a message of its can have.
pub const MOST_ATTEMPTS: u32 = 101;

/// The TTL of messages that wait for slots, in seconds.
const CROWDED_FOR: u32 = 600;

/// Endpoints of one age that turn gone together: a number that is enough for the guard, and one of another age that is not.
const DOZEN: usize = 12;
const FEW: usize = 2;

/// The guard keeps this number of one age.
const MANY: usize = 10;

/// Where one of its subscriptions leads.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The subscription's id, which another tenant may use, too.
    pub id: String,
    pub host: String,
    pub receiver: Receiver,
    /// Whether it was stored in the last days, or long before.
    pub is_young: bool,
}

impl Target {
    pub fn address(&self, tenant: &str) -> String {
        format!("https://{}/{}/0/{tenant}", self.host, self.id)
    }
}

/// A hostile tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Foe {
    pub tenant: &'static str,
    pub targets: Vec<Target>,
    /// Its stored policy, which holds for its messages without one.
    pub stored: Option<&'static str>,
    /// Whether nothing but receivers fails.
    pub is_calm: bool,
    /// Whether the others' receivers accept all, or turn gone; else some of them fail meanwhile.
    pub others_are_well: bool,
    /// An operator's limit of the push service, whose slots all tenants share.
    pub limit: Option<&'static str>,
}

impl Foe {
    /// Whether the guard may keep a subscription of its that is gone: as many others of its age are.
    pub fn may_keep(&self, id: &str) -> bool {
        let Some(one) = self.targets.iter().find(|target| target.id == id) else { return false };
        let is_gone = |it: &&Target| it.receiver.at(Duration::ZERO) == Behaviour::Answers(410);
        self.targets.iter().filter(is_gone).filter(|it| it.is_young == one.is_young).count() >= MANY
    }

    pub fn target_at(&self, address: &str) -> Option<&Target> {
        let mut parts = address.split('/').skip(3);
        let id = parts.next()?;
        (parts.nth(1)? == self.tenant).then(|| self.targets.iter().find(|target| target.id == id))?
    }
}

/// What a scenario with a hostile tenant is made of.
pub(super) struct Drawn {
    pub(super) foe: Foe,
    pub(super) stream: Stream,
    pub(super) receivers: Vec<Receiver>,
    pub(super) sendings: Vec<Sending>,
    pub(super) faults: Faults,
    pub(super) faults_end: Duration,
}

/// In a share of the scenarios.
pub(super) fn draw(rng: &mut StdRng, spread: impl FnOnce(Duration) -> Faults) -> Option<Drawn> {
    rng.random_bool(SHARE).then(|| some(rng, spread))
}

pub(super) fn some(rng: &mut StdRng, spread: impl FnOnce(Duration) -> Faults) -> Drawn {
    let interval = if rng.random_bool(0.3) { FAST_MS } else { SLOW_MS };
    let interval = Duration::from_millis(rng.random_range(interval));
    let count: u32 = rng.random_range(50..=110);
    let until = interval * count;
    let is_calm = rng.random_bool(0.75);
    let faults_end = until.max(Duration::from_secs(600));
    let others_are_well = rng.random_bool(0.65);
    let receivers = others(rng, until, others_are_well);
    let mut sendings = others_messages(rng, interval, count, receivers.len());
    let mut foe = Foe {
        tenant: NAMES.choose(rng).copied().unwrap_or(NAMES[0]),
        targets: Vec::new(),
        stored: rng.random_bool(0.4).then_some(POLICIES[0].1),
        is_calm,
        others_are_well,
        limit: None,
    };
    if others_are_well && rng.random_bool(0.2) {
        let twice = 2.0 / interval.as_secs_f64();
        foe.limit = LIMITS.into_iter().find(|(_, rate)| *rate >= twice).map(|(text, _)| text);
    }
    foe.attack(rng, &receivers, until, &mut sendings);
    sendings.sort_by_key(|sending| sending.at);
    let faults = if is_calm { Faults::default() } else { spread(faults_end) };
    let stream = Stream { until, is_calm, only_last_attempts: false };
    Drawn { foe, stream, receivers, sendings, faults, faults_end }
}

/// Nothing fails, and the tenant has no receivers yet. The others send one message in each interval, of `interval_ms` milliseconds.
fn calm(rng: &mut StdRng, interval_ms: std::ops::RangeInclusive<u64>, count: u32) -> Drawn {
    let interval = Duration::from_millis(rng.random_range(interval_ms));
    let until = interval * count;
    let receivers = vec![Receiver::default(); 6];
    let sendings = others_messages(rng, interval, count, receivers.len());
    let foe = Foe {
        tenant: NAMES.choose(rng).copied().unwrap_or(NAMES[0]),
        targets: Vec::new(),
        stored: None,
        is_calm: true,
        others_are_well: true,
        limit: None,
    };
    let stream = Stream { until, is_calm: true, only_last_attempts: false };
    let faults_end = until.max(Duration::from_secs(600));
    Drawn { foe, stream, receivers, sendings, faults: Faults::default(), faults_end }
}

/// A tenant whose endpoints answer 429, beside others that send more a second than a pace that its 429s lower.
pub(super) fn slowed(rng: &mut StdRng) -> Drawn {
    let mut drawn = calm(rng, 20..=40, 900);
    let until = drawn.stream.until;
    let from = until.mul_f64(rng.random_range(0.1..0.4));
    drawn.foe.floods(rng, Kind::Slows, &drawn.receivers, (from, until), &mut drawn.sendings);
    drawn.sendings.sort_by_key(|sending| sending.at);
    drawn
}

/// A few messages to an address that requests immediate retries, beside others that are well. They are too few to open a breaker or to use up
/// a budget, and an address has no subscription whose rate would limit them.
pub(super) fn asks_at_once(rng: &mut StdRng) -> Drawn {
    let mut drawn = calm(rng, 100..=300, 300);
    let phases = vec![(Duration::ZERO, Behaviour::Asks(*[429, 503].choose(rng).unwrap_or(&503), 0))];
    drawn.foe.targets.push(Target {
        id: "f0".to_owned(),
        host: "push.example".to_owned(),
        receiver: Receiver { is_webhook: false, phases },
        is_young: false,
    });
    let from = drawn.stream.until.mul_f64(rng.random_range(0.1..0.4));
    drawn.sendings.extend((0..rng.random_range(1..=2)).map(|n| Sending {
        at: from + secs(rng, 0, 5),
        tenant: drawn.foe.tenant,
        id: format!("f{n}"),
        content: n + 1_000,
        ttl: Some(120),
        retry: Some(POLICIES[0].0),
        by_address: true,
        ..Sending::default()
    }));
    drawn.sendings.sort_by_key(|sending| sending.at);
    drawn
}

/// The receivers of the other tenants: of a push service and of webhooks.
fn others(rng: &mut StdRng, until: Duration, are_well: bool) -> Vec<Receiver> {
    let fails = (until.mul_f64(rng.random_range(0.3..0.5)), until.mul_f64(rng.random_range(0.7..0.9)));
    let mut receivers: Vec<Receiver> = (0..rng.random_range(4..=7))
        .map(|at| {
            let phases = if are_well {
                Vec::new()
            } else {
                vec![(fails.0, Behaviour::Answers(503)), (fails.1, Behaviour::Accepts)]
            };
            Receiver { is_webhook: at == 1, phases }
        })
        .collect();
    // One turns gone, as endpoints do.
    if rng.random_bool(0.6) {
        let gone = until.mul_f64(rng.random_range(0.2..0.5));
        receivers.push(Receiver { is_webhook: false, phases: vec![(gone, Behaviour::Answers(410))] });
    }
    receivers
}

fn others_messages(rng: &mut StdRng, interval: Duration, count: u32, receivers: usize) -> Vec<Sending> {
    let sendings = (0..count).map(|n| Sending {
        at: interval * n,
        tenant: drawing::tenant(rng),
        id: format!("s{n}"),
        receiver: rng.random_range(0..receivers),
        class: rng.random_bool(0.2).then_some("otp"),
        ttl: Some(7_200),
        ..Sending::default()
    });
    sendings.collect()
}

/// What its receivers do to a wave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fails,
    Hangs,
    Limits,
    Refuses,
    TurnsGone,
    AsksAtOnce,
    /// They answer 429, and do not say for how long: no pause, and a pace.
    Slows,
    /// They accept: only a limit holds back what waits there.
    Crowds,
}

const KINDS: [Kind; 9] = [
    Kind::Slows,
    Kind::Fails,
    Kind::Fails,
    Kind::Hangs,
    Kind::Limits,
    Kind::Limits,
    Kind::Refuses,
    Kind::TurnsGone,
    Kind::AsksAtOnce,
];

impl Foe {
    fn attack(
        &mut self,
        rng: &mut StdRng,
        others: &[Receiver],
        until: Duration,
        sendings: &mut Vec<Sending>,
    ) {
        for n in 0..rng.random_range(1..=2) {
            let is_crowd = n == 0 && self.limit.is_some() && rng.random_bool(0.7);
            let kind = if is_crowd { Kind::Crowds } else { *KINDS.choose(rng).unwrap_or(&Kind::Fails) };
            let from = until.mul_f64(rng.random_range(0.1..0.7));
            match kind {
                Kind::TurnsGone => self.turns_gone(rng, from, sendings),
                Kind::Fails
                | Kind::Hangs
                | Kind::Limits
                | Kind::Refuses
                | Kind::AsksAtOnce
                | Kind::Slows
                | Kind::Crowds => {
                    self.floods(rng, kind, others, (from, until), sendings);
                }
            }
        }
    }

    /// Many messages to a few endpoints, or to one.
    fn floods(
        &mut self,
        rng: &mut StdRng,
        kind: Kind,
        others: &[Receiver],
        (from, until): (Duration, Duration),
        sendings: &mut Vec<Sending>,
    ) {
        // The 429s of one recipient or two lower no pace.
        let are_spread = kind == Kind::Slows;
        let endpoints = if are_spread { 10 } else { *[1, 2, 6, 10].choose(rng).unwrap_or(&1) };
        let behaviour = kind.behaviour(rng);
        let is_at_push_service = matches!(kind, Kind::Slows | Kind::Crowds);
        let is_webhook = kind == Kind::Refuses || (!is_at_push_service && rng.random_bool(0.3));
        let has_own_origins = rng.random_bool(0.15);
        let first = self.targets.len();
        for n in 0..endpoints {
            let number = first + n;
            let webhook = others.iter().position(|receiver| receiver.is_webhook);
            let host = match (has_own_origins, webhook) {
                (true, _) | (_, None) if is_webhook => format!("fresh{number}.example"),
                (false, Some(at)) if is_webhook => format!("hooks{at}.example"),
                _ => "push.example".to_owned(),
            };
            // Ids of subscriptions are a tenant's own: the first ones are the same as the others'.
            let id = if number < 3 { format!("r{number}") } else { format!("f{number}") };
            let phases = vec![(Duration::ZERO, behaviour), (until * 2, Behaviour::Accepts)];
            let receiver = Receiver { is_webhook, phases };
            self.targets.push(Target { id, host, receiver, is_young: false });
        }
        let is_at_once = kind == Kind::Crowds || rng.random_bool(0.3);
        let lasts = if is_at_once { secs(rng, 0, 1) } else { secs(rng, 1, 40) };
        let retry =
            [Some("storm"), Some("storm"), Some("storm-list"), Some("hours"), Some("never-mind"), None]
                .choose(rng)
                .copied()
                .flatten();
        let retry = if kind == Kind::Slows { Some("storm") } else { retry };
        let by_address = rng.random_bool(0.3);
        let ttl = *[10, 30, 60, 60, 120, 300].choose(rng).unwrap_or(&60);
        let ttl = if kind == Kind::Crowds { CROWDED_FOR } else { ttl };
        // Few messages that are retried often, or many.
        let is_short = (ttl <= 60 && self.limit.is_none()) || kind == Kind::Slows;
        let count = match kind {
            Kind::Crowds => self.crowd(),
            Kind::Fails
            | Kind::Hangs
            | Kind::Limits
            | Kind::Refuses
            | Kind::TurnsGone
            | Kind::AsksAtOnce
            | Kind::Slows => rng.random_range(if is_short { 25..=60 } else { 10..=25 }),
        };
        for n in 0..count {
            let at = from + lasts.mul_f64(rng.random());
            // Some ids are those of other tenants' messages, and some are its own once more, with another content.
            let id = if rng.random_bool(0.3) { format!("s{n}") } else { format!("{first}-{}", n - n % 8) };
            let id = if rng.random_bool(0.3) { id } else { format!("{first}f{n}") };
            sendings.push(Sending {
                at,
                tenant: self.tenant,
                id,
                receiver: first + rng.random_range(0..endpoints),
                content: first as u32 * 1_000 + n + 1_000,
                ttl: Some(ttl),
                retry,
                by_address,
                class: rng.random_bool(0.3).then_some("otp"),
                ..Sending::default()
            });
        }
    }

    /// As many messages as fill a limit's slots for a minute, if those are few.
    fn crowd(&self) -> u32 {
        let slots = LIMITS.iter().find(|(text, _)| Some(*text) == self.limit).map(|(_, rate)| *rate);
        (slots.unwrap_or_default() * 60.0).min(150.0) as u32
    }

    /// A dozen endpoints of one age turn gone together, and a few of another.
    fn turns_gone(&mut self, rng: &mut StdRng, at: Duration, sendings: &mut Vec<Sending>) {
        let first = self.targets.len();
        let are_young = rng.random_bool(0.6);
        for n in 0..DOZEN + FEW {
            let number = first + n;
            let receiver =
                Receiver { is_webhook: false, phases: vec![(Duration::ZERO, Behaviour::Answers(410))] };
            self.targets.push(Target {
                id: format!("f{number}"),
                host: "push.example".to_owned(),
                receiver,
                is_young: are_young == (n < DOZEN),
            });
            sendings.push(Sending {
                at: at + secs(rng, 0, 20),
                tenant: self.tenant,
                id: format!("{first}g{n}"),
                receiver: number,
                ttl: Some(7_200),
                ..Sending::default()
            });
        }
    }
}

impl Kind {
    fn behaviour(self, rng: &mut StdRng) -> Behaviour {
        match self {
            Self::Fails => Behaviour::Answers(*[500, 503].choose(rng).unwrap_or(&500)),
            Self::Hangs => Behaviour::Swallows(InDoubt::Timeout),
            Self::Limits => Behaviour::Asks(429, *[5, 900, 3_600].choose(rng).unwrap_or(&900)),
            Self::Refuses => Behaviour::Answers(*[400, 403, 422].choose(rng).unwrap_or(&400)),
            Self::TurnsGone => Behaviour::Answers(410),
            Self::AsksAtOnce => Behaviour::Asks(503, 0),
            Self::Slows => Behaviour::Answers(429),
            Self::Crowds => Behaviour::Accepts,
        }
    }
}
