//! What makes rare schedules of claims, records and hand-offs likely, in a share of the scenarios.
//!
//! Each kind is what a cloud does at times: pollers receive what Lambda has no room for, clocks jump, producers send twice at once, and
//! a deployment changes how many shards there are.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use redial_core::replay::Permissions;
use redial_core::setback::SENT_AGAIN_FROM;

use super::clock::Clock;
use super::drawing::{moment, secs};
use super::faults::{Faults, Outage};
use super::messages::{self, Sending};
use super::operators::Action;
use super::pressure::{InVain, LONG, NEVER_IN_DOUBT, PARTED};
use super::receivers::{Behaviour, Receiver};
use super::whole::Scenario;

/// What stands for far clocks below.
const FAR_CLOCKS: std::ops::Range<u32> = 12..17;

/// By how much far clocks are off, in milliseconds.
const FAR_OFF_MS: i64 = 60_000;

pub(super) fn put_on(scenario: &mut Scenario, rng: &mut StdRng) {
    let receivers = scenario.receivers.len();
    put_on_that(rng.random_range(0..68), scenario, receivers, rng);
}

/// The same without clocks that are far off: what an audience's pages and users do is judged by the second.
/// `receivers`: how many are not the other area's, whose may ask for a year's patience: its messages have a TTL for that.
pub(super) fn put_on_another_area(scenario: &mut Scenario, receivers: usize, rng: &mut StdRng) {
    let which = rng.random_range(0..65);
    put_on_that(if FAR_CLOCKS.contains(&which) { 0 } else { which }, scenario, receivers, rng);
    // With more, copies of a message in vain become hundreds.
    scenario.faults.duplicate = scenario.faults.duplicate.min(0.4);
    // A part of an older release's would be read by a newer one too early; and what an older one cannot read waits by its receives.
    if scenario.storage.releases.is_some() {
        scenario.pressure.foreign_until = None;
        scenario.pressure.throttled = None;
    }
}

/// `receivers`: those that all messages may go to.
fn put_on_that(which: u32, scenario: &mut Scenario, receivers: usize, rng: &mut StdRng) {
    match which {
        0..12 => throttled(scenario, rng),
        12..17 => far_clocks(scenario, rng),
        17..25 => copies(scenario, rng),
        25..30 => resharded(scenario, rng),
        30..34 => foreign(scenario, rng),
        34..44 => never_in_doubt(scenario, rng),
        44..46 => long(scenario, rng),
        46..50 => gone(scenario, rng),
        50..52 => outage(scenario, receivers, rng),
        52..55 => twins(scenario, rng),
        55..63 => redriven(scenario, rng),
        63..65 => parted(scenario, rng),
        _ => {}
    }
}

/// Messages come to their last receives, while some table or queue is out for long.
fn throttled(scenario: &mut Scenario, rng: &mut StdRng) {
    let most = rng.random_range(14..=19);
    scenario.pressure.throttled = Some(InVain { share: 0.8, least: most / 2, most });
    scenario.sendings.truncate(15);
    let end = scenario.faults_end;
    let effects: &[&str] = match rng.random_range(0..5) {
        0 => &["record"],
        1 => &["park", "register"],
        2 => &["bodies.put"],
        3 => &["claim"],
        _ => &["record", "claim", "ledger.get", "load"],
    };
    let from = moment(rng, end / 2);
    let until = (from + secs(rng, 600, 3 * 3600)).min(end);
    scenario.faults.outages.push(Outage { effects, from, until });
    match rng.random_range(0..4) {
        0 => scenario.faults.refused = scenario.faults.refused.max(0.2),
        1 => {
            scenario.faults.death = if rng.random() { 0.5 } else { 0.9 };
            scenario.faults.ack_lost = 0.4;
        }
        2 => scenario.faults.ack_lost = 0.4,
        _ => never_in_doubt(scenario, rng),
    }
}

/// Twins that one worker receives together, while it cannot record an outcome: what carries that outcome and its twin are sent again, and
/// are received together once more.
fn twins(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.pressure.throttled = Some(InVain { share: 1.0, least: SENT_AGAIN_FROM, most: 18 });
    scenario.clocks.truncate(1);
    let busy = scenario.receivers.len();
    scenario
        .receivers
        .push(Receiver { is_webhook: false, phases: vec![(Duration::ZERO, Behaviour::Slow(5_000))] });
    let first = scenario.sendings.swap_remove(0);
    scenario.sendings.clear();
    let (mut outages, mut at) = (Vec::new(), Duration::ZERO);
    for n in 0..3 {
        at += secs(rng, 1_000, 2_000);
        let plain = Sending { at, content: 0, ttl: None, class: None, deliver_at: None, ..first.clone() };
        // The worker is busy while the twins come.
        scenario.sendings.push(Sending { receiver: busy, id: format!("b{n}"), ..plain.clone() });
        for _ in 0..rng.random_range(2..=3) {
            let at = at + Duration::from_secs(1);
            scenario.sendings.push(Sending { at, id: format!("t{n}"), ..plain.clone() });
        }
        let until = at + secs(rng, 30, 1_200);
        outages.push(Outage { effects: &["record"], from: at, until });
    }
    scenario.faults_end = scenario.faults_end.max(at + Duration::from_secs(1_800));
    scenario.faults = Faults { outages, ack_lost: scenario.faults.ack_lost, ..Faults::default() };
}

/// Messages come to their last receive, and their workers die: what has gone on without them lies in the quarantine then, and what carries
/// an outcome, or another content of an id.
fn redriven(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.sendings.truncate(8);
    for sending in &mut scenario.sendings {
        (sending.class, sending.ttl) = (None, sending.ttl.filter(|ttl| *ttl > 600));
    }
    let end = scenario.faults_end;
    for Receiver { phases, .. } in &mut scenario.receivers {
        let from = moment(rng, end);
        phases.push((from, Behaviour::Flaps(0.6)));
        phases.push(((from + secs(rng, 600, 3600)).min(end), Behaviour::Accepts));
        phases.sort_by_key(|(from, _)| *from);
    }
    scenario.faults.death = 0.5;
    scenario.pressure.twice_at_last = if rng.random_bool(0.5) { 0.5 } else { 0.0 };
    let in_vain = |share, least| Some(InVain { share, least, most: 19 });
    match rng.random_range(0..3) {
        0 => {
            scenario.pressure.throttled = in_vain(1.0, 18);
            let until = end.mul_f64(0.8);
            scenario.faults.outages = vec![Outage { effects: &["record"], from: Duration::ZERO, until }];
        }
        1 => {
            scenario.pressure.throttled = in_vain(0.7, 17);
            scenario.faults.ack_lost = 0.4;
        }
        _ => {
            scenario.pressure.throttled = in_vain(0.5, 19);
            scenario.faults.death = 0.9;
            for mut other in scenario.sendings.clone() {
                other.at += secs(rng, 0, 300);
                other.content += 1;
                scenario.sendings.push(other);
            }
        }
    }
}

/// A webhook's message whose body takes several items of DynamoDB's is parked, fails, and is sent again by an operator.
fn parted(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.pressure.filled = rng.random_range(60_000..100_000);
    scenario.sendings.truncate(2);
    let mut parted = scenario.sendings[0].clone();
    parted.id = PARTED.to_owned();
    (parted.receiver, parted.content, parted.by_address) = (scenario.receivers.len(), 0, false);
    (parted.class, parted.retry, parted.deliver_at) = (None, Some("schedule-standard"), None);
    parted.ttl = rng.random_bool(0.7).then_some(86_400);
    if rng.random_bool(0.5) {
        parted.deliver_at = Some(parted.at + secs(rng, 1_000, 3_000));
    }
    scenario.sendings.push(parted);
    let fails = vec![(Duration::ZERO, Behaviour::Answers(500)), (scenario.faults_end, Behaviour::Accepts)];
    scenario.receivers.push(Receiver { is_webhook: true, phases: fails });
    scenario.faults.death = scenario.faults.death.max(0.3);
    scenario.faults.refused = scenario.faults.refused.max(0.1);
    let may = Permissions { refresh_ttl: true, again: false };
    let at = scenario.faults_end + Duration::from_secs(3_600);
    scenario.actions.push((at, Action::Replay { may, twice: false }));
}

fn far_clocks(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.pressure.has_far_clocks = true;
    scenario.clocks.truncate(3);
    scenario.clocks.push(Clock::default());
    for clock in &mut scenario.clocks {
        clock.far = rng.random_range(-FAR_OFF_MS..=FAR_OFF_MS);
    }
    // Slow answers that differ: the first worker's outcome and the second's lead to different ends. Or all are equally slow, and messages
    // come together: they are recorded together.
    let are_together = rng.random_bool(0.6);
    for Receiver { phases, .. } in &mut scenario.receivers {
        let behaviour = |n: u64| if are_together { Behaviour::Slow(4_000 + n * 80) } else { slow(rng) };
        *phases = (0..60).map(behaviour).zip(0..).map(|(it, n)| (Duration::from_secs(n * 240), it)).collect();
        phases.push((scenario.faults_end, Behaviour::Accepts));
        phases.sort_by_key(|(from, _)| *from);
    }
    if are_together {
        for sending in &mut scenario.sendings {
            sending.at = Duration::from_secs(sending.at.as_secs() / 600 * 600);
        }
    }
    scenario.faults.duplicate = 0.5;
    scenario.faults.slow = scenario.faults.slow.max(0.2);
    scenario.faults.death = 0.0;
    scenario.faults.outages.clear();
}

fn slow(rng: &mut StdRng) -> Behaviour {
    match rng.random_range(0..3) {
        0 => Behaviour::Slow(rng.random_range(4_000..9_500)),
        1 => Behaviour::Fickle(rng.random_range(2_000..9_500)),
        _ => Behaviour::Accepts,
    }
}

/// Producers send each message several times at once, workers die, and receivers ask for patience.
fn copies(scenario: &mut Scenario, rng: &mut StdRng) {
    let mut sendings = Vec::new();
    for mut sending in scenario.sendings.drain(..).take(40) {
        sending.ttl = sending.ttl.filter(|ttl| *ttl > 60);
        for _ in 0..rng.random_range(1..=3) {
            let mut copy = sending.clone();
            copy.at += secs(rng, 0, 20);
            sendings.push(copy);
        }
        sendings.push(sending);
    }
    scenario.sendings = sendings;
    scenario.clocks.truncate(2);
    for Receiver { phases, .. } in &mut scenario.receivers {
        let from = moment(rng, scenario.faults_end / 2);
        phases.push((from, Behaviour::Asks(503, rng.random_range(5..=2500))));
        phases.push(((from + secs(rng, 300, 3600)).min(scenario.faults_end), Behaviour::Accepts));
        phases.sort_by_key(|(from, _)| *from);
    }
    scenario.faults.death = scenario.faults.death.max(0.4);
    scenario.faults.ack_lost = scenario.faults.ack_lost.max(0.1);
}

fn resharded(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.pressure.resharded = Some((moment(rng, scenario.faults_end), if rng.random() { 1 } else { 8 }));
    scenario.faults.cold_start = 0.3;
    for sending in &mut scenario.sendings {
        sending.deliver_at = Some(sending.at + secs(rng, 1000, 4000));
    }
}

fn foreign(scenario: &mut Scenario, rng: &mut StdRng) {
    // A deployment takes minutes, and all else goes well meanwhile: twenty receives take hours.
    let until = secs(rng, 600, 2400).min(scenario.faults_end);
    scenario.pressure.foreign_until = Some(until);
    for sending in &mut scenario.sendings {
        sending.at = moment(rng, until);
        sending.deliver_at = rng.random_bool(0.5).then(|| sending.at + secs(rng, 10, 300));
    }
    scenario.faults.duplicate = 0.0;
    scenario.faults.visibility_lost = 0.0;
    scenario.faults.death = 0.0;
}

/// The first message is as long as SQS takes, and its webhook waits.
fn long(scenario: &mut Scenario, rng: &mut StdRng) {
    scenario.pressure.shortage = Some(rng.random_range(0..100));
    scenario.receivers[0].is_webhook = true;
    scenario.sendings.truncate(3);
    let first = &mut scenario.sendings[0];
    (first.receiver, first.content, first.by_address) = (0, 0, false);
    (first.ttl, first.deliver_at) = (None, Some(first.at + secs(rng, 60, 600)));
    first.id = LONG.to_owned();
}

/// Endpoints are gone, and what follows from that fails at first.
fn gone(scenario: &mut Scenario, rng: &mut StdRng) {
    for Receiver { phases, .. } in &mut scenario.receivers {
        phases.push((moment(rng, scenario.faults_end), Behaviour::Answers(410)));
        phases.sort_by_key(|(from, _)| *from);
    }
    scenario.faults.refused = 0.3;
}

/// All receivers are out, and many messages are held back, whose acknowledgements get lost.
fn outage(scenario: &mut Scenario, receivers: usize, rng: &mut StdRng) {
    scenario.sendings = messages::draw(rng, receivers, true);
    for Receiver { phases, .. } in &mut scenario.receivers {
        *phases = vec![(Duration::ZERO, Behaviour::Answers(503)), (scenario.faults_end, Behaviour::Accepts)];
    }
    scenario.faults.death = 0.3;
    scenario.faults.ack_lost = 0.2;
}

/// Copies meet attempts whose outcome is unknown.
fn never_in_doubt(scenario: &mut Scenario, rng: &mut StdRng) {
    for sending in &mut scenario.sendings {
        sending.retry = Some(NEVER_IN_DOUBT);
        sending.ttl = sending.ttl.filter(|ttl| *ttl > 60);
    }
    scenario.faults.slow = scenario.faults.slow.max(0.1);
    if rng.random_bool(0.5) {
        scenario.faults.death = scenario.faults.death.max(0.3);
    }
}
