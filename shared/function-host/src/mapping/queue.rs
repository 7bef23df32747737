//! The queue of a mapping: what is received from it and deleted in it.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use thiserror::Error;

use crate::runtime_api::SqsRecord;

/// The most entries of a batch call (SQS API reference, DeleteMessageBatch).
const MOST_ENTRIES: usize = 10;

#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct QueueError(String);

impl QueueError {
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

pub trait Queue: Send + Sync + 'static {
    /// At most `most` messages (ten), as soon as there is one; none after `wait`, in whole seconds.
    fn receive(
        &self,
        most: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<SqsRecord>, QueueError>> + Send;

    /// Deletes messages by their handles; answers the handles of those that it could not delete.
    fn delete(&self, handles: Vec<String>) -> impl Future<Output = Vec<String>> + Send;
}

/// A queue of SQS, or of an emulator of it. Its client's time-outs have to be longer than a long poll of 20 s.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    pub client: Client,
    pub url: String,
    pub arn: String,
}

impl Queue for SqsQueue {
    async fn receive(&self, most: usize, wait: Duration) -> Result<Vec<SqsRecord>, QueueError> {
        let call = self.client.receive_message().queue_url(&self.url);
        let call = call
            .max_number_of_messages(i32::try_from(most).unwrap_or(1))
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        let received = call.send().await;
        // A whole error would name the endpoint.
        let received = received.map_err(|error| QueueError::new(error.code().unwrap_or("no response")))?;
        Ok(received.messages.unwrap_or_default().into_iter().map(|message| self.record(message)).collect())
    }

    async fn delete(&self, handles: Vec<String>) -> Vec<String> {
        let mut left = Vec::new();
        for some in handles.chunks(MOST_ENTRIES) {
            let entries = some.iter().enumerate().map(|(at, handle)| {
                let entry = DeleteMessageBatchRequestEntry::builder().id(at.to_string());
                entry.receipt_handle(handle).build().expect("invariant: it has its id and its handle")
            });
            let call = self.client.delete_message_batch().queue_url(&self.url);
            match call.set_entries(Some(entries.collect())).send().await {
                Ok(deleted) => {
                    let failed = deleted.failed().iter().filter_map(|entry| entry.id().parse::<usize>().ok());
                    left.extend(failed.filter_map(|at| some.get(at).cloned()));
                }
                Err(_) => left.extend_from_slice(some),
            }
        }
        left
    }
}

impl SqsQueue {
    fn record(&self, message: Message) -> SqsRecord {
        let record =
            SqsRecord::bare(message.message_id.unwrap_or_default(), message.body.unwrap_or_default())
                .receipt_handle(message.receipt_handle.unwrap_or_default())
                .md5_of_body(message.md5_of_body)
                .queue_arn(&self.arn);
        let attributes = message.attributes.unwrap_or_default();
        let record = attributes
            .into_iter()
            .fold(record, |record, (name, value)| record.attribute(name.as_str(), &value));
        let attributes = message.message_attributes.unwrap_or_default();
        attributes
            .into_iter()
            .fold(record, |record, (name, value)| record.message_attribute(&name, attribute(&value)))
    }
}

/// An attribute of a message as an event has it.
fn attribute(value: &MessageAttributeValue) -> Value {
    let mut attribute = json!({
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value.data_type(),
    });
    if let Some(text) = value.string_value() {
        attribute["stringValue"] = text.into();
    }
    if let Some(bytes) = value.binary_value() {
        attribute["binaryValue"] = STANDARD.encode(bytes.as_ref()).into();
    }
    attribute
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::primitives::Blob;

    use super::*;
    use crate::runtime_api::sqs_event;

    #[test]
    fn a_record_has_what_the_message_has_and_its_body_byte_for_byte() {
        let client = Client::from_conf(
            aws_sdk_sqs::Config::builder()
                .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
                .build(),
        );
        let arn = "arn:aws:sqs:eu-central-1:1:bulk".to_owned();
        let queue = SqsQueue { client, url: "http://localhost/1/bulk".to_owned(), arn };
        let body = "{\"a\":5 ,\n\t\"é\": 1.0}";
        let text = MessageAttributeValue::builder().data_type("String").string_value("acme");
        let bytes = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new(b"\x00\xff"));
        let message = Message::builder()
            .message_id("m1")
            .receipt_handle("h1")
            .body(body)
            .md5_of_body("d1")
            .attributes(MessageSystemAttributeName::ApproximateReceiveCount, "3")
            .attributes(MessageSystemAttributeName::SentTimestamp, "1790000000123")
            .attributes(MessageSystemAttributeName::MessageGroupId, "acme")
            .message_attributes("tenant", text.build().expect("a type"))
            .message_attributes("seal", bytes.build().expect("a type"))
            .build();
        let event = sqs_event([queue.record(message)]);
        assert_eq!(
            event["Records"][0],
            json!({
                "messageId": "m1",
                "receiptHandle": "h1",
                "body": body,
                "md5OfBody": "d1",
                "attributes": {
                    "ApproximateReceiveCount": "3", "SentTimestamp": "1790000000123", "MessageGroupId": "acme",
                },
                "messageAttributes": {
                    "tenant": {
                        "stringValue": "acme", "stringListValues": [], "binaryListValues": [], "dataType": "String",
                    },
                    "seal": {
                        "binaryValue": "AP8=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary",
                    },
                },
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-central-1:1:bulk",
                "awsRegion": "eu-central-1",
            })
        );
    }
}
