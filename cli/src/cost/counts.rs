//! What ten messages in one batch need. `tests/e2e/calls.rs` makes such batches, counts, and compares with what stands here.

/// Calls and units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests to SQS: sends, receives and deletes of up to ten messages each.
    pub sqs_requests: u32,
    /// Write units of DynamoDB, for items of less than a kilobyte.
    pub write_units: u32,
    /// Read units of DynamoDB, for items of less than four kilobytes.
    pub read_units: u32,
    /// Invocations of a function.
    pub invocations: u32,
}

/// Ten messages that are sent at the first attempt: sent to the ingest queue, received, deleted; their stored subscriptions
/// read, claimed, recorded.
pub const FIRST_ATTEMPT: Counts = Counts { sqs_requests: 3, write_units: 20, read_units: 10, invocations: 1 };

/// Ten retries: sent to the retry queue, and then the same again.
pub const RETRY: Counts = FIRST_ATTEMPT;

/// What ten long waits need besides their retries: parked, read and deleted again. Their way to the retry queue is the release's
/// instead of the attempt's.
pub const LONG_WAIT: Counts = Counts { sqs_requests: 0, write_units: 20, read_units: 10, invocations: 0 };
