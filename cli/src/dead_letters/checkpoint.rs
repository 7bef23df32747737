//! Where a replay stands, in a file: written after every batch that SQS has, removed at the end.
//!
//! It names the last letter that was dealt with, and the bounds in time that the replay began with, so that one that is
//! started again means the same letters. It holds no payload. A crash between a batch and its file sends that batch again,
//! and the ledger drops it.

use std::collections::BTreeMap;

use redial_adapters::dead_letters_dynamo::Position;
use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::checkpoint::{Identity, Resumable};

/// Where it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    v: u32,
    /// Of which replay.
    pub(crate) of: Identity,
    /// When it began, epoch ms.
    pub(crate) begun: i64,
    /// Its first moment, epoch ms.
    pub(crate) since: i64,
    /// The moment before which its letters lie, epoch ms.
    pub(crate) until: i64,
    /// How many letters it found when it began.
    pub(crate) found: Tally,
    /// The last letter that was dealt with.
    after: Option<String>,
    /// How many letters were sent, all runs together.
    pub(crate) sent: u64,
    /// How many SQS did not take.
    pub(crate) refused: u64,
    /// How many were skipped, by the label of the reason.
    pub(crate) skipped: BTreeMap<String, u64>,
}

const VERSION: u32 = 1;

impl Checkpoint {
    /// The start of a replay.
    pub(crate) fn start(
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

    /// The last letter that was dealt with.
    pub(super) fn after(&self) -> Option<Position> {
        self.after.as_deref().and_then(Position::parse)
    }

    pub(super) fn is_now_after(&mut self, position: &Position) {
        self.after = Some(position.to_string());
    }

    /// How many letters it has dealt with.
    pub(crate) fn done(&self) -> u64 {
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
    use crate::dead_letters::filter::tests::described;

    fn checkpoint() -> Checkpoint {
        let of = Identity { stack: "https://q.example/1".to_owned(), options: "--all".to_owned() };
        let bounds = (Timestamp::from_ms(1), Timestamp::from_ms(2));
        Checkpoint::start(of, Timestamp::from_ms(3), bounds, Tally::default())
    }

    #[test]
    fn it_reads_back_with_the_last_letter() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        let mut it = checkpoint();
        it.is_now_after(&Position::of(&described()));
        it.sent = 7;
        it.write(&path).expect("writable");
        let read = Checkpoint::read(&path).expect("readable").expect("there");
        assert_eq!(read, it);
        assert_eq!(read.after(), Some(Position::of(&described())));
    }

    #[test]
    fn one_that_names_no_letter_is_not_sound() {
        let strange = Checkpoint { after: Some("nowhere".to_owned()), ..checkpoint() };
        assert!(checkpoint().is_sound() && !strange.is_sound());
    }
}
