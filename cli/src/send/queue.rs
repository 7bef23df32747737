//! Sends batches to a queue, with a result for each message.
//!
//! A call that succeeds may have failed entries: those are sent again, a few times with growing pauses, and then reported. A
//! call without an answer may have been carried out: a message with an id of its own is sent again, because the ledger
//! delivers it once; one that SQS assigns an id would be delivered twice, so its failure is reported instead. For the
//! same reason the SDK's own retries are off.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{
    Client,
    config::retry::RetryConfig,
    error::{ProvideErrorMetadata as _, SdkError},
    types::{BatchResultErrorEntry, SendMessageBatchRequestEntry},
};
use redial_core::identity::DeliveryId;
use serde::Serialize;

use super::{documents::MAX_MESSAGE_BYTES, outgoing::Outgoing};
use crate::{aws_error, stack::Target};

/// The entries of a batch (SendMessageBatch, API reference).
pub(crate) const MOST_ENTRIES: usize = 10;

/// Before each try. A throttled queue gets seconds; a missing permission is reported soon.
const PAUSES_MS: [u64; 4] = [0, 200, 1000, 3000];

/// Batches messages in order, within the limits of SQS. An error follows the messages before it, and ends them.
pub(crate) fn batches<E>(
    messages: impl Iterator<Item = Result<Outgoing, E>>,
) -> impl Iterator<Item = Result<Vec<Outgoing>, E>> {
    let until_error = messages.scan(false, |has_failed, message| {
        let before = std::mem::replace(has_failed, message.is_err());
        (!before).then_some(message)
    });
    let mut messages = until_error.peekable();
    std::iter::from_fn(move || {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let fits = |next: &Outgoing, bytes| bytes == 0 || bytes + next.body.len() <= MAX_MESSAGE_BYTES;
        while batch.len() < MOST_ENTRIES
            && let Some(Ok(next)) = messages.next_if(|next| next.as_ref().is_ok_and(|next| fits(next, bytes)))
        {
            bytes += next.body.len();
            batch.push(next);
        }
        if batch.is_empty() { messages.next()?.err().map(Err) } else { Some(Ok(batch)) }
    })
}

/// A message that was sent, or refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Sent {
    pub(crate) line: u64,
    pub(crate) tenant: String,
    /// The correlation id; `None` for a message that was not sent and whose id SQS would have assigned.
    pub(crate) id: Option<DeliveryId>,
    /// The SQS MessageId.
    pub(crate) message_id: Option<String>,
    /// Whether its producer gave it an id, by which a second one is recognised.
    #[serde(skip)]
    pub(crate) has_own_id: bool,
    /// Why it was not sent.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    client: Client,
    url: String,
}

struct Refusal {
    words: String,
    again: bool,
}

impl Queue {
    pub(crate) fn new(target: &Target, url: &str) -> Self {
        let config =
            aws_sdk_sqs::config::Builder::from(&target.sdk).retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(config), url: url.to_owned() }
    }

    /// Sends a batch of at most [`MOST_ENTRIES`]; the results are in order.
    pub(crate) async fn send(&self, batch: Vec<Outgoing>) -> Vec<Sent> {
        let untried = |_: &Outgoing| Err(Refusal { words: "no answer".to_owned(), again: true });
        let mut results: Vec<Result<String, Refusal>> = batch.iter().map(untried).collect();
        for pause in PAUSES_MS {
            let is_open = |at: &usize| results[*at].as_ref().is_err_and(|refusal| refusal.again);
            let open: Vec<usize> = (0..batch.len()).filter(is_open).collect();
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            for (at, result) in open.iter().zip(self.attempt(&batch, &open).await) {
                results[*at] = result;
            }
        }
        let sent = |(message, result): (Outgoing, Result<String, Refusal>)| {
            let (message_id, error) = match result {
                Ok(message_id) => (Some(message_id), None),
                Err(refusal) => (None, Some(refusal.words)),
            };
            let Outgoing { line, tenant, id, .. } = message;
            let has_own_id = id.is_some();
            let id = id.or_else(|| message_id.as_deref().map(DeliveryId::from_sqs_message_id));
            Sent { line, tenant: tenant.to_string(), id, message_id, has_own_id, error }
        };
        batch.into_iter().zip(results).map(sent).collect()
    }

    /// One call with the messages at `open`.
    async fn attempt(&self, batch: &[Outgoing], open: &[usize]) -> Vec<Result<String, Refusal>> {
        let entries = open.iter().map(|at| entry(*at, &batch[*at])).collect();
        let call = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = match call.send().await {
            Ok(answer) => answer,
            Err(error) => {
                return open.iter().map(|at| Err(of_call(&error, batch[*at].id.is_some()))).collect();
            }
        };
        let accepted = answer.successful().iter();
        let accepted = accepted.map(|entry| (entry.id(), Ok(entry.message_id().to_owned())));
        let failed = answer.failed().iter().map(|entry| (entry.id(), Err(of_entry(entry))));
        let mut answers: HashMap<&str, Result<String, Refusal>> = accepted.chain(failed).collect();
        let missing = || Refusal { words: "SQS returned no result for it".to_owned(), again: false };
        let result = |at: &usize| answers.remove(at.to_string().as_str()).unwrap_or_else(|| Err(missing()));
        open.iter().map(result).collect()
    }
}

fn entry(at: usize, message: &Outgoing) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder()
        .id(at.to_string())
        .message_body(&message.body)
        .message_group_id(message.tenant.as_str())
        .build()
        .expect("invariant: an entry has its id and its body")
}

fn of_entry(entry: &BatchResultErrorEntry) -> Refusal {
    let code = entry.code();
    let words = entry.message().map_or(code.to_owned(), |message| format!("{code}: {message}"));
    Refusal { words, again: !entry.sender_fault() }
}

fn of_call<E>(error: &SdkError<E>, has_own_id: bool) -> Refusal
where
    E: std::error::Error + aws_sdk_sqs::error::ProvideErrorMetadata + 'static,
{
    let words = aws_error::message(error);
    if let SdkError::ServiceError(answer) = error {
        let is_transient = matches!(
            error.code(),
            Some("Throttling" | "ThrottlingException" | "RequestThrottled" | "ServiceUnavailable")
                | Some("InternalError" | "InternalFailure")
        );
        return Refusal { words, again: is_transient || answer.raw().status().is_server_error() };
    }
    let not_sent = matches!(error, SdkError::ConstructionFailure(_))
        || matches!(error, SdkError::DispatchFailure(failure) if !failure.is_io() && !failure.is_timeout());
    if not_sent || has_own_id {
        return Refusal { words, again: !not_sent };
    }
    let words = format!("{words}; it may have been sent, and has no id to recognise a duplicate by");
    Refusal { words, again: false }
}

#[cfg(test)]
mod tests {
    use redial_core::identity::Tenant;

    use super::*;

    fn message(line: u64, bytes: usize) -> Outgoing {
        let tenant = Tenant::parse("acme").expect("valid");
        Outgoing { line, tenant, id: None, body: "x".repeat(bytes), warning: None }
    }

    #[test]
    fn a_batch_has_at_most_ten_messages_and_a_mebibyte() {
        for (sizes, found) in [
            (vec![], vec![]),
            (vec![1; 23], vec![(1..=10).collect(), (11..=20).collect(), vec![21, 22, 23]]),
            (vec![600_000, 600_000, 100, 400_000, 100_000], vec![vec![1], vec![2, 3, 4], vec![5]]),
        ] {
            let messages = (1..).zip(sizes).map(|(line, bytes)| Ok::<_, ()>(message(line, bytes)));
            let batches = batches(messages).map(|batch| batch.expect("no error"));
            let lines = batches.map(|batch| batch.iter().map(|it| it.line).collect::<Vec<u64>>());
            assert_eq!(lines.collect::<Vec<_>>(), found);
        }
    }

    #[test]
    fn an_error_follows_the_messages_before_it_and_ends_all() {
        let messages = [Ok(message(1, 1)), Ok(message(2, 1)), Err("wrong"), Ok(message(4, 1))];
        let found: Vec<_> = batches(messages.into_iter()).map(|batch| batch.map(|it| it.len())).collect();
        assert_eq!(found, [Ok(2), Err("wrong")]);
    }
}
