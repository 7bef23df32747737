//! What ten messages in one batch need; `tests/e2e/cost.rs` counts the same and compares.

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

/// Ten messages at their first attempt: sent to the ingest queue, received, deleted; their stored subscriptions read, claimed. Their record
/// is counted apart.
pub const FIRST_ATTEMPT: Counts = Counts { sqs_requests: 3, write_units: 10, read_units: 10, invocations: 1 };

/// What the successes of an invocation need besides: one item, if there are two or more. Receivers that do not answer within 100 ms of one
/// another need an update of it for each wave.
pub const RECORD_OF_SUCCESSES: u32 = 1;

/// Ten entries that come to a state that can be asked for, or leave it: each is written to the index by state, or removed from it.
pub const INDEXED: u32 = 10;

/// Ten retries: the attempt that failed is recorded by itself, sent to the retry queue, and then the same again. Meanwhile the entry is in the
/// index by state. From its third failure on it is longer than a kilobyte, which the bill adds.
pub const RETRY: Counts = Counts { write_units: 20 + 2 * INDEXED, ..FIRST_ATTEMPT };

/// What ten long waits need besides their retries: parked, read and deleted again. The release sends them to the retry queue
/// instead of the attempt. One unit more counts them for their tenant's quota.
pub const LONG_WAIT: Counts = Counts { sqs_requests: 0, write_units: 21, read_units: 10, invocations: 0 };

/// What ten messages need besides if they come through the HTTP API. Their entries are inserted, so that the claim, which expects none, is
/// refused, and reads the entry that it then changes. Requests are counted apart: one has up to a hundred messages, and sends them in tens.
pub const BY_API: Counts = Counts { sqs_requests: 0, write_units: 20, read_units: 10, invocations: 0 };

/// Ten acknowledgements of browsers, each in a request of its own: an attribute of the delivery's entry. With a queue for events, a send
/// and a read each besides. Of a recipient of a page it is an item of its own, and those reads are of its page.
pub const ACKNOWLEDGEMENT: Counts =
    Counts { sqs_requests: 0, write_units: 10, read_units: 0, invocations: 0 };

/// What a message to an audience needs besides being a message: its run is stored and named, and opened by a message for each of sixteen
/// parts, which are two sends, receives and deletes; each reads its progress once.
pub const AUDIENCE: Counts = Counts { sqs_requests: 6, write_units: 2, read_units: 17, invocations: 2 };

/// What a page of up to a hundred recipients needs besides them: the run and the members are read, and the progress is written.
pub const PAGE: Counts = Counts { sqs_requests: 0, write_units: 1, read_units: 4, invocations: 0 };

/// What a full page needs besides, if it is sent by one message: its members are recorded, whose ids have 36 characters, and it is sent,
/// received and deleted. Its run is read for each of two waves, its recipients' subscriptions once; it is claimed, and its sheet is written
/// before and after each wave. Receivers that do not answer within 100 ms of one another need a write for each time that they do.
pub const PAGE_BY_ONE_MESSAGE: Counts =
    Counts { sqs_requests: 3, write_units: 9, read_units: 102, invocations: 1 };

/// Bytes of the log line of the recipients of a page that were sent to together, and what each of them adds to its lists. A page has one
/// for each wave; receivers that do not answer within 100 ms of one another need one for each time that they do.
pub const PAGE_LOG_BYTES: u32 = 350;
pub const RECIPIENT_LOG_BYTES: u32 = 30;

/// What ten dead letters need besides the attempts that they end. References: sent to the dead-letter queue, received, deleted.
/// Bodies: stored, and deleted by the sweep. Descriptions: stored; DynamoDB deletes them for free. Each item is in one index, too,
/// so each of these is two units. Each end is recorded by itself, and is in the index by state, and one unit more counts the bodies for their tenant's quota. The bill adds
/// what is written of entries that retries have made longer than a kilobyte. Not
/// counted: the item that lists a tenant's days with dead letters, written once per worker, and the sweep's own queries, which run
/// without dead letters, too.
pub const DEAD_LETTER: Counts =
    Counts { sqs_requests: 3, write_units: 71 + INDEXED, read_units: 0, invocations: 1 };
