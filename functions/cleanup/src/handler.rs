//! The cleanup function's events: batches of the dead-letter queue, of the quarantine and of the queue of events that are relayed, and
//! scheduled sweeps.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Error, LambdaEvent};
use redial_adapters::outbox_sqs::QueueArn;
use redial_core::body::Body;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;
use redial_engine::cleanup::{QueueMessage, Sweep};
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

/// The queues whose messages differ from those of the quarantine.
pub(crate) struct Queues {
    pub(crate) dead_letters_url: String,
    /// Where events are announced. The function receives from it only where they are relayed.
    pub(crate) events: Option<QueueArn>,
}

/// Deals with one event; returns what a sweep did, or which messages must come back.
pub(crate) async fn handle(
    worker: &AwsWorker,
    queues: &Queues,
    event: LambdaEvent<Event>,
) -> Result<Value, Error> {
    match event.payload {
        Event::Sweep { sweep: which } => {
            let end = i64::try_from(event.context.deadline).unwrap_or(i64::MAX);
            let deadline = Timestamp::from_ms(end.saturating_sub(RESERVE_MS));
            Ok(serde_json::to_value(worker.sweep(which, deadline).await?)?)
        }
        Event::Batch(batch) => {
            let arn = batch.records.first().and_then(|record| record.event_source_arn.as_deref());
            let is_of_events =
                queues.events.as_ref().zip(arn).is_some_and(|(events, arn)| events.is_source(arn));
            let messages = batch.records.into_iter().map(|record| message(record, &queues.dead_letters_url));
            let messages = messages.collect::<Result<Vec<_>, _>>()?;
            let mut answers = Vec::with_capacity(messages.len());
            if is_of_events {
                answers = worker.relay(&messages).await;
            } else {
                for message in &messages {
                    answers.push(worker.clean(message).await);
                }
            }
            let mut response = SqsBatchResponse::default();
            for (message, answer) in messages.into_iter().zip(answers) {
                if answer.is_err() {
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
    let message_id = record.message_id.filter(|id| !id.is_empty()).ok_or("an SQS record has no messageId")?;
    let sent_ms = record
        .attributes
        .get("SentTimestamp")
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("the SQS record {message_id} has no SentTimestamp in milliseconds"))?;
    Ok(QueueMessage {
        message_id,
        body: Body::new(record.body.unwrap_or_default()),
        sent: Timestamp::from_ms(sent_ms),
        is_reference: queue.is_some() && queue == dead_letters_url.rsplit('/').next(),
        targets: record
            .message_attributes
            .get(Targets::NAME)
            .and_then(|attribute| Targets::parse(attribute.string_value.as_deref()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_that_lack_an_event_are_an_attribute_and_unknown_ones_are_all() {
        let read = |targets: &str| {
            let record = format!(
                r#"{{"messageId":"m","body":"b","attributes":{{"SentTimestamp":"0"}},"messageAttributes":{{{targets}}}}}"#
            );
            let record: SqsMessage = serde_json::from_str(&record).expect("a record");
            message(record, "https://sqs.example/1/dlq").expect("read").targets
        };
        let attribute = |value| {
            format!(r#""targets":{{"dataType":"String","stringValue":"{value}","binaryListValues":[]}}"#)
        };
        let bus = Targets { bus: true, ..Targets::default() };
        assert_eq!(read(&attribute("bus")), Some(bus));
        assert_eq!([read(""), read(&attribute("bus,stream"))], [None, None]);
    }

    #[test]
    fn a_record_is_read_with_its_time_and_refused_without() {
        let read = |attributes: &str| {
            let record = format!(
                r#"{{"messageId":"m","body":"b","eventSourceARN":"arn:aws:sqs:eu-central-1:1:dlq","attributes":{attributes}}}"#
            );
            let record: SqsMessage = serde_json::from_str(&record).expect("a record");
            message(record, "https://sqs.example/1/dlq")
        };
        let found = read(r#"{"SentTimestamp":"1523232000123"}"#).expect("read");
        assert_eq!((found.sent, found.is_reference), (Timestamp::from_ms(1_523_232_000_123), true));
        for attributes in ["{}", r#"{"SentTimestamp":"yesterday"}"#] {
            let refused = read(attributes).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some("the SQS record m has no SentTimestamp in milliseconds"));
        }
    }
}
