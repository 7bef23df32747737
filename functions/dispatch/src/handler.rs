//! From an SQS event to a batch, and from its result to a partial batch response. And from a schedule's event, or that of a
//! deployment, to publishing the public keys.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsMessage};
use lambda_runtime::{Context, Error, LambdaEvent};
use redial_adapters::environment::{DispatchStart, InitError};
use redial_adapters::outbox_sqs::QueueUrls;
use redial_adapters::retries::within_invocation;
use redial_core::body::Body;
use redial_core::time::Timestamp;
use redial_engine::deliver::{Incoming, Invocation, Settings, deliver};
use redial_engine::ports::{Environment, Receipt};
use serde::Deserialize;

/// An event of either kind. No untagged enum: that would copy each batch once more.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event {
    /// A mapping's.
    #[serde(rename = "Records")]
    records: Option<Vec<SqsMessage>>,
    /// A schedule's, or a deployment's.
    publish: Option<Publish>,
}

/// What is published.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Publish {
    /// The public halves of the VAPID keys.
    VapidKeys,
}

/// Deals with one event. `Err` only where the event itself makes no sense: then all of it comes back; or where the keys could not be
/// published.
pub(crate) async fn handle<E: Environment>(
    env: &E,
    settings: &Settings,
    urls: &QueueUrls,
    publish: impl AsyncFnOnce() -> Result<(), Error>,
    event: LambdaEvent<Event>,
) -> Result<SqsBatchResponse, Error> {
    if let Some(Publish::VapidKeys) = event.payload.publish {
        publish().await?;
        return Ok(SqsBatchResponse::default());
    }
    let records = event.payload.records.ok_or("an event that is neither SQS's nor a schedule's")?;
    let invocation = invocation(&event.context);
    let batch = batch(records, urls)?;
    let handling = deliver(env, settings, &invocation, batch);
    Ok(partial(within_invocation(invocation.deadline, handling).await))
}

/// Deals with one event of a worker whose keys are out of reach: all of a batch comes back, later each time.
pub(crate) async fn set_back(
    start: &DispatchStart,
    urls: &QueueUrls,
    event: LambdaEvent<Event>,
    error: InitError,
) -> Result<SqsBatchResponse, Error> {
    let Some(records) = event.payload.records else { return Err(error) };
    let batch = batch(records, urls)?;
    Ok(partial(start.set_back(&batch, &error).await))
}

fn batch(records: Vec<SqsMessage>, urls: &QueueUrls) -> Result<Vec<Incoming>, Error> {
    records.into_iter().map(|record| incoming(record, urls)).collect()
}

fn partial(back: Vec<String>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = back.into_iter().map(failure).collect();
    response
}

/// The request id is new for each invocation: what makes a lease token.
fn invocation(context: &Context) -> Invocation {
    let deadline = i64::try_from(context.deadline).unwrap_or(i64::MAX);
    Invocation { lease_token: context.request_id.clone(), deadline: Timestamp::from_ms(deadline) }
}

fn incoming(record: SqsMessage, urls: &QueueUrls) -> Result<Incoming, Error> {
    let message_id = record.message_id.filter(|id| !id.is_empty()).ok_or("an SQS record has no messageId")?;
    let arn = record.event_source_arn.unwrap_or_default();
    let (lane, kind) = urls.source_of_arn(&arn).ok_or_else(|| {
        format!("{arn} is none of the queues in INGEST_QUEUE_URL, BULK_QUEUE_URL, RETRY_QUEUE_URL, RETRY_BULK_QUEUE_URL")
    })?;
    let attribute = |name: &str| record.attributes.get(name).and_then(|text| text.parse::<i64>().ok());
    Ok(Incoming {
        receipt: Receipt { lane, kind, handle: record.receipt_handle.unwrap_or_default() },
        body: Body::new(record.body.unwrap_or_default()),
        sent: Timestamp::from_ms(attribute("SentTimestamp").unwrap_or_default()),
        receive_count: attribute("ApproximateReceiveCount").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
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
    use std::collections::HashMap;
    use std::time::Duration;

    use redial_core::access::TokenKeys;
    use redial_core::endpoint::{HashKeys, PushHosts};
    use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
    use redial_core::ledger::State;
    use redial_core::reason::Reason;
    use redial_core::route::WaitSettings;
    use redial_engine::ports::Clock;
    use redial_testkit::memory::World;

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

    fn settings() -> Settings {
        Settings {
            waits: WaitSettings::default(),
            push_hosts: PushHosts::parse("push.example").expect("valid"),
            egress_allow: Vec::new(),
            hash_keys: HashKeys::parse("k1:0123456789abcdef").expect("valid"),
            lease_margin: Duration::from_secs(10),
            token_keys: TokenKeys::new([("k1".to_owned(), [7; TokenKeys::KEY_BYTES])]).expect("valid"),
            switched_off_after: Duration::from_secs(86_400),
        }
    }

    fn record(n: usize, body: String) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.message_id = Some(format!("sqs-{n}"));
        record.receipt_handle = Some(format!("receipt-{n}"));
        record.body = Some(body);
        record.event_source_arn = Some("arn:aws:sqs:eu-central-1:1:ingest".to_owned());
        let attributes = [("SentTimestamp", "1800000000000"), ("ApproximateReceiveCount", "1")];
        record.attributes =
            HashMap::from(attributes.map(|(name, value)| (name.to_owned(), value.to_owned())));
        record
    }

    fn message(n: usize) -> String {
        format!(
            r#"{{"tenant":"acme","id":"m{n}","to":{{"web_push":{{"endpoint":"https://push.example/m{n}","keys":{KEYS}}}}},"payload":"hello"}}"#
        )
    }

    fn batch(records: Vec<SqsMessage>) -> Event {
        Event { records: Some(records), publish: None }
    }

    /// Nothing is published.
    async fn batches_only() -> Result<(), Error> {
        panic!("a batch publishes nothing")
    }

    #[tokio::test]
    async fn a_schedule_s_event_publishes_the_public_keys_and_sends_nothing() {
        let world = world();
        let handle = async |publish: Result<(), Error>, text: &str| {
            let event = serde_json::from_str(text).expect("an event");
            let event = LambdaEvent::new(event, Context::default());
            handle(&world, &settings(), &urls(), async || publish, event).await
        };
        let event = r#"{"publish":"vapid_keys"}"#;
        let response = handle(Ok(()), event).await.expect("published");
        assert!(response.batch_item_failures.is_empty());
        assert!(handle(Err("no secret".into()), event).await.is_err(), "Lambda is to try it again");
        assert!(handle(Err("is not asked for".into()), r#"{"Records":[]}"#).await.is_ok());
        assert!(handle(Ok(()), "{}").await.is_err());
        assert!(serde_json::from_str::<Event>(r#"{"publish":"private_keys"}"#).is_err());
    }

    async fn invoke(world: &World, request_id: &str, records: Vec<SqsMessage>) -> Vec<String> {
        let event = batch(records);
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        context.deadline = u64::try_from(world.now().as_ms()).expect("after 1970") + 30_000;
        let response =
            handle(world, &settings(), &urls(), batches_only, LambdaEvent::new(event, context)).await;
        let failures = response.expect("the event makes sense").batch_item_failures;
        failures.into_iter().map(|failure| failure.item_identifier).collect()
    }

    fn state(world: &World, n: usize) -> Option<State> {
        let key = DeliveryKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: DeliveryId::parse(&format!("m{n}")).expect("valid"),
        };
        world.state().ledger.get(&key).map(|entry| entry.state)
    }

    fn world() -> World {
        World::at(Timestamp::from_secs(1_800_000_000))
    }

    #[tokio::test]
    async fn of_ten_a_malformed_one_is_stored_one_that_panics_comes_back_alone_and_is_then_sent() {
        let world = world();
        world.state().panicking.insert("https://push.example/m4".to_owned());
        let mut records: Vec<_> = (0..9).map(|n| record(n, message(n))).collect();
        records.push(record(9, "{".to_owned()));

        assert_eq!(invoke(&world, "first", records.clone()).await, ["sqs-4"]);
        let come_back = world.state().come_back.clone();
        assert!(matches!(come_back.as_slice(), [(receipt, 5..=10)] if receipt.handle == "receipt-4"));
        assert_eq!(world.state().dead_letters.get(&Reason::Malformed), Some(&1));

        assert!(invoke(&world, "second", vec![records[4].clone()]).await.is_empty());
        for n in 0..9 {
            assert_eq!(state(&world, n), Some(State::Sent), "{n}");
        }
        assert_eq!(world.state().sent.len(), 9, "nothing twice");
    }

    #[tokio::test]
    async fn an_invocation_without_time_for_an_attempt_admits_nothing() {
        let world = world();
        let event = batch(vec![record(0, message(0))]);
        let mut context = Context::default();
        context.request_id = "late".to_owned();
        context.deadline = u64::try_from(world.now().as_ms()).expect("after 1970") + 5_000;
        let response =
            handle(&world, &settings(), &urls(), batches_only, LambdaEvent::new(event, context)).await;
        assert_eq!(response.expect("the event makes sense").batch_item_failures.len(), 1);
        assert!(world.state().ledger.is_empty());
        assert!(matches!(world.state().come_back.as_slice(), [(_, 0..=5)]));
    }

    #[tokio::test]
    async fn a_record_of_an_unknown_queue_or_without_an_id_fails_the_event() {
        let world = world();
        let mut strange = record(0, message(0));
        strange.event_source_arn = Some("arn:aws:sqs:eu-central-1:1:other".to_owned());
        let mut nameless = record(0, message(0));
        nameless.message_id = Some(String::new());
        for bad in [strange, nameless] {
            let event = LambdaEvent::new(batch(vec![bad]), Context::default());
            assert!(handle(&world, &settings(), &urls(), batches_only, event).await.is_err());
        }
        assert!(world.state().sent.is_empty());
    }
}
