//! Where an import stands: after which line, and what the lines before it came to. It holds no document.

use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Identity, Resumable};

/// Where it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    v: u32,
    /// Of which import.
    pub(crate) of: Identity,
    /// When it began, epoch ms.
    pub(crate) begun: i64,
    /// How many lines there are.
    pub(crate) lines: u64,
    /// The number of the last line that was dealt with; 0 before the first.
    pub(super) after: u64,
    /// The digest of all lines up to that one.
    pub(super) digest: String,
    /// How many subscriptions are new, all runs together.
    pub(crate) new: u64,
    /// How many were there before.
    pub(crate) renewed: u64,
    /// How many lines were refused.
    pub(crate) refused: u64,
}

const VERSION: u32 = 1;

impl Checkpoint {
    /// The start of an import of so many lines.
    pub(crate) fn start(of: Identity, begun: Timestamp, lines: u64) -> Self {
        let (after, digest) = (0, String::new());
        Self { v: VERSION, of, begun: begun.as_ms(), lines, after, digest, new: 0, renewed: 0, refused: 0 }
    }

    /// How many lines it has dealt with.
    pub(crate) fn done(&self) -> u64 {
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
