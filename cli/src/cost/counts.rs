//! What ten messages in one batch need. `tests/e2e/cost.rs` makes such batches, counts, and compares with what stands here.

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

/// What ten dead letters need besides the attempts that they end. References: sent to the dead-letter queue, received, deleted.
/// Bodies: stored, and deleted by the sweep. Descriptions: stored; that DynamoDB deletes them costs nothing. Each item stands in
/// one index, too, so each of these is two units. Not counted: that a tenant has letters on a day, written once a worker, and the
/// sweep's own queries, which are the same without letters.
pub const DEAD_LETTER: Counts = Counts { sqs_requests: 3, write_units: 60, read_units: 0, invocations: 1 };
