//! What operators do: limits, breakers by hand, dead letters.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::replay::Permissions;

use super::drawing::{self, moment, secs};
use super::messages::Sending;

/// How long after the faults operators still act: dead letters come late.
const LATE: Duration = Duration::from_secs(2 * 86_400);

/// What an operator does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Opens the breaker of a receiver's origin for this time.
    Open(usize, Duration),
    /// Closes it for what waits to go at a growing pace.
    CloseGently(usize),
    Close(usize),
    /// Sets a limit, or removes it.
    Limit(Whose, Option<&'static str>),
    /// Sends all dead letters again; `twice`: it is interrupted before it writes down what it sent.
    Replay {
        may: Permissions,
        twice: bool,
    },
    /// Removes all dead letters.
    Purge,
    /// Cancels a delivery.
    Cancel {
        tenant: &'static str,
        id: String,
    },
}

/// What a limit is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    Tenant(&'static str),
    /// A receiver's origin.
    Origin(usize),
}

/// For a stream of messages that ends then.
pub(super) fn protect(rng: &mut StdRng, receivers: usize, until: Duration) -> Vec<(Duration, Action)> {
    let mut actions = Vec::new();
    let which = |rng: &mut StdRng| rng.random_range(0..receivers);
    if rng.random_bool(0.5) {
        let whose = if rng.random_bool(0.5) {
            Whose::Tenant(drawing::tenant(rng))
        } else {
            Whose::Origin(which(rng))
        };
        let rate = *["4/min", "10/min", "30/min", "1/s", "2/s"].choose(rng).unwrap_or(&"10/min");
        let from = moment(rng, until / 2);
        actions.push((from, Action::Limit(whose, Some(rate))));
        if rng.random_bool(0.5) {
            actions.push((from + secs(rng, 60, 900), Action::Limit(whose, None)));
        }
    }
    for _ in 0..rng.random_range(0..=2) {
        let at = moment(rng, until);
        let action = if rng.random_bool(0.6) {
            Action::Open(which(rng), secs(rng, 1, 300))
        } else if rng.random_bool(0.5) {
            Action::CloseGently(which(rng))
        } else {
            Action::Close(which(rng))
        };
        actions.push((at, action));
    }
    actions
}

/// In a share of the scenarios, dead letters are sent again or removed.
pub(super) fn look_after(rng: &mut StdRng, faults_end: Duration) -> Vec<(Duration, Action)> {
    if !rng.random_bool(0.25) {
        return Vec::new();
    }
    let count = rng.random_range(1..=3);
    (0..count).map(|_| about_dead_letters(rng, faults_end)).collect()
}

/// In a share of the scenarios some deliveries are cancelled: before their messages come, while they wait, are attempted or are over.
pub(super) fn cancel(
    rng: &mut StdRng,
    sendings: &[Sending],
    faults_end: Duration,
) -> Vec<(Duration, Action)> {
    if !rng.random_bool(0.3) {
        return Vec::new();
    }
    let share = *[0.1, 0.3, 0.8].choose(rng).unwrap_or(&0.3);
    let mut actions = Vec::new();
    for sending in sendings {
        if !rng.random_bool(share) {
            continue;
        }
        let begins = sending.deliver_at.unwrap_or(sending.at);
        let at = match rng.random_range(0..5) {
            0 => sending.at.saturating_sub(secs(rng, 0, 60)),
            1 => sending.at + secs(rng, 0, 2),
            2 => begins.saturating_sub(secs(rng, 0, 3)),
            3 => begins + secs(rng, 0, 90),
            _ => moment(rng, faults_end),
        };
        let cancel = Action::Cancel { tenant: sending.tenant, id: sending.id.clone() };
        if rng.random_bool(0.2) {
            actions.push((at + secs(rng, 0, 30), cancel.clone()));
        }
        actions.push((at, cancel));
    }
    actions
}

fn about_dead_letters(rng: &mut StdRng, faults_end: Duration) -> (Duration, Action) {
    let end = if rng.random_bool(0.3) { faults_end + LATE } else { faults_end };
    let at = moment(rng, end);
    if rng.random_bool(0.15) {
        return (at, Action::Purge);
    }
    let may = Permissions { refresh_ttl: rng.random_bool(0.6), again: rng.random_bool(0.3) };
    (at, Action::Replay { may, twice: rng.random_bool(0.3) })
}
