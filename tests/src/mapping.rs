//! An event source mapping in the test's hands: it receives from a queue, invokes a function, and deletes what that acknowledged.
//!
//! A message that the function returned, or died over, comes back after its visibility time-out, or at once if the test says so.

use std::time::Duration;

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use redial_testkit::runtime_api::{InvokeError, SqsRecord, sqs_event};
use serde_json::Value;

use crate::{hosted::Function, test_stack::queue_arn};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// The queue held no message.
    Idle,
    Done,
    /// The function's process died.
    Died,
}

pub struct Mapping<'a> {
    pub sqs: &'a aws_sdk_sqs::Client,
    pub queue_url: &'a str,
    /// Visibility time-out, in whole seconds.
    pub visibility: Duration,
}

impl Mapping<'_> {
    /// Waits up to `patience` (whole seconds) for messages, and invokes the function with those that come.
    pub async fn poll(&self, function: &Function, patience: Duration) -> Poll {
        let messages = self.receive(patience).await;
        let (poll, _left) = self.invoke(function, messages).await;
        poll
    }

    /// Waits up to `patience` (whole seconds) for messages: ten at most.
    pub async fn receive(&self, patience: Duration) -> Vec<Message> {
        let secs = |time: Duration| i32::try_from(time.as_secs()).expect("a time-out is short");
        let received = self
            .sqs
            .receive_message()
            .queue_url(self.queue_url)
            .max_number_of_messages(10)
            .visibility_timeout(secs(self.visibility))
            .wait_time_seconds(secs(patience))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        received.expect("the queue answers").messages.unwrap_or_default()
    }

    /// Invokes the function with these, and has those come back at once that it has not acknowledged.
    pub async fn hand_out(&self, function: &Function, messages: Vec<Message>) -> Poll {
        let (poll, left) = self.invoke(function, messages).await;
        self.give_back(&left).await;
        poll
    }

    /// What it came to, and what is left in the queue.
    async fn invoke(&self, function: &Function, messages: Vec<Message>) -> (Poll, Vec<Message>) {
        if messages.is_empty() {
            return (Poll::Idle, messages);
        }
        let records = messages.iter().map(|message| self.record(message));
        match function.invoke(sqs_event(records)).await {
            Ok(answer) => (Poll::Done, self.delete(messages, &answer).await),
            Err(InvokeError::Crashed(_)) => (Poll::Died, messages),
            Err(error) => {
                let logs: Vec<String> = function.logs().into_iter().map(|line| line.text).collect();
                panic!("{error}; it has printed:\n{}", logs.join("\n"))
            }
        }
    }

    async fn give_back(&self, messages: &[Message]) {
        for message in messages {
            let change = self.sqs.change_message_visibility().queue_url(self.queue_url).visibility_timeout(0);
            let change = change.set_receipt_handle(message.receipt_handle.clone());
            change.send().await.expect("the queue answers");
        }
    }

    fn record(&self, message: &Message) -> SqsRecord {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let record = SqsRecord::new(text(&message.message_id), text(&message.body))
            .receipt_handle(text(&message.receipt_handle))
            .queue_arn(queue_arn(self.queue_url));
        let attributes = message.attributes.iter().flatten();
        attributes.fold(record, |record, (name, value)| record.attribute(name.as_str(), value))
    }

    /// Deletes what the function's partial batch response does not name, and answers with what it does.
    async fn delete(&self, messages: Vec<Message>, answer: &Value) -> Vec<Message> {
        let failures = answer["batchItemFailures"].as_array().map(Vec::as_slice).unwrap_or_default();
        let failed = |message: &Message| {
            failures.iter().any(|failure| failure["itemIdentifier"].as_str() == message.message_id.as_deref())
        };
        let (left, acknowledged): (Vec<_>, Vec<_>) = messages.into_iter().partition(failed);
        let entry = |(at, message): (usize, &Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(at.to_string());
            let entry = entry.set_receipt_handle(message.receipt_handle.clone());
            entry.build().expect("an entry has its id and its handle")
        };
        let entries: Vec<_> = acknowledged.iter().enumerate().map(entry).collect();
        for ten in entries.chunks(10) {
            let deleted = self.sqs.delete_message_batch().queue_url(self.queue_url);
            let deleted = deleted.set_entries(Some(ten.to_vec())).send().await.expect("the queue answers");
            assert!(deleted.failed().is_empty(), "{:?}", deleted.failed());
        }
        left
    }
}
