//! What is remembered of the lines of origins.

use std::collections::BTreeMap;

use redial_core::line::Line;
use redial_core::time::Timestamp;

/// What is remembered of lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// When something was last put in a line, or left it, or when its origin last held messages back.
    pub moved: BTreeMap<Line, Timestamp>,
    /// What looks after lines that hold something may have called.
    pub calls: usize,
}
