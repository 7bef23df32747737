//! The cleanup function's events: batches of the dead-letter queue and of the quarantine, and
//! scheduled sweeps.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Error, LambdaEvent};
use redial_core::body::Body;
use redial_core::time::Timestamp;
use redial_engine::cleanup::{QueueMessage, Sweep};
use redial_engine::ports::Telemetry;
use serde::Deserialize;
use serde_json::Value;

use crate::worker::AwsWorker;

/// What a sweep keeps in reserve of its invocation's time.
const RESERVE_MS: i64 = 3_000;

/// An event of either kind.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Event {
    /// From a schedule, or an operator.
    Sweep { sweep: Sweep },
    /// From an event source mapping.
    Batch(SqsEvent),
}

/// Deals with one event; returns what a sweep did, or which messages must come back.
pub(crate) async fn handle(
    worker: &AwsWorker,
    dead_letters_url: &str,
    event: LambdaEvent<Event>,
) -> Result<Value, Error> {
    match event.payload {
        Event::Sweep { sweep: which } => {
            let end = i64::try_from(event.context.deadline).unwrap_or(i64::MAX);
            let deadline = Timestamp::from_ms(end.saturating_sub(RESERVE_MS));
            Ok(serde_json::to_value(worker.sweep(which, deadline).await?)?)
        }
        Event::Batch(batch) => {
            let mut response = SqsBatchResponse::default();
            for record in batch.records {
                let message = message(record, dead_letters_url)?;
                if let Err(error) = worker.clean(&message).await {
                    worker.telemetry.infrastructure(&error);
                    let mut failure = BatchItemFailure::default();
                    failure.item_identifier = message.message_id;
                    response.batch_item_failures.push(failure);
                }
            }
            Ok(serde_json::to_value(response)?)
        }
    }
}

fn message(record: SqsMessage, dead_letters_url: &str) -> Result<QueueMessage, Error> {
    let queue = record.event_source_arn.as_deref().and_then(|arn| arn.rsplit(':').next());
    let sent = record.attributes.get("SentTimestamp").and_then(|ms| ms.parse().ok());
    Ok(QueueMessage {
        message_id: record.message_id.filter(|id| !id.is_empty()).ok_or("an SQS record has no messageId")?,
        body: Body::new(record.body.unwrap_or_default()),
        sent: Timestamp::from_ms(sent.unwrap_or_default()),
        is_reference: queue.is_some() && queue == dead_letters_url.rsplit('/').next(),
    })
}
