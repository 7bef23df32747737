//! A run's key: its message, and the claim that opened it.
//!
//! A producer may use an id again once the ledger has forgotten it. DynamoDB deletes expired rows late and one by one, so rows of
//! the earlier run may still be there. A run therefore has an id of its own, a hash of the message's id and of its [`Opening`], and
//! everything that belongs to the run is keyed by that id: its rows, its parts and its recipients' deliveries. On the queues the run's
//! id stands where releases without openings wrote the message's, so that both read what the other sends.

use crate::identity::{DeliveryKey, Key, RunId, Turn, hashed};
use crate::time::Timestamp;

/// The claim that granted a message to an audience. The ledger keeps it, so it is the same on every hand-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    pub turn: Turn,
    pub at: Timestamp,
}

pub type RunKey = Key<RunId>;

impl RunKey {
    /// The run that this opening of a message begins.
    pub fn new(message: &DeliveryKey, opening: Opening) -> Self {
        let Opening { turn, at } = opening;
        let name = format!("run\0{}\0{}\0{}\0{}", message.id, turn.lineage.0, turn.attempt.0, at.as_ms());
        let id = RunId::parse(&hashed(&name)).expect("invariant: a hash is an id");
        Self { tenant: message.tenant.clone(), id }
    }

    /// The run of this message where a release without openings began it: its id is the message's.
    pub fn without_opening(message: &DeliveryKey) -> Self {
        let id = RunId::parse(message.id.as_str()).expect("invariant: both ids have the same form");
        Self { tenant: message.tenant.clone(), id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::delivery;
    use crate::identity::{Attempt, Lineage};

    fn run(id: &str, lineage: u32, attempt: u32, ms: i64) -> RunKey {
        let turn = Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) };
        RunKey::new(&delivery(id), Opening { turn, at: Timestamp::from_ms(ms) })
    }

    #[test]
    fn each_opening_of_each_message_is_its_own_run() {
        let runs = [
            run("news", 0, 0, 1_800_000_000_000),
            run("news", 0, 0, 1_800_000_000_001),
            run("news", 1, 0, 1_800_000_000_000),
            run("news", 0, 1, 1_800_000_000_000),
            run("sport", 0, 0, 1_800_000_000_000),
        ];
        for (n, a) in runs.iter().enumerate() {
            assert!(runs[n + 1..].iter().all(|b| a != b), "{n}");
        }
        // Runs that are stored have ids of this hash: with another, they would not be found.
        assert_eq!(runs[0].id.as_str(), "P0AZkl2npXCrP85Xl7Zb5dOWd8d_HY2rdf97e7I4Pd0");
    }
}
