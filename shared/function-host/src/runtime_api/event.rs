//! The event that an SQS event source mapping hands to a function.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::ambient;

/// Where a record is said to come from if a test does not say.
const QUEUE_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:ingest";

/// One record: a message as its mapping received it.
#[derive(Clone)]
pub struct SqsRecord {
    message_id: String,
    receipt_handle: String,
    body: String,
    md5_of_body: Option<String>,
    attributes: BTreeMap<String, String>,
    message_attributes: BTreeMap<String, Value>,
    queue_arn: String,
}

impl SqsRecord {
    /// A message without any attribute.
    pub fn bare(message_id: impl Into<String>, body: impl Into<String>) -> Self {
        let message_id = message_id.into();
        Self {
            receipt_handle: format!("receipt-{message_id}"),
            message_id,
            body: body.into(),
            md5_of_body: None,
            attributes: BTreeMap::new(),
            message_attributes: BTreeMap::new(),
            queue_arn: QUEUE_ARN.to_owned(),
        }
    }

    /// A message received for the first time, sent just now.
    pub fn new(message_id: impl Into<String>, body: impl Into<String>) -> Self {
        let now_ms = ambient::epoch_ms();
        Self::bare(message_id, body)
            .receive_count(1)
            .sent_timestamp_ms(now_ms)
            .attribute("ApproximateFirstReceiveTimestamp", &now_ms.to_string())
            .attribute("SenderId", "000000000000")
    }

    /// `ApproximateReceiveCount`.
    pub fn receive_count(self, count: u32) -> Self {
        self.attribute("ApproximateReceiveCount", &count.to_string())
    }

    /// `SentTimestamp`, in milliseconds since the Unix epoch.
    pub fn sent_timestamp_ms(self, at_ms: u64) -> Self {
        self.attribute("SentTimestamp", &at_ms.to_string())
    }

    pub fn group(self, group: &str) -> Self {
        self.attribute("MessageGroupId", group)
    }

    /// Any system attribute.
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.insert(name.to_owned(), value.to_owned());
        self
    }

    /// An attribute of the sender's own, as an event has it: `{"stringValue", "dataType", …}`.
    pub fn message_attribute(mut self, name: &str, value: Value) -> Self {
        self.message_attributes.insert(name.to_owned(), value);
        self
    }

    pub fn md5_of_body(self, digest: Option<String>) -> Self {
        Self { md5_of_body: digest, ..self }
    }

    /// The handle to delete the message by, or to change its visibility.
    pub fn receipt_handle(self, handle: impl Into<String>) -> Self {
        Self { receipt_handle: handle.into(), ..self }
    }

    /// The ARN of the queue it comes from: `eventSourceARN`.
    pub fn queue_arn(self, arn: impl Into<String>) -> Self {
        Self { queue_arn: arn.into(), ..self }
    }

    pub fn id(&self) -> &str {
        &self.message_id
    }

    pub fn handle(&self) -> &str {
        &self.receipt_handle
    }

    /// The length of its body in bytes.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    fn json(&self) -> Value {
        let region = self.queue_arn.split(':').nth(3).unwrap_or_default();
        let mut record = json!({
            "messageId": self.message_id,
            "receiptHandle": self.receipt_handle,
            "body": self.body,
            "attributes": self.attributes,
            "messageAttributes": self.message_attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": self.queue_arn,
            "awsRegion": region,
        });
        if let Some(digest) = &self.md5_of_body {
            record["md5OfBody"] = Value::from(digest.as_str());
        }
        record
    }
}

impl fmt::Debug for SqsRecord {
    /// Without body, attributes and handle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsRecord").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}

/// The event of a batch: `{"Records": [...]}`. A record has `md5OfBody` if its message came from a queue.
pub fn sqs_event(records: impl IntoIterator<Item = SqsRecord>) -> Value {
    json!({"Records": records.into_iter().map(|record| record.json()).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_fields_and_types_of_awss() {
        let record = SqsRecord::new("m1", "{}")
            .receive_count(3)
            .sent_timestamp_ms(1_790_000_000_123)
            .group("acme")
            .receipt_handle("h")
            .queue_arn("arn:aws:sqs:eu-central-1:123456789012:bulk");
        let event = sqs_event([record]);
        let record = &event["Records"][0];
        assert_eq!(record["messageId"], "m1");
        assert_eq!(record["receiptHandle"], "h");
        assert_eq!(record["body"], "{}");
        assert_eq!(record["attributes"]["ApproximateReceiveCount"], "3");
        assert_eq!(record["attributes"]["SentTimestamp"], "1790000000123");
        assert_eq!(record["attributes"]["MessageGroupId"], "acme");
        assert_eq!(record["awsRegion"], "eu-central-1");
        assert_eq!(record["eventSource"], "aws:sqs");
    }
}
