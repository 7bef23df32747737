//! A person who has to be erased while messages to it are in every state that a message can be in.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::clock::Clock;
use super::drawing::secs;
use super::faults::Faults;
use super::messages::Sending;
use super::receivers::{Behaviour, Receiver};
use super::storage::{Act, Storage};
use super::whole::Scenario;

const TENANT: &str = "acme";

/// The receiver that is erased, and the `ref` of the messages to it.
pub const ERASED: usize = 0;
pub const REF: &str = "person-0";

/// The person's messages fail, wait, are scheduled, become dead letters and come after its erasure. Others are sent to meanwhile.
pub(super) fn scenario(blank: Scenario, rng: &mut StdRng) -> Scenario {
    let behaviours = [
        Behaviour::Answers(503),
        Behaviour::Answers(400),
        Behaviour::Asks(429, 1_800),
        Behaviour::Flaps(0.5),
    ];
    let turns: Vec<(Duration, Behaviour)> = (0..4)
        .map(|n| (secs(rng, n * 900, (n + 1) * 900), behaviours[rng.random_range(0..behaviours.len())]))
        .collect();
    let is_webhook = rng.random_bool(0.3);
    let receivers = vec![
        Receiver { is_webhook, phases: turns },
        Receiver { is_webhook, phases: vec![(Duration::ZERO, Behaviour::Flaps(0.3))] },
    ];
    let sendings = (0..30).map(|n| {
        let at = secs(rng, 0, 9_000);
        Sending {
            at,
            tenant: TENANT,
            id: format!("m{n}"),
            receiver: usize::from(n % 3 == 2),
            by_address: rng.random_bool(0.35),
            deliver_at: rng.random_bool(0.3).then(|| at + secs(rng, 1, 6 * 3_600)),
            retry: [None, Some("none"), Some("schedule-standard")].choose(rng).copied().flatten(),
            ttl: Some(86_400),
            ..Sending::default()
        }
    });
    let sendings = sendings.collect();
    let erased = Act::ErasesPerson(TENANT, ERASED);
    let storage = Storage {
        acts: vec![(secs(rng, 600, 4_500), erased)],
        lasts: Duration::from_secs(9_000),
        ..Storage::default()
    };
    let faults =
        Faults { death: 0.15, refused: 0.05, lost: 0.05, duplicate: 0.1, ack_lost: 0.1, ..Faults::default() };
    let clocks = vec![Clock::default(); 3];
    Scenario { clocks, receivers, sendings, storage, faults, faults_end: Duration::from_secs(7_200), ..blank }
}
