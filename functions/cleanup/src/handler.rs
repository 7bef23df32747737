//! The cleanup function's events: batches of the dead-letter queue, of the quarantine and of the queue of events that are relayed, and
//! scheduled sweeps.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Error, LambdaEvent};
use redial_adapters::outbox_sqs::QueueArn;
use redial_core::body::Body;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;
use redial_engine::cleanup::{QueueMessage, Sweep};
use serde::Deserialize;
use serde_json::Value;

use crate::worker::AwsWorker;

/// What is kept in reserve of an invocation's time.
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
    /// The stack's own queue of events, which is `events` where they are relayed.
    pub(crate) relay: Option<QueueArn>,
}

/// What a batch consists of, by the queue that it is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// References, or what the quarantine holds.
    Messages,
    Events,
    /// Relaying was switched off, and the mapping is not deleted yet: CloudFormation changes the function first. They stay on
    /// their queue, and are relayed when it is switched on again.
    EventsToKeep,
}

impl Queues {
    fn kind(&self, arn: Option<&str>) -> Kind {
        let is_from = |queue: &Option<QueueArn>| {
            queue.as_ref().zip(arn).is_some_and(|(queue, arn)| queue.is_source(arn))
        };
        match (is_from(&self.events), is_from(&self.relay)) {
            (true, _) => Kind::Events,
            (false, true) => Kind::EventsToKeep,
            (false, false) => Kind::Messages,
        }
    }
}

/// Deals with one event; returns what a sweep did, or which messages must come back.
pub(crate) async fn handle(
    worker: &AwsWorker,
    queues: &Queues,
    event: LambdaEvent<Event>,
) -> Result<Value, Error> {
    let end = i64::try_from(event.context.deadline).unwrap_or(i64::MAX);
    let deadline = Timestamp::from_ms(end.saturating_sub(RESERVE_MS));
    match event.payload {
        Event::Sweep { sweep: which } => Ok(serde_json::to_value(worker.sweep(which, deadline).await?)?),
        Event::Batch(batch) => {
            let arn = batch.records.first().and_then(|record| record.event_source_arn.as_deref());
            let kind = queues.kind(arn);
            let messages = batch.records.into_iter().map(|record| message(record, &queues.dead_letters_url));
            let messages = messages.collect::<Result<Vec<_>, _>>()?;
            let mut come_back = Vec::with_capacity(messages.len());
            match kind {
                Kind::Events => come_back.extend(worker.relay(&messages).await.iter().map(Result::is_err)),
                Kind::EventsToKeep => come_back.resize(messages.len(), true),
                Kind::Messages => {
                    // A batch that is not answered in time comes back as a whole, what was done of it included.
                    for message in &messages {
                        come_back.push(worker.clean(message, deadline).await.is_err());
                    }
                }
            }
            let mut response = SqsBatchResponse::default();
            for (message, comes_back) in messages.into_iter().zip(come_back) {
                if comes_back {
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
    let attribute = |name: &str| record.message_attributes.get(name)?.string_value.as_deref();
    Ok(QueueMessage {
        message_id,
        body: Body::new(record.body.unwrap_or_default()),
        sent: Timestamp::from_ms(sent_ms),
        is_reference: queue.is_some() && queue == dead_letters_url.rsplit('/').next(),
        targets: attribute(Targets::NAME).and_then(Targets::parse),
        traceparent: attribute(Traceparent::NAME).and_then(Traceparent::from_header),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with this attribute, unless it has no name.
    fn with_attribute(name: &str, value: &str) -> QueueMessage {
        let attribute =
            format!(r#""{name}":{{"dataType":"String","stringValue":"{value}","binaryListValues":[]}}"#);
        let attribute = if name.is_empty() { String::new() } else { attribute };
        let record = format!(
            r#"{{"messageId":"m","body":"b","attributes":{{"SentTimestamp":"0"}},"messageAttributes":{{{attribute}}}}}"#
        );
        let record: SqsMessage = serde_json::from_str(&record).expect("a record");
        message(record, "https://sqs.example/1/dlq").expect("read")
    }

    #[test]
    fn the_targets_that_lack_an_event_are_an_attribute_and_unknown_ones_are_all() {
        let read = |name: &str, value: &str| with_attribute(name, value).targets;
        let bus = Targets { bus: true, ..Targets::default() };
        assert_eq!(read("targets", "bus"), Some(bus));
        assert_eq!([read("", ""), read("targets", "bus,stream")], [None, None]);
    }

    #[test]
    fn a_trace_is_read_of_an_attribute_and_an_invalid_one_is_none() {
        let read = |name: &str, value: &str| with_attribute(name, value).traceparent.map(|it| it.to_string());
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(read("traceparent", valid).as_deref(), Some(valid));
        assert_eq!([read("", ""), read("traceparent", "00-1")], [None, None]);
    }

    #[test]
    fn events_stay_on_the_stack_s_queue_when_they_are_no_longer_relayed() {
        let arn = |name: &str| format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
        let queue = |name: &str| QueueArn::parse(&arn(name));
        let dead_letters_url = String::new;
        let relaying =
            Queues { dead_letters_url: dead_letters_url(), events: queue("relay"), relay: queue("relay") };
        let off =
            Queues { dead_letters_url: dead_letters_url(), events: queue("own"), relay: queue("relay") };
        let none = Queues { dead_letters_url: dead_letters_url(), events: None, relay: queue("relay") };
        let kinds = [&relaying, &off, &none].map(|queues| queues.kind(Some(&arn("relay"))));
        assert_eq!(kinds, [Kind::Events, Kind::EventsToKeep, Kind::EventsToKeep]);
        for queues in [relaying, off, none] {
            assert_eq!(queues.kind(Some(&arn("quarantine"))), Kind::Messages);
            assert_eq!(queues.kind(None), Kind::Messages);
        }
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
