//! What is remembered of the lines of origins.

use std::collections::BTreeMap;

use redial_core::line::Line;
use redial_core::time::Timestamp;

/// How messages leave a line whose origin lets them go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    AsProbes,
    Freely,
}

/// What is remembered of lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// How messages leave a line, if they do, and since when it has been seen so without one that was put there or left.
    still: BTreeMap<Line, (Option<Leave>, Timestamp)>,
    /// What looks after lines that hold something may have called.
    pub calls: usize,
}

impl Lines {
    pub fn moves(&mut self, line: &Line, now: Timestamp) {
        if let Some((_, since)) = self.still.get_mut(line) {
            *since = now;
        }
    }

    /// Since when it has been still. Lines are looked at every few minutes.
    pub fn still_since(&mut self, line: &Line, leave: Option<Leave>, now: Timestamp) -> Timestamp {
        let still = self.still.entry(line.clone()).or_insert((leave, now));
        if still.0 != leave {
            *still = (leave, now);
        }
        still.1
    }
}
