//! The queues that Redial writes to, on SQS.
//!
//! Messages go in batches of up to ten and 1 MiB. A call that succeeds may have failed entries: each message has an answer of its
//! own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue, SendMessageBatchRequestEntry,
};
use futures_util::future::join_all;
use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::queue::{Attribute, Outgoing, Queue, fit_for_a_queue};
use redial_engine::ports::{Outbox, PortError, Receipt};

use crate::aws_error;
use crate::on_first_use::OnFirstUse;

const SEND: &str = "SendMessageBatch";
const CHANGE: &str = "ChangeMessageVisibilityBatch";

/// SendMessageBatch's limits (API reference).
const MOST_ENTRIES: usize = 10;

/// The type of an attribute that is a text.
const TEXT: &str = "String";
const MOST_BYTES: usize = 1_048_576;

/// The URLs of a stack's queues: the producers' and the retry queues of both lanes, and the references to dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueUrls {
    pub ingest: String,
    pub bulk: String,
    pub retry: String,
    pub retry_bulk: String,
    pub dead_letters: String,
}

impl QueueUrls {
    pub fn retry_of(&self, lane: Lane) -> &str {
        match lane {
            Lane::Transactional => &self.retry,
            Lane::Bulk => &self.retry_bulk,
        }
    }

    fn source(&self, lane: Lane, kind: QueueKind) -> &str {
        match (kind, lane) {
            (QueueKind::Ingest, Lane::Transactional) => &self.ingest,
            (QueueKind::Ingest, Lane::Bulk) => &self.bulk,
            (QueueKind::Retry, lane) => self.retry_of(lane),
        }
    }

    /// Which of dispatch's queues an event source is, by the last part of its ARN.
    pub fn source_of_arn(&self, arn: &str) -> Option<(Lane, QueueKind)> {
        let name = arn.rsplit(':').next()?;
        let is = |url: &str| url.rsplit('/').next() == Some(name);
        Lane::ALL
            .into_iter()
            .flat_map(|lane| [(lane, QueueKind::Ingest), (lane, QueueKind::Retry)])
            .find(|(lane, kind)| is(self.source(*lane, *kind)))
    }
}

/// A queue as its ARN names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueArn {
    name: String,
    account: String,
    region: String,
}

impl QueueArn {
    /// Reads `arn:<partition>:sqs:<region>:<account>:<name>`; `None` for anything else, and for a FIFO queue.
    pub fn parse(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.split(':').collect();
        let ["arn", _, "sqs", region, account, name] = parts.as_slice() else { return None };
        let is_account = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
        let is_name = (1..=80).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let whole = !region.is_empty() && is_account && is_name;
        let [name, account, region] = [name, account, region].map(|part| (*part).to_owned());
        whole.then_some(Self { name, account, region })
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// Whether an event source is this queue, by the last part of its ARN.
    pub fn is_source(&self, arn: &str) -> bool {
        arn.rsplit(':').next() == Some(self.name.as_str())
    }

    /// Its URL, derived from the URL of one of the stack's queues: both are in one region, so only account and name differ. Requesting it
    /// from SQS would need a permission from the other account.
    fn url_beside(&self, own: &str) -> String {
        let host = own.rsplitn(3, '/').nth(2).unwrap_or(own);
        format!("{host}/{}/{}", self.account, self.name)
    }
}

#[derive(Clone, Debug)]
pub struct SqsOutbox {
    client: OnFirstUse<Client>,
    urls: QueueUrls,
    /// The URL of the queue where events are announced.
    events: Option<String>,
    /// The URL of the producers' queue of events, where events are relayed to it.
    producers_events: Option<String>,
}

impl SqsOutbox {
    pub fn new(client: impl Into<OnFirstUse<Client>>, urls: QueueUrls) -> Self {
        Self { client: client.into(), urls, events: None, producers_events: None }
    }

    /// With this queue of events.
    #[must_use]
    pub fn with_events(mut self, events: Option<QueueArn>) -> Self {
        self.events = events.map(|queue| queue.url_beside(&self.urls.ingest));
        self
    }

    /// With this queue of the producers', to which events are relayed.
    #[must_use]
    pub fn relaying_to(mut self, producers_events: Option<&QueueArn>) -> Self {
        self.producers_events = producers_events.map(|queue| queue.url_beside(&self.urls.ingest));
        self
    }

    fn url_of(&self, queue: Queue) -> Result<&str, PortError> {
        match queue {
            Queue::Ingest(lane) => Ok(self.urls.source(lane, QueueKind::Ingest)),
            Queue::Retry(lane) => Ok(self.urls.retry_of(lane)),
            Queue::DeadLetters => Ok(&self.urls.dead_letters),
            Queue::Events | Queue::ProducersEvents => {
                let url = if queue == Queue::Events { &self.events } else { &self.producers_events };
                url.as_deref().ok_or_else(|| aws_error::of_code(SEND, "NoQueueOfEvents"))
            }
        }
    }

    async fn send_batch(
        &self,
        queue: Queue,
        batch: &[(usize, Outgoing)],
    ) -> Result<SendMessageBatchOutput, PortError> {
        let url = self.url_of(queue)?;
        let entry = |(at, message): &(usize, Outgoing)| {
            SendMessageBatchRequestEntry::builder()
                .id(at.to_string())
                .message_body(&message.body)
                .delay_seconds(i32::from(message.delay.get()))
                .set_message_group_id(message.tenant.as_ref().map(ToString::to_string))
                .set_message_attributes(message.attribute.map(attributes))
                .build()
                .expect("an entry has its id and its body")
        };
        let entries = batch.iter().map(entry).collect();
        let send = self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send();
        let sent = Box::pin(send).await;
        sent.map_err(|error| aws_error::of_call(SEND, &error))
    }
}

fn attributes(attribute: Attribute) -> HashMap<String, MessageAttributeValue> {
    let value = MessageAttributeValue::builder().data_type(TEXT).string_value(attribute.value());
    let value = value.build().expect("an attribute has a type");
    HashMap::from([(attribute.name().to_owned(), value)])
}

/// What was parsed may be written with a character that its body had as an escape.
fn fit(message: Outgoing) -> Outgoing {
    match fit_for_a_queue(&message.body) {
        Cow::Owned(body) => Outgoing { body, ..message },
        Cow::Borrowed(_) => message,
    }
}

/// Its body and attributes, which SQS counts together, in bytes.
fn length(message: &Outgoing) -> usize {
    let of_attribute = |it: Attribute| it.name().len() + TEXT.len() + it.value().len();
    message.body.len() + message.attribute.map_or(0, of_attribute)
}

/// What became of the message of this id.
fn answer(output: &SendMessageBatchOutput, at: usize) -> Result<(), PortError> {
    let is_it = |id: &str| id.parse() == Ok(at);
    if output.successful().iter().any(|entry| is_it(entry.id())) {
        return Ok(());
    }
    let failed = output.failed().iter().find(|entry| is_it(entry.id()));
    Err(aws_error::of_code(SEND, failed.map_or("NotAnswered", |entry| entry.code())))
}

impl Outbox for SqsOutbox {
    fn has_events(&self) -> bool {
        self.events.is_some()
    }

    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let mut answers: Vec<Result<(), PortError>> = vec![Ok(()); messages.len()];
        let batches = batches(messages.into_iter().map(fit).collect());
        let calls = batches.iter().map(|(queue, batch)| self.send_batch(*queue, batch));
        for (sent, (_, batch)) in join_all(calls).await.into_iter().zip(&batches) {
            for (at, _) in batch {
                answers[*at] = sent.as_ref().map_err(Clone::clone).and_then(|output| answer(output, *at));
            }
        }
        answers
    }

    async fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) {
        let mut by_queue: BTreeMap<&str, Vec<(Receipt, u32)>> = BTreeMap::new();
        for (receipt, secs) in receipts {
            by_queue.entry(self.urls.source(receipt.lane, receipt.kind)).or_default().push((receipt, secs));
        }
        let calls = by_queue.iter().flat_map(|(url, receipts)| {
            receipts.chunks(MOST_ENTRIES).map(move |chunk| {
                let entries = chunk.iter().enumerate().map(|(at, (receipt, secs))| {
                    ChangeMessageVisibilityBatchRequestEntry::builder()
                        .id(at.to_string())
                        .receipt_handle(&receipt.handle)
                        .visibility_timeout(i32::try_from(*secs).unwrap_or(i32::MAX))
                        .build()
                        .expect("an entry has its id and its handle")
                });
                self.client
                    .change_message_visibility_batch()
                    .queue_url(*url)
                    .set_entries(Some(entries.collect()))
                    .send()
            })
        });
        for done in join_all(calls).await {
            let failed = match done {
                Ok(output) => output.failed().first().map(|entry| aws_error::of_code(CHANGE, entry.code())),
                Err(error) => Some(aws_error::of_call(CHANGE, &error)),
            };
            if let Some(error) = failed {
                tracing::warn!(event = "visibility_unchanged", %error, "cannot change the visibility of messages; they return after the queue's visibility time-out");
            }
        }
    }
}

/// Divides messages into batches that SQS takes: one queue, ten entries, 1 MiB.
fn batches(messages: Vec<Outgoing>) -> Vec<(Queue, Vec<(usize, Outgoing)>)> {
    let mut open: BTreeMap<Queue, (usize, Vec<(usize, Outgoing)>)> = BTreeMap::new();
    let mut full = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        let queue = message.queue;
        let (bytes, batch) = open.entry(queue).or_default();
        if !batch.is_empty() && (batch.len() == MOST_ENTRIES || *bytes + length(&message) > MOST_BYTES) {
            full.push((queue, std::mem::take(batch)));
            *bytes = 0;
        }
        *bytes += length(&message);
        batch.push((at, message));
    }
    full.extend(open.into_iter().map(|(queue, (_, batch))| (queue, batch)));
    full
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use http_body_util::Full;
    use redial_core::route::DelaySeconds;
    use redial_core::targets::Targets;
    use serde_json::{Value, json};

    use super::*;
    use crate::receiver::{Receiver, sqs_at};

    /// Of queues at this beginning of a URL.
    fn urls(own: &str) -> QueueUrls {
        let [ingest, bulk, retry, retry_bulk, dead_letters] =
            ["ingest", "bulk", "retry", "retry-bulk", "dlq"].map(|name| format!("{own}/123456789012/{name}"));
        QueueUrls { ingest, bulk, retry, retry_bulk, dead_letters }
    }

    fn outgoing(queue: Queue, bytes: usize) -> Outgoing {
        Outgoing { queue, body: "x".repeat(bytes), delay: DelaySeconds::ZERO, tenant: None, attribute: None }
    }

    #[test]
    fn a_batch_has_one_queue_at_most_ten_entries_and_at_most_a_mebibyte() {
        let retry = Queue::Retry(Lane::Transactional);
        let mut messages: Vec<_> = (0..23).map(|_| outgoing(retry, 10)).collect();
        messages.extend((0..3).map(|_| outgoing(Queue::DeadLetters, 600_000)));
        let batches = batches(messages);
        let mut seen: Vec<usize> = Vec::new();
        for (queue, batch) in &batches {
            assert!(batch.len() <= 10);
            assert!(batch.iter().map(|(_, message)| message.body.len()).sum::<usize>() <= MOST_BYTES);
            assert!(batch.iter().all(|(_, message)| message.queue == *queue));
            seen.extend(batch.iter().map(|(at, _)| at));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..26).collect::<Vec<_>>());
        assert_eq!(batches.len(), 6);
    }

    #[test]
    fn an_event_source_is_recognised_by_its_queue_name() {
        let urls = urls("https://sqs.eu-central-1.amazonaws.com");
        let of = |name: &str| urls.source_of_arn(&format!("arn:aws:sqs:eu-central-1:123456789012:{name}"));
        assert_eq!(of("ingest"), Some((Lane::Transactional, QueueKind::Ingest)));
        assert_eq!(of("retry-bulk"), Some((Lane::Bulk, QueueKind::Retry)));
        assert_eq!(of("dlq"), None);
    }

    #[test]
    fn the_url_of_a_queue_of_another_account_needs_no_call() {
        let arn = QueueArn::parse("arn:aws-cn:sqs:cn-north-1:210987654321:app-events").expect("an ARN");
        for own in ["https://sqs.cn-north-1.amazonaws.com.cn", "http://127.0.0.1:4566"] {
            assert_eq!(arn.url_beside(&urls(own).ingest), format!("{own}/210987654321/app-events"));
        }
    }

    /// Another account permits sending, and need not permit other calls.
    #[tokio::test]
    async fn an_event_to_another_account_s_queue_is_one_call_that_sends() {
        let calls: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let heard = calls.clone();
        let receiver = Receiver::plain_http(move |request| {
            let target = request.headers()["x-amz-target"].to_str().expect("text").to_owned();
            let body = serde_json::from_slice(request.body()).expect("JSON");
            heard.lock().expect("no panic").push((target, body));
            let sent =
                json!({"Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": ""}], "Failed": []});
            async move { io::Result::Ok(http::Response::new(Full::from(sent.to_string()))) }
        })
        .await;
        let own = format!("http://127.0.0.1:{}", receiver.port);
        let events = QueueArn::parse("arn:aws:sqs:us-east-1:210987654321:app-events");
        let outbox = SqsOutbox::new(sqs_at(receiver.port), urls(&own)).with_events(events);
        let rest = Attribute::Targets(Targets { bus: true, callbacks: true, ..Targets::default() });
        let body = format!("{{\"ref\":\"{}\u{fffe}\u{ffff}\"}}", '\u{ef}');
        let event = Outgoing { attribute: Some(rest), body, ..outgoing(Queue::Events, 0) };
        let sent = outbox.send(vec![event]).await;
        assert_eq!(sent, [Ok(())]);
        let calls = calls.lock().expect("no panic");
        let [(target, body)] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!(target, "AmazonSQS.SendMessageBatch");
        assert_eq!(body["QueueUrl"], format!("{own}/210987654321/app-events"));
        assert_eq!(body["Entries"][0]["MessageBody"], r#"{"ref":"ï\ufffe\uffff"}"#);
        let attributes = &body["Entries"][0]["MessageAttributes"];
        assert_eq!(*attributes, json!({"targets": {"DataType": "String", "StringValue": "bus,callbacks"}}));
    }

    #[test]
    fn the_queue_of_events_is_a_standard_queue_s_arn() {
        let read = QueueArn::parse("arn:aws-cn:sqs:cn-north-1:123456789012:app-events");
        let [name, account, region] = ["app-events", "123456789012", "cn-north-1"].map(str::to_owned);
        let whole = QueueArn { name, account, region };
        assert_eq!(read, Some(whole));
        for bad in [
            "",
            "https://sqs.eu-central-1.amazonaws.com/123456789012/app-events",
            "arn:aws:sns:eu-central-1:123456789012:app-events",
            "arn:aws:sqs:eu-central-1:12:app-events",
            "arn:aws:sqs::123456789012:app-events",
            "arn:aws:sqs:eu-central-1:123456789012:app-events.fifo",
        ] {
            assert_eq!(QueueArn::parse(bad), None, "{bad}");
        }
    }
}
