//! How a mapping reads its queue: what a template says of it.

use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The most messages of a batch: 10 at most without a window.
    pub batch_size: usize,
    /// How long a batch may wait to be filled.
    pub window: Duration,
    /// The most batches at once.
    pub maximum_concurrency: usize,
    /// Whether the function's response names the messages that failed (`ReportBatchItemFailures`).
    pub reports_failures: bool,
}
