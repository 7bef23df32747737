//! From an SQS event to a batch, and from its result to a partial batch response. And from a schedule's event, or that of a
//! deployment, to publishing the public keys.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use lambda_runtime::{Context, Error, LambdaEvent};
use rand::RngExt as _;
use redial_adapters::outbox_sqs::QueueUrls;
use redial_adapters::retries::within_invocation;
use redial_adapters::system::System;
use redial_core::body::Body;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;
use redial_engine::deliver::{Incoming, Invocation};
use redial_engine::ports::{Randomness as _, Receipt};
use serde::Deserialize;

/// An event of either kind. No untagged enum: that would copy each batch once more.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event {
    /// From an event source mapping.
    #[serde(rename = "Records")]
    records: Option<Vec<Record>>,
    /// From a schedule, or a deployment.
    publish: Option<Publish>,
}

/// Of a message what is needed: reading the rest would cost as much again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<String>,
    attributes: Option<Attributes>,
    message_attributes: Option<MessageAttributes>,
}

/// Numbers, which SQS writes as text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Attributes {
    sent_timestamp: Option<String>,
    approximate_receive_count: Option<String>,
}

/// Of the producer's own those that Redial reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MessageAttributes {
    traceparent: Option<MessageAttribute>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MessageAttribute {
    string_value: Option<String>,
}

impl MessageAttributes {
    /// What is invalid is no trace.
    fn traceparent(self) -> Option<Traceparent> {
        Traceparent::from_header(&self.traceparent?.string_value?)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Publish {
    /// The public halves of the VAPID keys.
    VapidKeys,
}

/// Deals with one event. `Err` only where the event itself makes no sense: then all of it comes back; or where the keys could not be
/// published. `deliver` returns the SQS MessageIds of those that must come back.
pub(crate) async fn handle(
    urls: &QueueUrls,
    deliver: impl AsyncFnOnce(Invocation, Vec<Incoming>) -> Vec<String>,
    publish: impl AsyncFnOnce() -> Result<(), Error>,
    event: LambdaEvent<Event>,
) -> Result<SqsBatchResponse, Error> {
    let mut response = SqsBatchResponse::default();
    if let Some(Publish::VapidKeys) = event.payload.publish {
        publish().await?;
        return Ok(response);
    }
    let records = event.payload.records.ok_or("an event that is neither SQS's nor a schedule's")?;
    let invocation = invocation(&event.context);
    let batch: Vec<Incoming> =
        records.into_iter().map(|record| incoming(record, urls)).collect::<Result<_, _>>()?;
    let back = within_invocation(invocation.deadline, deliver(invocation, batch)).await;
    response.batch_item_failures = back.into_iter().map(failure).collect();
    Ok(response)
}

/// A lease token names the request, and is no other invocation's, even if its caller gives two the same request id: the batch of a
/// token lists what was sent under it.
fn invocation(context: &Context) -> Invocation {
    let deadline = deadline(context);
    let lease_token = format!("{}.{:08x}", context.request_id, System.rng().random::<u32>());
    Invocation { lease_token, deadline }
}

/// When Lambda stops the function.
pub(crate) fn deadline(context: &Context) -> Timestamp {
    Timestamp::from_ms(i64::try_from(context.deadline).unwrap_or(i64::MAX))
}

fn incoming(record: Record, urls: &QueueUrls) -> Result<Incoming, Error> {
    let message_id = record.message_id.filter(|id| !id.is_empty()).ok_or("an SQS record has no messageId")?;
    let arn = record.event_source_arn.unwrap_or_default();
    let (lane, kind) = urls.source_of_arn(&arn).ok_or_else(|| {
        format!("{arn} is none of the queues in INGEST_QUEUE_URL, BULK_QUEUE_URL, RETRY_QUEUE_URL, RETRY_BULK_QUEUE_URL")
    })?;
    let Attributes { sent_timestamp, approximate_receive_count } = record.attributes.unwrap_or_default();
    // A message whose age is unknown would be over at once, or never.
    let sent_ms = sent_timestamp
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("the SQS record {message_id} has no SentTimestamp in milliseconds"))?;
    Ok(Incoming {
        receipt: Receipt { lane, kind, handle: record.receipt_handle.unwrap_or_default() },
        body: Body::new(record.body.unwrap_or_default()),
        sent: Timestamp::from_ms(sent_ms),
        receive_count: approximate_receive_count.and_then(|text| text.parse().ok()).unwrap_or(1),
        traceparent: record.message_attributes.and_then(MessageAttributes::traceparent),
        message_id,
    })
}

fn failure(message_id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = message_id;
    failure
}

#[cfg(test)]
mod tests {
    use redial_core::ledger::State;
    use redial_core::reason::Reason;
    use redial_engine::ports::Clock;
    use redial_memory::{self as memory, DispatchWorker, Memory};

    use super::*;

    const KEYS: &str = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;

    fn urls() -> QueueUrls {
        let url = |name: &str| format!("https://sqs.example/1/{name}");
        QueueUrls {
            ingest: url("ingest"),
            bulk: url("bulk"),
            retry: url("retry"),
            retry_bulk: url("retry-bulk"),
            dead_letters: url("dlq"),
        }
    }

    fn record(n: usize, body: String) -> Record {
        Record {
            message_id: Some(format!("sqs-{n}")),
            receipt_handle: Some(format!("receipt-{n}")),
            body: Some(body),
            event_source_arn: Some("arn:aws:sqs:eu-central-1:1:ingest".to_owned()),
            attributes: Some(Attributes {
                sent_timestamp: Some("1800000000000".to_owned()),
                approximate_receive_count: Some("1".to_owned()),
            }),
            message_attributes: None,
        }
    }

    #[test]
    fn a_record_is_read_as_lambda_writes_it() {
        let event = r#"{"Records":[{"messageId":"sqs-3","receiptHandle":"receipt-3","body":"{\"a\":\"\\u00e9\"}",
            "attributes":{"ApproximateReceiveCount":"7","AWSTraceHeader":"Root=1","SentTimestamp":"1523232000123",
            "SenderId":"AIDAIENQZJOLO23YVJ4VO","ApproximateFirstReceiveTimestamp":"1523232000001"},
            "messageAttributes":{},"md5OfBody":"e4e68fb7bd0e697a0ae8f1bb342846b3","eventSource":"aws:sqs",
            "eventSourceARN":"arn:aws:sqs:eu-central-1:1:ingest","awsRegion":"eu-central-1"},
            {"messageId":"sqs-4","attributes":{"SentTimestamp":"1523232000124"},"eventSourceARN":"arn:aws:sqs:eu-central-1:1:ingest"}]}"#;
        let event: Event = serde_json::from_str(event).expect("an event");
        let read = event.records.into_iter().flatten().map(|record| incoming(record, &urls()).expect("read"));
        let [first, bare] = <[Incoming; 2]>::try_from(read.collect::<Vec<_>>()).expect("two");
        assert_eq!((first.message_id.as_str(), first.receipt.handle.as_str()), ("sqs-3", "receipt-3"));
        assert_eq!((first.sent, first.receive_count), (Timestamp::from_ms(1_523_232_000_123), 7));
        assert_eq!(first.body.expose(), r#"{"a":"\u00e9"}"#);
        assert_eq!((bare.sent, bare.receive_count), (Timestamp::from_ms(1_523_232_000_124), 1));
        assert_eq!((first.traceparent, bare.traceparent), (None, None));
    }

    #[test]
    fn a_record_without_its_time_is_refused_because_a_message_of_unknown_age_would_expire() {
        for attributes in ["null", "{}", r#"{"SentTimestamp":null}"#, r#"{"SentTimestamp":"2026-11-28"}"#] {
            let record = format!(
                r#"{{"messageId":"m","eventSourceARN":"arn:aws:sqs:eu-central-1:1:ingest","attributes":{attributes}}}"#
            );
            let record: Record = serde_json::from_str(&record).expect("a record");
            let refused = incoming(record, &urls()).expect_err("refused").to_string();
            assert_eq!(refused, "the SQS record m has no SentTimestamp in milliseconds", "{attributes}");
        }
    }

    #[test]
    fn a_trace_is_read_of_an_attribute_and_an_invalid_one_is_none() {
        let of = |attribute: &str| {
            let arn = "arn:aws:sqs:eu-central-1:1:ingest";
            let record = format!(
                r#"{{"messageId":"m","eventSourceARN":"{arn}","attributes":{{"SentTimestamp":"0"}},"messageAttributes":{{"x":{{"dataType":"String"}}{attribute}}}}}"#
            );
            let record: Record = serde_json::from_str(&record).expect("a record");
            incoming(record, &urls()).expect("read").traceparent.map(|it| it.to_string())
        };
        let attribute = |value: &str| {
            format!(r#","traceparent":{{"dataType":"String","stringValue":{value},"binaryListValues":[]}}"#)
        };
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(of(&attribute(&format!("\"{valid}\""))).as_deref(), Some(valid));
        for invalid in [String::new(), attribute("\"00-1\""), attribute("null")] {
            assert_eq!(of(&invalid), None, "{invalid}");
        }
    }

    fn message(n: usize) -> String {
        format!(
            r#"{{"tenant":"acme","id":"m{n}","to":{{"web_push":{{"endpoint":"https://push.example/m{n}","keys":{KEYS}}}}},"payload":"hello"}}"#
        )
    }

    fn worker() -> (Memory, DispatchWorker) {
        let memory = Memory::at(Timestamp::from_secs(1_800_000_000));
        let worker = memory.dispatch(memory::dispatch_settings(), Default::default());
        (memory, worker)
    }

    /// One invocation with `secs` seconds left.
    async fn invoke(worker: &DispatchWorker, records: Vec<Record>, secs: u64) -> Result<Vec<String>, Error> {
        let mut context = Context::default();
        context.request_id = format!("invocation-{secs}");
        context.deadline = u64::try_from(worker.system.now().as_ms()).expect("after 1970") + secs * 1_000;
        let event = LambdaEvent::new(Event { records: Some(records), publish: None }, context);
        let deliver = async |invocation, batch| worker.deliver(&invocation, batch).await;
        let response = handle(&urls(), deliver, async || panic!("a batch publishes nothing"), event).await?;
        Ok(response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect())
    }

    #[tokio::test]
    async fn a_schedule_s_event_publishes_the_public_keys_and_sends_nothing() {
        let handle = async |publish: Result<(), Error>, text: &str| {
            let event = LambdaEvent::new(serde_json::from_str(text).expect("an event"), Context::default());
            handle(&urls(), async |_, batch| vec![format!("{batch:?}"); batch.len()], async || publish, event)
                .await
        };
        let event = r#"{"publish":"vapid_keys"}"#;
        let response = handle(Ok(()), event).await.expect("published");
        assert!(response.batch_item_failures.is_empty());
        assert!(handle(Err("no secret".into()), event).await.is_err(), "Lambda tries it again");
        assert!(handle(Err("not called".into()), r#"{"Records":[]}"#).await.is_ok());
        assert!(handle(Ok(()), "{}").await.is_err());
        assert!(serde_json::from_str::<Event>(r#"{"publish":"private_keys"}"#).is_err());
    }

    #[tokio::test]
    async fn in_a_batch_of_ten_only_the_message_that_panics_comes_back() {
        let (memory, worker) = worker();
        memory.state().panicking.insert("https://push.example/m4".to_owned());
        let mut records: Vec<_> = (0..9).map(|n| record(n, message(n))).collect();
        records.push(record(9, "{".to_owned()));

        assert_eq!(invoke(&worker, records.clone(), 30).await.expect("an SQS event"), ["sqs-4"]);
        let come_back = memory.state().come_back.clone();
        assert!(matches!(come_back.as_slice(), [(receipt, 5..=10)] if receipt.handle == "receipt-4"));
        assert_eq!(memory.state().dead_letters.get(&Reason::Malformed), Some(&1));

        let again = invoke(&worker, vec![records[4].clone()], 31).await;
        assert!(again.expect("an SQS event").is_empty());
        let state = memory.state();
        assert_eq!(state.ledger.len(), 9);
        assert!(state.ledger.values().all(|entry| entry.state == State::Sent), "{:?}", state.ledger);
        assert_eq!(state.sent.len(), 9, "nothing twice");
    }

    #[tokio::test]
    async fn an_invocation_without_time_for_an_attempt_admits_nothing() {
        let (memory, worker) = worker();
        let back = invoke(&worker, vec![record(0, message(0))], 5).await.expect("an SQS event");
        assert_eq!(back.len(), 1);
        assert!(memory.state().ledger.is_empty());
        assert!(matches!(memory.state().come_back.as_slice(), [(_, 0..=5)]));
    }

    #[tokio::test]
    async fn a_record_of_an_unknown_queue_or_without_an_id_fails_the_event() {
        let (memory, worker) = worker();
        let mut strange = record(0, message(0));
        strange.event_source_arn = Some("arn:aws:sqs:eu-central-1:1:other".to_owned());
        let mut nameless = record(0, message(0));
        nameless.message_id = Some(String::new());
        for bad in [strange, nameless] {
            assert!(invoke(&worker, vec![bad], 30).await.is_err());
        }
        assert!(memory.state().sent.is_empty());
    }
}
