//! What a run is known by: its message, and the claim that opened it.
//!
//! A producer may use an id again once the ledger has forgotten it. DynamoDB deletes expired rows late and one by one, so rows of
//! the earlier run may still be there. A run therefore has an id of its own, a hash of the message's id and of its [`Opening`], and
//! everything that belongs to the run is keyed by that id: its rows, its parts and its recipients' deliveries. On the queues the run's
//! id stands where releases without openings wrote the message's, so that both read what the other sends.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::identity::{DeliveryKey, RunId, Tenant, Turn};
use crate::time::Timestamp;

/// The claim that granted a message to an audience. The ledger keeps it, so it is the same on every hand-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// What was claimed.
    pub turn: Turn,
    /// When it was claimed.
    pub at: Timestamp,
}

/// The key of a run: `tenant#run id`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunKey {
    /// Whose message it is.
    pub tenant: Tenant,
    /// The run's id within the tenant.
    pub id: RunId,
}

impl RunKey {
    /// The run that this opening of a message begins.
    pub fn new(message: &DeliveryKey, opening: Opening) -> Self {
        let Opening { turn, at } = opening;
        let named = format!("run\0{}\0{}\0{}\0{}", message.id, turn.lineage.0, turn.attempt.0, at.as_ms());
        let digest = ring::digest::digest(&ring::digest::SHA256, named.as_bytes());
        let id = RunId::parse(&URL_SAFE_NO_PAD.encode(digest.as_ref()));
        Self { tenant: message.tenant.clone(), id: id.expect("43 base64url characters are an id") }
    }

    /// The run of this message where a release without openings began it: its id is the message's.
    pub fn without_opening(message: &DeliveryKey) -> Self {
        let id = RunId::parse(message.id.as_str());
        Self { tenant: message.tenant.clone(), id: id.expect("both ids have the same form") }
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.tenant, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Attempt, DeliveryId, Lineage};

    fn run(id: &str, lineage: u32, attempt: u32, ms: i64) -> RunKey {
        let tenant = Tenant::parse("acme").expect("valid");
        let message = DeliveryKey { tenant, id: DeliveryId::parse(id).expect("valid") };
        let turn = Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) };
        RunKey::new(&message, Opening { turn, at: Timestamp::from_ms(ms) })
    }

    #[test]
    fn each_opening_of_each_message_is_a_run_of_its_own() {
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
        // As it was when the first runs were stored: with another hash, what is under way would be looked for in vain.
        assert_eq!(runs[0].id.as_str(), "P0AZkl2npXCrP85Xl7Zb5dOWd8d_HY2rdf97e7I4Pd0");
    }
}
