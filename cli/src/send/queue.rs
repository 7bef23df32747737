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

use super::outgoing::Outgoing;
use crate::{aws_error, stack::Target};

/// The entries of a batch (SendMessageBatch, API reference).
pub(crate) const MOST_ENTRIES: usize = 10;

/// Before each retry. A throttled queue gets seconds; a missing permission is reported soon.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(1000), Duration::from_millis(3000)];

/// A message that was sent, or refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The line that it begins in.
    pub(crate) line: u64,
    pub(crate) tenant: String,
    /// The correlation id; `None` for a message that was not sent and whose id SQS would have assigned.
    pub(crate) id: Option<DeliveryId>,
    /// The SQS MessageId, or why it was not sent.
    pub(crate) result: Result<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    client: Client,
    url: String,
}

/// Why a try failed.
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
        let mut results: Vec<Option<Result<String, String>>> = vec![None; batch.len()];
        let mut pauses = PAUSES.iter();
        loop {
            let open: Vec<usize> = (0..batch.len()).filter(|at| results[*at].is_none()).collect();
            let last_words = self.attempt(&batch, open, &mut results).await;
            if last_words.is_empty() {
                break;
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => last_words.into_iter().for_each(|(at, words)| results[at] = Some(Err(words))),
            }
        }
        let sent = |(message, result): (Outgoing, Option<Result<String, String>>)| {
            let result = result.unwrap_or_else(|| Err("no answer".to_owned()));
            let assigned = result.as_ref().ok().map(|id| DeliveryId::from_sqs_message_id(id));
            Sent {
                line: message.line,
                tenant: message.tenant.to_string(),
                id: message.id.or(assigned),
                result,
            }
        };
        batch.into_iter().zip(results).map(sent).collect()
    }

    /// One call with the messages at `open`. Fills in final results, and returns those to retry.
    async fn attempt(
        &self,
        batch: &[Outgoing],
        open: Vec<usize>,
        results: &mut [Option<Result<String, String>>],
    ) -> Vec<(usize, String)> {
        if open.is_empty() {
            return Vec::new();
        }
        let entries = open.iter().map(|at| entry(*at, &batch[*at])).collect();
        let call = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let (accepted, mut refusals) = match call.send().await {
            Ok(answer) => {
                let accepted: HashMap<usize, String> = answer
                    .successful()
                    .iter()
                    .filter_map(|entry| Some((entry.id().parse().ok()?, entry.message_id().to_owned())))
                    .collect();
                let failed: HashMap<usize, Refusal> = answer
                    .failed()
                    .iter()
                    .filter_map(|entry| Some((entry.id().parse().ok()?, of_entry(entry))))
                    .collect();
                (accepted, failed)
            }
            Err(error) => {
                let refusal = |at: &usize| (*at, of_call(&error, batch[*at].id.is_some()));
                (HashMap::new(), open.iter().map(refusal).collect())
            }
        };
        let mut again = Vec::new();
        for at in open {
            if let Some(id) = accepted.get(&at) {
                results[at] = Some(Ok(id.clone()));
                continue;
            }
            match refusals.remove(&at) {
                Some(Refusal { words, again: true }) => again.push((at, words)),
                Some(Refusal { words, again: false }) => results[at] = Some(Err(words)),
                None => results[at] = Some(Err("SQS returned no result for it".to_owned())),
            }
        }
        again
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
    let words = match entry.message() {
        Some(message) => format!("{}: {message}", entry.code()),
        None => entry.code().to_owned(),
    };
    Refusal { words, again: !entry.sender_fault() }
}

/// Codes of transient errors; so is any 5xx.
const TRANSIENT: [&str; 6] = [
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "ServiceUnavailable",
    "InternalError",
    "InternalFailure",
];

fn of_call<E>(error: &SdkError<E>, has_own_id: bool) -> Refusal
where
    E: std::error::Error + aws_sdk_sqs::error::ProvideErrorMetadata + 'static,
{
    let words = aws_error::message(error);
    if let SdkError::ServiceError(answer) = error {
        let transient = answer.raw().status().is_server_error()
            || error.code().is_some_and(|code| TRANSIENT.contains(&code));
        return Refusal { words, again: transient };
    }
    let not_sent = matches!(error, SdkError::ConstructionFailure(_))
        || matches!(error, SdkError::DispatchFailure(failure) if !failure.is_io() && !failure.is_timeout());
    if not_sent || has_own_id {
        return Refusal { words, again: !not_sent };
    }
    let words = format!("{words}; it may have been sent, and has no id to recognise a duplicate by");
    Refusal { words, again: false }
}
