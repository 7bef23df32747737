//! Collects a batch: as many messages as it may have, until its window is over.

use std::time::Duration;

use super::{Queue, QueueError, Settings};
use crate::clock;
use crate::runtime_api::SqsRecord;

/// The most messages of one receive (SQS API reference, ReceiveMessage).
const MOST_RECEIVED: usize = 10;

/// The longest that a receive waits for a message (the same).
const LONG_POLL: Duration = Duration::from_secs(20);

/// How often it is asked in the last second of a window.
const SHORT_POLL: Duration = Duration::from_millis(100);

/// The most bytes of an event: Lambda's quota of 6 MB for a synchronous invocation, with room for what surrounds the bodies.
const MOST_BYTES: usize = 5_500_000;

/// Waits for messages; none if none came within a long poll. They are several batches if they are too large for one.
pub(super) async fn collect(
    queue: &impl Queue,
    settings: &Settings,
) -> Result<Vec<Vec<SqsRecord>>, QueueError> {
    let size = settings.batch_size.max(1);
    let mut records = queue.receive(size.min(MOST_RECEIVED), LONG_POLL).await?;
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let end = clock::now() + settings.window;
    let mut is_over = settings.window.is_zero();
    while !is_over && records.len() < size && bytes(&records) < MOST_BYTES {
        let left = end.saturating_duration_since(clock::now());
        // A receive waits for whole seconds. In the last part of the window it is asked every now and then what came.
        let wait = Duration::from_secs(left.as_secs()).min(LONG_POLL);
        if wait.is_zero() {
            tokio::time::sleep(left.min(SHORT_POLL)).await;
            is_over = left <= SHORT_POLL;
        }
        match queue.receive((size - records.len()).min(MOST_RECEIVED), wait).await {
            Ok(more) => records.extend(more),
            // What was received is processed first.
            Err(_) => break,
        }
    }
    Ok(split(records))
}

fn bytes(records: &[SqsRecord]) -> usize {
    records.iter().map(SqsRecord::size).sum()
}

fn split(records: Vec<SqsRecord>) -> Vec<Vec<SqsRecord>> {
    let mut batches: Vec<Vec<SqsRecord>> = Vec::new();
    let mut size = 0;
    for record in records {
        size += record.size();
        match batches.last_mut() {
            Some(batch) if size <= MOST_BYTES => batch.push(record),
            Some(_) | None => {
                size = record.size();
                batches.push(vec![record]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_too_large_together_are_several_batches_in_their_order() {
        let body = "x".repeat(MOST_BYTES / 2);
        let records = (0..5).map(|n| SqsRecord::bare(n.to_string(), body.clone())).collect();
        let batches = split(records);
        let ids: Vec<Vec<&str>> =
            batches.iter().map(|batch| batch.iter().map(SqsRecord::id).collect()).collect();
        assert_eq!(ids, [vec!["0", "1"], vec!["2", "3"], vec!["4"]]);
    }
}
