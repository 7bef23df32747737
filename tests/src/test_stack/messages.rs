//! Messages into a stack's queues, and out of them.

use aws_sdk_sqs::types::{MessageSystemAttributeName, SendMessageBatchRequestEntry};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_testkit::push_service::{Answer, Subscriber};
use serde_json::{Value, json};

use super::TestStack;
use crate::json::{parsed, with_fields};

/// A message as it lies on a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageOnQueue {
    pub body: String,
    pub group: String,
}

/// What a page sends to store a browser, with its user's consent.
pub fn document(browser: &Subscriber) -> Value {
    let consent = json!({
        "at": "2026-01-01T10:00:00Z", "prompt_version": "v1", "action": "granted", "origin": "https://shop.example",
    });
    with_fields(browser.json(), &json!({"consent": consent}))
}

impl TestStack {
    pub fn browser(&self) -> Subscriber {
        self.browser_with_key(&self.description().vapid_public_key)
    }

    pub fn browser_with_key(&self, public_key: &str) -> Subscriber {
        self.push.subscribe(&URL_SAFE_NO_PAD.decode(public_key).expect("base64url"))
    }

    /// A browser whose push service gives every push this answer.
    pub fn browser_answering(&self, answer: Answer) -> Subscriber {
        let browser = self.browser();
        self.push.always(&browser.endpoint, answer);
        browser
    }

    /// A message of this test's tenant to that browser.
    pub fn message(&self, id: &str, to: &Subscriber, payload: impl Into<Value>) -> Value {
        json!({"tenant": self.tenant, "id": id, "to": {"web_push": to.json()}, "payload": payload.into()})
    }

    /// The same with further fields, or others.
    pub fn message_with(&self, id: &str, to: &Subscriber, fields: &Value) -> Value {
        with_fields(self.message(id, to, "hello"), fields)
    }

    pub async fn send(&self, message: &Value) {
        self.send_to(&self.queues().ingest, message).await;
    }

    pub async fn send_body(&self, body: &str) {
        self.put_on(&self.queues().ingest, &self.tenant, body).await;
    }

    /// Puts a message on a queue, in the group of its tenant.
    pub async fn send_to(&self, queue_url: &str, message: &Value) {
        let tenant = message["tenant"].as_str().unwrap_or(&self.tenant);
        self.put_on(queue_url, tenant, &message.to_string()).await;
    }

    async fn put_on(&self, queue_url: &str, group: &str, body: &str) {
        let sent = self.sqs.send_message().queue_url(queue_url).message_group_id(group).message_body(body);
        sent.send().await.expect("the queue takes it");
    }

    /// Puts messages on the ingest queue, ten at a time.
    pub async fn send_all(&self, bodies: impl IntoIterator<Item = String>) {
        let bodies: Vec<String> = bodies.into_iter().collect();
        for ten in bodies.chunks(10) {
            let entry = |(at, body): (usize, &String)| {
                let entry = SendMessageBatchRequestEntry::builder().id(at.to_string()).message_body(body);
                entry.message_group_id(&self.tenant).build().expect("an entry has its id and its body")
            };
            let entries = ten.iter().enumerate().map(entry).collect();
            let sent = self.sqs.send_message_batch().queue_url(&self.queues().ingest);
            let sent = sent.set_entries(Some(entries)).send().await.expect("the queue takes them");
            assert!(sent.failed().is_empty());
        }
    }

    /// Receives messages until there are `expected`, and leaves them hidden for an hour.
    pub async fn receive(&self, queue_url: &str, expected: usize) -> Vec<MessageOnQueue> {
        self.receive_hiding(queue_url, expected, 3_600).await
    }

    /// The same, hidden for this number of seconds.
    pub async fn receive_hiding(
        &self,
        queue_url: &str,
        expected: usize,
        seconds: i32,
    ) -> Vec<MessageOnQueue> {
        use MessageSystemAttributeName::MessageGroupId;
        let mut found = Vec::new();
        while found.len() < expected {
            let receive = self.sqs.receive_message().queue_url(queue_url).max_number_of_messages(10);
            let receive = receive.message_system_attribute_names(MessageGroupId).wait_time_seconds(20);
            let receive = receive.visibility_timeout(seconds);
            let messages = receive.send().await.expect("the queue answers").messages.unwrap_or_default();
            assert!(!messages.is_empty(), "{} of {expected} messages", found.len());
            found.extend(messages.into_iter().map(|message| MessageOnQueue {
                group: message.attributes.and_then(|mut it| it.remove(&MessageGroupId)).unwrap_or_default(),
                body: message.body.unwrap_or_default(),
            }));
        }
        found
    }

    /// Takes what lies on the queue of events.
    pub async fn take_events(&self) -> Vec<Value> {
        self.take(self.queues().events.as_deref().expect("the stack has a queue of events")).await
    }

    /// Takes what lies on a queue, which is JSON.
    pub async fn take(&self, url: &str) -> Vec<Value> {
        let mut taken = Vec::new();
        loop {
            let received = self.sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
            let messages = received.expect("SQS answers").messages.unwrap_or_default();
            if messages.is_empty() {
                return taken;
            }
            for message in messages {
                taken.push(parsed(message.body().expect("a body")));
                let handle = message.receipt_handle().expect("a handle");
                let deleted = self.sqs.delete_message().queue_url(url).receipt_handle(handle).send().await;
                deleted.expect("it is deleted");
            }
        }
    }
}
