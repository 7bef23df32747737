//! The progress of an import: the last line, and the results of the lines before it. It holds no document.

use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Identity, Resumable};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    v: u32,
    pub(super) of: Identity,
    /// Epoch ms.
    pub(super) begun: i64,
    /// Of the whole input.
    pub(super) lines: u64,
    /// The number of the last line that was processed; 0 before the first.
    pub(super) after: u64,
    /// The digest of all lines up to that one.
    pub(super) digest: String,
    /// New subscriptions, all runs together.
    pub(super) new: u64,
    /// Subscriptions that were stored before.
    pub(super) renewed: u64,
    /// Lines that were refused.
    pub(super) refused: u64,
}

const VERSION: u32 = 1;

impl Checkpoint {
    pub(super) fn start(of: Identity, begun: Timestamp, lines: u64) -> Self {
        let (after, digest) = (0, String::new());
        Self { v: VERSION, of, begun: begun.as_ms(), lines, after, digest, new: 0, renewed: 0, refused: 0 }
    }

    /// Lines that were processed.
    pub(super) fn done(&self) -> u64 {
        self.new + self.renewed + self.refused
    }
}

impl Resumable for Checkpoint {
    const A_WORK: &'static str = "an import";

    fn of(&self) -> &Identity {
        &self.of
    }

    fn is_sound(&self) -> bool {
        self.v == VERSION
    }
}
