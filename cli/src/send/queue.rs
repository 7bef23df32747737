//! Batches onto a queue, and what became of each message.
//!
//! A call that succeeds may have failed entries: those are sent again, a few times and further and further apart, and then
//! told. A call without an answer may have been carried out all the same: a message with an id of its own is sent again,
//! because the ledger delivers it once; one that SQS gives its id would be delivered twice, so that is told instead. For the
//! same reason the SDK's own retries are off.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{
    Client,
    config::retry::RetryConfig,
    error::{ProvideErrorMetadata as _, SdkError},
    types::{BatchResultErrorEntry, SendMessageBatchRequestEntry},
};
use redial_core::identity::DeliveryId;

use super::Outgoing;
use crate::{aws_words::in_words, target::Target};

/// How long after the first try the others come. A throttled queue gets seconds, a mistyped permission ends soon.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(1000), Duration::from_millis(3000)];

/// What became of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The line that it begins in.
    pub(crate) line: u64,
    /// Whose it is.
    pub(crate) tenant: String,
    /// Its correlation id; `None` for a message that was not sent and would have got its id by that.
    pub(crate) id: Option<DeliveryId>,
    /// The SQS MessageId, or why there is none.
    pub(crate) sent: Result<String, String>,
}

/// A queue that messages are sent to.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    client: Client,
    url: String,
}

/// Why a try failed.
struct Setback {
    words: String,
    /// Whether it is of any use to try again.
    again: bool,
}

impl Queue {
    /// The queue of that URL.
    pub(crate) fn new(target: &Target, url: &str) -> Self {
        let config =
            aws_sdk_sqs::config::Builder::from(&target.sdk).retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(config), url: url.to_owned() }
    }

    /// Sends a batch of at most ten; an answer each, in their order.
    pub(crate) async fn send(&self, batch: Vec<Outgoing>) -> Vec<Answer> {
        let mut sent: Vec<Option<Result<String, String>>> = vec![None; batch.len()];
        let mut pauses = PAUSES.iter();
        loop {
            let open: Vec<usize> = (0..batch.len()).filter(|at| sent[*at].is_none()).collect();
            let last_words = self.attempt(&batch, open, &mut sent).await;
            if last_words.is_empty() {
                break;
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => last_words.into_iter().for_each(|(at, words)| sent[at] = Some(Err(words))),
            }
        }
        let answer = |(message, sent): (Outgoing, Option<Result<String, String>>)| {
            let sent = sent.unwrap_or_else(|| Err("not answered".to_owned()));
            let given = sent.as_ref().ok().map(|id| DeliveryId::from_sqs_message_id(id));
            Answer { line: message.line, tenant: message.tenant.to_string(), id: message.id.or(given), sent }
        };
        batch.into_iter().zip(sent).map(answer).collect()
    }

    /// One call with the messages at `open`. Fills in what is final, and gives back what may be tried again.
    async fn attempt(
        &self,
        batch: &[Outgoing],
        open: Vec<usize>,
        sent: &mut [Option<Result<String, String>>],
    ) -> Vec<(usize, String)> {
        if open.is_empty() {
            return Vec::new();
        }
        let entries = open.iter().map(|at| entry(*at, &batch[*at])).collect();
        let call = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let (accepted, mut setbacks) = match call.send().await {
            Ok(answer) => {
                let accepted: HashMap<usize, String> = answer
                    .successful()
                    .iter()
                    .filter_map(|entry| Some((entry.id().parse().ok()?, entry.message_id().to_owned())))
                    .collect();
                let failed: HashMap<usize, Setback> = answer
                    .failed()
                    .iter()
                    .filter_map(|entry| Some((entry.id().parse().ok()?, of_entry(entry))))
                    .collect();
                (accepted, failed)
            }
            Err(error) => {
                let setback = |at: &usize| (*at, of_call(&error, batch[*at].id.is_some()));
                (HashMap::new(), open.iter().map(setback).collect())
            }
        };
        let mut again = Vec::new();
        for at in open {
            if let Some(id) = accepted.get(&at) {
                sent[at] = Some(Ok(id.clone()));
                continue;
            }
            match setbacks.remove(&at) {
                Some(Setback { words, again: true }) => again.push((at, words)),
                Some(Setback { words, again: false }) => sent[at] = Some(Err(words)),
                None => sent[at] = Some(Err("SQS did not say what became of it".to_owned())),
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

fn of_entry(entry: &BatchResultErrorEntry) -> Setback {
    let words = match entry.message() {
        Some(message) => format!("{}: {message}", entry.code()),
        None => entry.code().to_owned(),
    };
    Setback { words, again: !entry.sender_fault() }
}

/// Codes of a service error that another try may cure; any 5xx is one too.
const PASSING: [&str; 6] = [
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "ServiceUnavailable",
    "InternalError",
    "InternalFailure",
];

fn of_call<E>(error: &SdkError<E>, has_own_id: bool) -> Setback
where
    E: std::error::Error + aws_sdk_sqs::error::ProvideErrorMetadata + 'static,
{
    let words = in_words(error);
    if let SdkError::ServiceError(answer) = error {
        let passing = answer.raw().status().is_server_error()
            || error.code().is_some_and(|code| PASSING.contains(&code));
        return Setback { words, again: passing };
    }
    let never_left = matches!(error, SdkError::ConstructionFailure(_))
        || matches!(error, SdkError::DispatchFailure(failure) if !failure.is_io() && !failure.is_timeout());
    if never_left || has_own_id {
        return Setback { words, again: !never_left };
    }
    let words =
        format!("{words}; it may have been sent, and has no id by which a second one would be dropped");
    Setback { words, again: false }
}
