//! The progress of a replay, in a file: written after every batch that SQS has accepted, removed at the end.
//!
//! It names the last dead letter that was processed, and the time range that the replay began with, so that a restart means the
//! same dead letters. It holds no payload. A crash between a batch and its file sends that batch again, and the ledger drops it.

use std::collections::BTreeMap;

use redial_adapters::dead_letters_dynamo::Position;
use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    checkpoint::{Identity, Resumable},
    dead_letters::tally::Tally,
};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    v: u32,
    pub(super) of: Identity,
    /// Epoch ms.
    pub(super) begun: i64,
    /// Epoch ms, included.
    pub(super) since: i64,
    /// Epoch ms, excluded.
    pub(super) until: i64,
    /// The dead letters that it found when it began.
    pub(super) found: Tally,
    /// Position of the last dead letter that was processed.
    after: Option<String>,
    /// The number sent, all runs together.
    pub(super) sent: u64,
    /// The number that SQS refused.
    pub(super) refused: u64,
    /// The number skipped, by the label of the reason.
    pub(super) skipped: BTreeMap<String, u64>,
}

const VERSION: u32 = 1;

impl Checkpoint {
    pub(super) fn start(
        of: Identity,
        begun: Timestamp,
        (since, until): (Timestamp, Timestamp),
        found: Tally,
    ) -> Self {
        Self {
            v: VERSION,
            of,
            begun: begun.as_ms(),
            since: since.as_ms(),
            until: until.as_ms(),
            found,
            after: None,
            sent: 0,
            refused: 0,
            skipped: BTreeMap::new(),
        }
    }

    pub(super) fn after(&self) -> Option<Position> {
        self.after.as_deref().and_then(Position::parse)
    }

    pub(super) fn advance_to(&mut self, position: &Position) {
        self.after = Some(position.to_string());
    }

    /// The number of dead letters that were processed.
    pub(super) fn done(&self) -> u64 {
        self.sent + self.refused + self.skipped.values().sum::<u64>()
    }
}

impl Resumable for Checkpoint {
    const A_WORK: &'static str = "a replay";

    fn of(&self) -> &Identity {
        &self.of
    }

    fn is_sound(&self) -> bool {
        self.v == VERSION && (self.after.is_none() || self.after().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::described;

    fn checkpoint() -> Checkpoint {
        let of = Identity { stack: "https://q.example/1".to_owned(), options: "--all".to_owned() };
        let bounds = (Timestamp::from_ms(1), Timestamp::from_ms(2));
        Checkpoint::start(of, Timestamp::from_ms(3), bounds, Tally::default())
    }

    #[test]
    fn it_reads_back_with_the_last_position() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        let mut written = checkpoint();
        written.advance_to(&Position::of(&described()));
        written.sent = 7;
        written.write(&path).expect("writable");
        let read = Checkpoint::read(&path).expect("readable").expect("there");
        assert_eq!(read, written);
        assert_eq!(read.after(), Some(Position::of(&described())));
    }

    #[test]
    fn an_invalid_position_is_not_sound() {
        let strange = Checkpoint { after: Some("nowhere".to_owned()), ..checkpoint() };
        assert!(checkpoint().is_sound() && !strange.is_sound());
    }
}
