//! An event source mapping of an SQS queue, as AWS documents it (Lambda developer guide, "Using Lambda with Amazon SQS").
//!
//! ```text
//! queue (long polling) ─► batch (size, window, 6 MB) ─► function ─► response ─► delete what was processed
//! ```
//!
//! What a function has not acknowledged stays in the queue, and comes back after its visibility time-out: all of a batch
//! if the invocation failed, and the messages that the response names where it may name some. So at each moment a crash of this
//! process costs no more than a second receive.
//!
//! AWS does not say how it backs off a function that fails, only that it invokes it less. Here the number of batches at once
//! is halved with each failed invocation and grows by one with each other, and a pause precedes the next receive.

mod backoff;
mod batch;
mod queue;
mod response;
mod settings;
mod switch;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::function::Invoke;
use crate::runtime_api::{SqsRecord, sqs_event};

use backoff::Backoff;
pub use queue::{Queue, QueueError, SqsQueue};
pub use settings::Settings;
pub use switch::{State, Switch};

/// How often a deletion is tried. What is not deleted is received again, and costs an invocation.
const DELETIONS: u32 = 4;
const DELETION_PAUSE: Duration = Duration::from_millis(250);

/// What a mapping notes of its work: one line, without payload.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    Processed,
    Failed,
}

/// Polls the queue and invokes the function until it is dropped, while the switch is on.
pub async fn run<Q: Queue, F: Invoke>(
    settings: Settings,
    queue: Arc<Q>,
    function: Arc<F>,
    switch: Arc<Switch>,
    note: Note,
) {
    let mut batches = JoinSet::new();
    let mut backoff = Backoff::new(settings.maximum_concurrency);
    let mut unreachable = 0;
    loop {
        while let Some(done) = batches.try_join_next() {
            backoff.note(is_processed(done));
        }
        if switch.state() != State::Enabled {
            while let Some(done) = batches.join_next().await {
                backoff.note(is_processed(done));
            }
            switch.stopped().await;
            continue;
        }
        if batches.len() >= backoff.allowed() {
            if let Some(done) = batches.join_next().await {
                backoff.note(is_processed(done));
            }
            continue;
        }
        tokio::time::sleep(backoff.pause()).await;
        match batch::collect(&*queue, &settings).await {
            Ok(collected) => {
                if unreachable > 0 {
                    note("ReceiveMessage succeeds again");
                    unreachable = 0;
                }
                // What was received together may be too large for one invocation.
                for records in collected {
                    while batches.len() >= backoff.allowed() {
                        if let Some(done) = batches.join_next().await {
                            backoff.note(is_processed(done));
                        }
                    }
                    let (queue, function, note) =
                        (Arc::clone(&queue), Arc::clone(&function), Arc::clone(&note));
                    let reports_failures = settings.reports_failures;
                    batches.spawn(async move {
                        process(records, reports_failures, &*queue, &*function, &*note).await
                    });
                }
            }
            Err(error) => {
                if unreachable == 0 {
                    note(&format!("ReceiveMessage failed: {error}"));
                }
                unreachable += 1;
                tokio::time::sleep(backoff::pause_after(unreachable)).await;
            }
        }
    }
}

/// A panic is a failure, too.
fn is_processed(done: Result<Done, tokio::task::JoinError>) -> bool {
    matches!(done, Ok(Done::Processed))
}

async fn process(
    records: Vec<SqsRecord>,
    reports_failures: bool,
    queue: &impl Queue,
    function: &impl Invoke,
    note: &(dyn Fn(&str) + Send + Sync),
) -> Done {
    let keys: Vec<(String, String)> =
        records.iter().map(|record| (record.id().to_owned(), record.handle().to_owned())).collect();
    let answer = match function.invoke(sqs_event(records)).await {
        Ok(answer) => answer,
        Err(error) => {
            note(&format!("an invocation with {} messages has not succeeded: {}", keys.len(), error.label()));
            return Done::Failed;
        }
    };
    let ids = keys.iter().map(|(id, _)| id.as_str());
    let Some(failed) = response::failed(&answer, reports_failures, ids) else {
        note(&format!(
            "a response names failures that cannot be read: {} messages stay in the queue",
            keys.len()
        ));
        return Done::Failed;
    };
    let processed =
        keys.iter().filter(|(id, _)| !failed.contains(id.as_str())).map(|(_, handle)| handle.clone());
    delete(processed.collect(), queue, note).await;
    Done::Processed
}

async fn delete(mut handles: Vec<String>, queue: &impl Queue, note: &(dyn Fn(&str) + Send + Sync)) {
    for attempt in 1..=DELETIONS {
        if handles.is_empty() {
            return;
        }
        handles = queue.delete(handles).await;
        if !handles.is_empty() && attempt < DELETIONS {
            tokio::time::sleep(DELETION_PAUSE * attempt).await;
        }
    }
    if !handles.is_empty() {
        note(&format!("{} processed messages were not deleted, and will be received again", handles.len()));
    }
}

#[cfg(test)]
mod tests;
