//! What a scenario about one situation alone consists of.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::audiences::Audiences;
use super::clock::Clock;
use super::crowd::{self, Crowd};
use super::drawing::{self, secs, source};
use super::faults::{Faults, Outage};
use super::focus::Focus;
use super::hostile;
use super::hours::Hours;
use super::messages::Sending;
use super::operators::{Action, Whose};
use super::persons;
use super::pressure::InVain;
use super::protection::Stream;
use super::receivers::{Behaviour, Receiver};
use super::seats;
use super::storage::{Act, Others, Storage};
use super::whole::Scenario;
use crate::address::apart;

const TENANT: &str = "acme";

pub(super) fn scenario(focus: Focus, seed: u64) -> Scenario {
    let rng = &mut source(seed, "focused");
    let blank = Scenario { focus: Some(focus), ..Scenario::blank(seed) };
    match focus {
        Focus::LastReceive => last_receive(blank, rng),
        Focus::LastReceiveOfATag => last_receive_of_a_tag(blank, rng),
        Focus::Crossing => crossing(blank, rng),
        Focus::Walking => walking(blank, rng),
        Focus::Leaving => leaving(blank, rng),
        Focus::Voters => voters(blank, rng),
        Focus::Bursts => bursts(blank, rng),
        Focus::DyingProbes => dying_probes(blank, rng),
        Focus::Shards => shards(blank, rng),
        Focus::FewerShards => fewer_shards(blank, rng),
        Focus::HalfOpen => half_open(blank, rng),
        Focus::Waiting => waiting(blank, rng),
        Focus::AtOnce => beside(hostile::asks_at_once(rng), 3, blank),
        Focus::Returning => returning(blank, rng),
        Focus::Paced => beside(hostile::slowed(rng), 6, blank),
        Focus::Dead => dead(blank, rng),
        Focus::Refused => refused(blank, rng),
        Focus::Hours => hours(blank, rng),
        Focus::Seats => seats::scenario(blank, rng),
        Focus::Erased => persons::scenario(blank, rng),
    }
}

fn workers(count: usize) -> Vec<Clock> {
    vec![Clock::default(); count]
}

fn plain(n: usize, at: Duration, receiver: usize) -> Sending {
    Sending { at, tenant: TENANT, id: format!("m{n}"), receiver, ..Sending::default() }
}

/// The first receive by a worker is the last that SQS allows.
const AT_LAST: Option<InVain> = Some(InVain { share: 1.0, least: 19, most: 19 });

/// Each message has a receiver of its own, so that no breaker opens, and no other message follows up what became of it.
fn last_receive(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let faults_end = secs(rng, 1_800, 5_400);
    let mut receivers = Vec::new();
    let mut sendings = Vec::new();
    for n in 0..30 {
        let (is_webhook, behaviour) = match n % 5 {
            0 => (true, Behaviour::Answers(503)),
            1 | 2 => (false, Behaviour::Answers(410)),
            _ => (false, Behaviour::Answers(400)),
        };
        let until = if behaviour == Behaviour::Answers(503) { faults_end } else { 30 * faults_end };
        let phases = vec![(Duration::ZERO, behaviour), (until, Behaviour::Accepts)];
        receivers.push(Receiver { is_webhook, phases });
        sendings.push(plain(n, secs(rng, 0, 1_800), n));
    }
    let faults = Faults { death: 0.9, dies_by: 14, ..Faults::default() };
    let storage = Storage { is_watched: true, ..Storage::default() };
    let mut scenario =
        Scenario { clocks: workers(3), receivers, sendings, faults, faults_end, storage, ..blank };
    scenario.pressure.throttled = AT_LAST;
    scenario
}

fn last_receive_of_a_tag(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let count = rng.random_range(2..=4);
    let audiences = Audiences::few(rng, count, 6, None);
    let faults = Faults { death: 0.9, dies_by: 10, ..Faults::default() };
    let mut scenario =
        Scenario { clocks: workers(3), faults, faults_end: secs(rng, 1_800, 3_600), audiences, ..blank };
    scenario.pressure.throttled = AT_LAST;
    scenario
}

fn crossing(blank: Scenario, rng: &mut StdRng) -> Scenario {
    // Pages of one, which may lose it; or of four, of whom some stay and others move them. A part rests for 16 or 13 seconds.
    let (count, rate, one_in) = if rng.random() {
        (rng.random_range(3..=6), "60/min", 1)
    } else {
        (rng.random_range(12..=20), "5/s", 2)
    };
    let mut audiences = Audiences::few(rng, count, 6, Some(rate));
    for (at, sending) in (0..).step_by(60).zip(&mut audiences.sendings) {
        sending.at = Duration::from_secs(at);
    }
    audiences.come_and_go(rng, 480, one_in);
    audiences.by_the_page = rng.random_bool(0.3);
    let faults = Faults { death: 0.25, duplicate: 0.7, slow: 0.4, ..Faults::default() };
    let faults_end = Duration::from_secs(3_600);
    let mut scenario = Scenario { clocks: workers(6), faults, faults_end, audiences, ..blank };
    scenario.pressure.retries_twice = true;
    scenario
}

fn walking(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let count = rng.random_range(4..=8);
    let audiences = Audiences::few(rng, count, 2, Some("60/min"));
    let faults = Faults { refused: 0.1, ..Faults::default() };
    Scenario { clocks: workers(2), faults, faults_end: Duration::from_secs(3_600), audiences, ..blank }
}

/// Once the limit is removed, the worker that takes a page up can send to all that still stands on it.
fn leaving(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let mut audiences = Audiences::few(rng, 10, 5, None);
    for sending in &mut audiences.sendings {
        sending.at = secs(rng, 0, 30);
    }
    audiences.by_the_page = true;
    audiences.has_acks = rng.random_bool(0.5);
    let faults = Faults { death: 0.8, dies_by: 12, ..Faults::default() };
    let limit = |rate| Action::Limit(Whose::Origin(0), rate);
    let actions = vec![(Duration::ZERO, limit(Some("60/min"))), (Duration::from_secs(140), limit(None))];
    let faults_end = secs(rng, 1_200, 2_400);
    let receivers = vec![Receiver::default()];
    Scenario { clocks: workers(4), faults, faults_end, audiences, actions, receivers, ..blank }
}

/// What is drawn for one of these: its share of all.
fn weighted(rng: &mut StdRng, shares: &[f64]) -> usize {
    let mut drawn: f64 = rng.random();
    let found = shares.iter().position(|share| {
        drawn -= share;
        drawn < 0.0
    });
    found.unwrap_or(shares.len() - 1)
}

/// It is well for long enough that it takes some 40 failures to open its breaker: enough to tell who was there. Its recipients are apart, as
/// workers take those that share a place for one. In some of these the outage reaches one of them before the others.
fn voters(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let until = secs(rng, 230, 260);
    let count: u32 = 360;
    let (of_tenants, of_receivers, before): ([f64; 2], &[f64], u64) = match rng.random_range(0..4) {
        0 => ([1.0, 0.0], &[0.55, 0.15, 0.15, 0.15], 0),
        1 => ([1.0, 0.0], &[0.7, 0.15, 0.15], 0),
        2 => ([0.85, 0.15], &[0.2; 5], 0),
        // It fails ten times alone, and twenty times when the others do, too.
        _ => ([1.0, 0.0], &[0.25, 0.15, 0.15, 0.15, 0.15, 0.15], rng.random_range(26..=40)),
    };
    let from = until.mul_f64(0.45);
    let out = (from, from + secs(rng, 45, 75));
    let fails = crowd::failure(rng);
    let apart = apart(of_receivers.len(), TENANT);
    let receiver = |number: usize| {
        let from = if number == apart[0] { out.0 - Duration::from_secs(before) } else { out.0 };
        Receiver { is_webhook: false, phases: vec![(from, fails), (out.1, Behaviour::Accepts)] }
    };
    let receivers = (0..=apart.last().copied().unwrap_or_default()).map(receiver).collect();
    let sendings = (0..count).map(|n| Sending {
        tenant: ["acme", "globex"][weighted(rng, &of_tenants)],
        receiver: apart[weighted(rng, of_receivers)],
        ..plain(n as usize, until.mul_f64(f64::from(n) / f64::from(count)), 0)
    });
    let sendings = sendings.collect();
    let clocks = workers(if before > 0 { 1 } else { rng.random_range(1..=2) });
    let crowd = Some(Crowd { out: Some(out), ..Crowd::default() });
    let stream = Some(Stream { until, is_calm: true, only_last_attempts: false });
    Scenario { clocks, crowd, stream, receivers, sendings, faults_end: Duration::from_secs(600), ..blank }
}

fn bursts(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let until = secs(rng, 160, 220);
    let count: u32 = 300;
    let receivers = vec![Receiver { is_webhook: false, phases: Vec::new() }; rng.random_range(2..=3)];
    let mut crowd = Crowd { shared: rng.random_bool(0.6).then_some(0), ..Crowd::default() };
    let lone = crowd::lone(rng, &crowd, until, receivers.len());
    crowd.lone = Some(lone);
    let every = Duration::from_secs(rng.random_range(3..=5));
    let sendings = (0..count).map(|n| {
        let is_lone = rng.random_bool(0.45);
        let at = until.mul_f64(f64::from(n) / f64::from(count));
        let tenant =
            if is_lone || rng.random_bool(0.4) { lone.tenant } else { crowd::other_than(lone.tenant) };
        let receiver = if is_lone { lone.receiver } else { rng.random_range(0..receivers.len()) };
        Sending { tenant, ..plain(n as usize, every * (at.as_secs() / every.as_secs()) as u32, receiver) }
    });
    let sendings = sendings.collect();
    let stream = Some(Stream { until, is_calm: true, only_last_attempts: false });
    let faults_end = Duration::from_secs(600);
    Scenario { clocks: workers(1), crowd: Some(crowd), stream, receivers, sendings, faults_end, ..blank }
}

fn dying_probes(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let until = Duration::from_secs(480);
    let count: u32 = 640;
    let faults_end = secs(rng, 260, 320);
    let phases =
        vec![(secs(rng, 20, 40), Behaviour::Answers(503)), (secs(rng, 200, 300), Behaviour::Accepts)];
    let receivers = vec![Receiver { is_webhook: false, phases }; 3];
    let sendings = (0..count).map(|n| {
        let at = until.mul_f64(f64::from(n) / f64::from(count));
        let at = Duration::from_secs(at.as_secs() / 6 * 6);
        let tenant = if rng.random() { "acme" } else { "globex" };
        Sending { tenant, ..plain(n as usize, at, rng.random_range(0..3)) }
    });
    let sendings = sendings.collect();
    let faults = Faults { death: 0.6, dies_by: 14, ..Faults::default() };
    let stream = Some(Stream { until, is_calm: false, only_last_attempts: false });
    Scenario { clocks: workers(4), stream, receivers, sendings, faults, faults_end, ..blank }
}

fn shards(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let (first, last) = (secs(rng, 2_000, 3_000), secs(rng, 4_000, 6_000));
    let sendings = (0..60).map(|n| {
        let at = secs(rng, 0, 300);
        Sending { deliver_at: Some(if n % 2 == 0 { first } else { last }), ..plain(n, at, n % 4) }
    });
    let sendings = sendings.collect();
    let faults = Faults { refused: 0.12, ..Faults::default() };
    let receivers = vec![Receiver::default(); 4];
    let faults_end = Duration::from_secs(9_000);
    Scenario { clocks: workers(2), shards: 16, receivers, sendings, faults, faults_end, ..blank }
}

/// What was parked before the deployment lies in more shards than a new instance would make.
fn fewer_shards(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let sendings = (0..30).map(|n| {
        let at = secs(rng, 0, 300);
        Sending { deliver_at: Some(secs(rng, 2_000, 4_000)), ..plain(n, at, n % 4) }
    });
    let sendings = sendings.collect();
    let receivers = vec![Receiver::default(); 4];
    let faults = Faults { cold_start: 0.5, ..Faults::default() };
    let faults_end = Duration::from_secs(1_500);
    let mut scenario =
        Scenario { clocks: workers(2), shards: 16, receivers, sendings, faults, faults_end, ..blank };
    scenario.pressure.resharded = Some((secs(rng, 400, 900), 1));
    scenario
}

/// No probe can be claimed, so that the breaker stays half open.
fn half_open(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let fails_from = secs(rng, 20, 40);
    let fails_until = fails_from + secs(rng, 30, 60);
    let from = fails_from + secs(rng, 15, 30);
    let until = from + secs(rng, 1_800, 3_600);
    let phases = vec![(fails_from, Behaviour::Answers(503)), (fails_until, Behaviour::Accepts)];
    let receivers = vec![Receiver { is_webhook: false, phases }; 3];
    let sendings = (0..120).map(|n| plain(n, secs(rng, 0, 120), n % 3)).collect();
    let outages = vec![Outage { effects: &["claim", "record", "ledger.get"], from, until }];
    let faults = Faults { ack_lost: 0.3, outages, ..Faults::default() };
    Scenario { clocks: workers(3), receivers, sendings, faults, faults_end: until, ..blank }
}

/// Only what waits can become a probe. Probes of an origin that flaps often succeed, and what follows them soon opens its breaker again: much
/// of what has left the line joins it again.
fn waiting(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let mut at = secs(rng, 20, 40);
    let mut phases = Vec::new();
    for _ in 0..rng.random_range(1..=3) {
        phases.push((at, Behaviour::Answers(503)));
        at += secs(rng, 60, 600);
        phases.push((at, Behaviour::Flaps(rng.random_range(0.3..0.6))));
        at += secs(rng, 300, 1_200);
    }
    phases.push((at, Behaviour::Accepts));
    let receivers = vec![Receiver { is_webhook: false, phases }; 3];
    let sendings = (0..120).map(|n| {
        let tenant = drawing::tenant(rng);
        Sending { tenant, ..plain(n, secs(rng, 0, 120), n % 3) }
    });
    let sendings = sendings.collect();
    let faults = Faults { slow: 0.3, ..Faults::default() };
    let faults_end = at.mul_f64(rng.random_range(0.5..1.0));
    Scenario { clocks: workers(4), receivers, sendings, faults, faults_end, ..blank }
}

/// Too few endpoints for a wave. Cleanup is slow, and dies while it processes their references.
fn returning(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let (mut receivers, mut sendings, mut storage) = (Vec::new(), Vec::new(), Storage::default());
    for receiver in 0..5 {
        let turns = secs(rng, 60, 1_800);
        let returns = turns + secs(rng, 2, 60);
        let phases = vec![(turns, Behaviour::Answers(410)), (returns, Behaviour::Accepts)];
        receivers.push(Receiver { is_webhook: false, phases });
        storage.acts.push((returns, Act::Subscribes { tenant: TENANT, receiver, is_new: true }));
        for at in [turns, returns + secs(rng, 600, 1_200), returns + secs(rng, 5_400, 9_000)] {
            sendings.push(plain(sendings.len(), at, receiver));
        }
    }
    storage.is_watched = true;
    storage.lasts = Duration::from_secs(12_000);
    let faults = Faults { death: 0.5, dies_by: 8, slow: 0.4, ..Faults::default() };
    let faults_end = Duration::from_secs(3_600);
    Scenario { clocks: workers(3), receivers, sendings, faults, faults_end, storage, ..blank }
}

/// Others' messages beside those of a hostile tenant.
fn beside(drawn: hostile::Drawn, count: usize, blank: Scenario) -> Scenario {
    let hostile::Drawn { foe, stream, receivers, sendings, faults, faults_end } = drawn;
    let (foe, stream) = (Some(foe), Some(stream));
    Scenario { clocks: workers(count), foe, stream, receivers, sendings, faults, faults_end, ..blank }
}

/// Retries come when the hours are over, and some messages live to see the next ones.
fn hours(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let faults_end = secs(rng, 3_600, 4 * 3_600);
    let until = secs(rng, 1, 3_600);
    let behaviours =
        [Behaviour::Accepts, Behaviour::Answers(503), Behaviour::Asks(429, 1_800), Behaviour::Flaps(0.5)];
    let receiver = |behaviour| Receiver {
        is_webhook: rng.random_bool(0.3),
        phases: vec![(Duration::ZERO, behaviour), (until, Behaviour::Accepts)],
    };
    let receivers: Vec<Receiver> = behaviours.into_iter().map(receiver).collect();
    let sendings = (0..24).map(|n| {
        let at = secs(rng, 0, 5_400);
        Sending {
            hours: rng.random_bool(0.9).then(|| Hours::draw(rng)),
            ttl: [None, Some(0), Some(600), Some(7_200), Some(100_000), Some(200_000)]
                .choose(rng)
                .copied()
                .flatten(),
            class: [None, Some("campaign")].choose(rng).copied().flatten(),
            retry: [None, Some("schedule-standard"), Some("fixed-jitter")].choose(rng).copied().flatten(),
            deliver_at: rng.random_bool(0.2).then(|| at + secs(rng, 1, 4 * 3_600)),
            ..plain(n, at, n % 4)
        }
    });
    let sendings = sendings.collect();
    let faults = Faults { death: 0.05, refused: 0.05, duplicate: 0.1, ..Faults::default() };
    Scenario { clocks: workers(3), receivers, sendings, faults, faults_end, ..blank }
}

fn dead(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let faults_end = Duration::from_secs(600);
    let (mut faults, mut receivers, mut sendings) = (Faults::default(), Vec::new(), Vec::new());
    let others =
        &mut Others { faults: &mut faults, faults_end, receivers: &mut receivers, sendings: &mut sendings };
    let mut storage = Storage { is_watched: true, ..Storage::default() };
    storage.dead_receivers(rng, others);
    Scenario { clocks: workers(2), faults, faults_end, receivers, sendings, storage, ..blank }
}

/// Messages to all in each hour. The first receiver is refused from the beginning, and half of the time accepts in the end. The others are
/// refused for three of these hours. Where suspects are held, it lasts until the next probes.
fn refused(blank: Scenario, rng: &mut StdRng) -> Scenario {
    const EVERY: u64 = 3_900;
    let holds_suspects = rng.random();
    let rounds = if holds_suspects { 20 } else { 13 };
    let is_calm = rng.random_bool(0.6);
    let refuses = Behaviour::Answers(if rng.random() { 403 } else { 400 });
    let at_round = |round: u64| Duration::from_secs(round * EVERY - 600);
    let mut alone = vec![(at_round(1), refuses)];
    if rng.random() {
        alone.push((at_round(10), Behaviour::Accepts));
        alone.push((at_round(11), refuses));
        alone.push((at_round(12), Behaviour::Accepts));
    }
    let together = vec![(at_round(5), refuses), (at_round(8), Behaviour::Accepts)];
    let mut receivers = vec![Receiver { is_webhook: false, phases: alone }];
    receivers.extend(vec![Receiver { is_webhook: false, phases: together }; rng.random_range(5..=8)]);
    let mut sendings = Vec::new();
    for round in 0..=rounds {
        for receiver in 0..receivers.len() {
            let at = Duration::from_secs(round * EVERY) + secs(rng, 0, 20);
            sendings.push(plain(sendings.len(), at, receiver));
        }
        // A burst counts once.
        let at = Duration::from_secs(round * EVERY + 60);
        sendings.extend((0..2).map(|n| plain(1_000 + 2 * round as usize + n, at, 0)));
    }
    let (faults, faults_end, clocks) = if is_calm {
        (Faults::default(), Duration::ZERO, workers(1))
    } else {
        let faults = Faults { death: 0.2, duplicate: 0.2, ..Faults::default() };
        (faults, secs(rng, 3_600, 14_400), workers(3))
    };
    let lasts = Duration::from_secs((rounds + 1) * EVERY);
    let storage = Storage {
        is_watched: true,
        holds_suspects,
        lasts,
        sweep_every: Duration::from_secs(3_600),
        ..Storage::default()
    };
    Scenario { clocks, faults, faults_end, receivers, sendings, storage, ..blank }
}
