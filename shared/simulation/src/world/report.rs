//! What a simulation found.

use crate::situations::Situations;

/// What a simulation found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub seed: u64,
    /// What must not be, in the order in which it came about.
    pub violations: Vec<String>,
    pub situations: Situations,
    pub steps: u64,
    pub deliveries: usize,
    pub posts: usize,
    /// Calls of AWS by workers, without those that sweeps begin with.
    pub calls: usize,
    /// Messages that were received.
    pub received: usize,
    /// Empty unless it was kept.
    pub trace: String,
}
