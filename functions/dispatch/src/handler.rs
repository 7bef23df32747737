//! From an SQS event to a batch, and from its result to a partial batch response.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Context, Error, LambdaEvent};
use redial_adapters::outbox_sqs::QueueUrls;
use redial_core::deliver::{Body, Incoming, Invocation, Settings, deliver};
use redial_core::ports::{Environment, Receipt};
use redial_core::time::Timestamp;

/// Deals with one event. `Err` only where the event itself makes no sense: then all of it comes back.
pub(crate) async fn handle<E: Environment>(
    env: &E,
    settings: &Settings,
    urls: &QueueUrls,
    event: LambdaEvent<SqsEvent>,
) -> Result<SqsBatchResponse, Error> {
    let invocation = invocation(&event.context);
    let batch = event
        .payload
        .records
        .into_iter()
        .map(|record| incoming(record, urls))
        .collect::<Result<Vec<_>, _>>()?;
    let back = deliver(env, settings, &invocation, batch).await;
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = back.into_iter().map(failure).collect();
    Ok(response)
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
