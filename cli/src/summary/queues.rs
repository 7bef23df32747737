//! What lies on each queue.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_core::lane::Lane;

use crate::{
    aws_error::{AwsError, classified},
    stack::Target,
};

/// A queue of the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Where producers put what is to be sent.
    Ingest(Lane),
    /// Where a retry waits that is due soon.
    Retry(Lane),
    /// References to dead letters, on their way to cleanup.
    DeadLetters,
    /// Messages that were received too often, on their way to cleanup.
    Quarantine,
}

impl Place {
    /// All of them.
    pub(super) const ALL: [Self; 6] = [
        Self::Ingest(Lane::Transactional),
        Self::Retry(Lane::Transactional),
        Self::Ingest(Lane::Bulk),
        Self::Retry(Lane::Bulk),
        Self::DeadLetters,
        Self::Quarantine,
    ];

    /// Its lane, if it has one.
    pub(super) const fn lane(self) -> Option<Lane> {
        match self {
            Self::Ingest(lane) | Self::Retry(lane) => Some(lane),
            Self::DeadLetters | Self::Quarantine => None,
        }
    }

    /// What it is called beside its lane.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Ingest(_) => "ingest",
            Self::Retry(_) => "retry",
            Self::DeadLetters => "dead_letters",
            Self::Quarantine => "quarantine",
        }
    }

    /// Its name in a sentence.
    pub(super) fn in_words(self) -> String {
        match self {
            Self::Ingest(lane) | Self::Retry(lane) => format!("{} {} queue", lane.label(), self.label()),
            Self::DeadLetters => "dead-letter queue".to_owned(),
            Self::Quarantine => "quarantine queue".to_owned(),
        }
    }

    /// How old its oldest message may be: what the template's alarms take for too old.
    pub(super) const fn patience(self) -> Option<Duration> {
        let secs = match self {
            Self::Ingest(Lane::Transactional) => 300,
            Self::Ingest(Lane::Bulk) => 3_600,
            Self::Retry(Lane::Transactional) => 1_800,
            Self::Retry(Lane::Bulk) => 7_200,
            Self::DeadLetters => 900,
            Self::Quarantine => return None,
        };
        Some(Duration::from_secs(secs))
    }

    /// How many may wait on it: what the template's alarms take for too many.
    pub(super) const fn room(self) -> u64 {
        match self {
            Self::Ingest(_) | Self::Retry(_) => 10_000,
            Self::DeadLetters => 100,
            Self::Quarantine => 0,
        }
    }

    fn url(self, target: &Target) -> &str {
        let queues = &target.queues;
        match self {
            Self::Ingest(Lane::Transactional) => &queues.ingest,
            Self::Ingest(Lane::Bulk) => &queues.bulk,
            Self::Retry(lane) => queues.retry_of(lane),
            Self::DeadLetters => &queues.dead_letters,
            Self::Quarantine => &target.quarantine,
        }
    }

    /// The queue's name in SQS.
    pub(super) fn name(self, target: &Target) -> &str {
        name_in(self.url(target))
    }
}

/// The name in a queue's URL.
pub(super) fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// How many messages a queue has, as nearly as SQS says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Depth {
    /// Ready to be received.
    pub(super) waiting: u64,
    /// Received, and neither deleted nor back.
    pub(super) in_flight: u64,
    /// Not ready yet.
    pub(super) delayed: u64,
}

/// Of all queues, in their order.
pub(super) async fn depths(target: &Target) -> Vec<Result<Depth, AwsError>> {
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    join_all(Place::ALL.map(|place| depth(&sqs, place.url(target)))).await
}

async fn depth(sqs: &aws_sdk_sqs::Client, url: &str) -> Result<Depth, AwsError> {
    let asking = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let answer = classified("sqs:GetQueueAttributes", asking.send().await)?;
    Ok(of(&answer.attributes.unwrap_or_default()))
}

fn of(attributes: &HashMap<QueueAttributeName, String>) -> Depth {
    let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Depth {
        waiting: number(QueueAttributeName::ApproximateNumberOfMessages),
        in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

    /// The threshold of an alarm of the template.
    fn threshold(alarm: &str) -> u64 {
        let (_, after) = TEMPLATE.split_once(&format!("\n  {alarm}:\n")).expect("the alarm");
        let (_, after) = after.split_once("\n      Threshold: ").expect("its threshold");
        after.lines().next().and_then(|line| line.parse().ok()).expect("a whole number")
    }

    #[test]
    fn too_old_and_too_many_are_what_the_alarms_take_for_it() {
        for (place, queue) in
            Place::ALL.into_iter().zip(["Ingest", "Retry", "Bulk", "RetryBulk", "DeadLetter", "Quarantine"])
        {
            assert_eq!(place.room(), threshold(&format!("{queue}DepthAlarm")), "{queue}");
            if let Some(patience) = place.patience() {
                assert_eq!(patience.as_secs(), threshold(&format!("{queue}AgeAlarm")), "{queue}");
            }
        }
    }

    #[test]
    fn what_sqs_says_is_told_apart() {
        let attributes = HashMap::from([
            (QueueAttributeName::ApproximateNumberOfMessages, "3".to_owned()),
            (QueueAttributeName::ApproximateNumberOfMessagesNotVisible, "2".to_owned()),
            (QueueAttributeName::ApproximateNumberOfMessagesDelayed, "1".to_owned()),
        ]);
        assert_eq!(of(&attributes), Depth { waiting: 3, in_flight: 2, delayed: 1 });
    }

    #[test]
    fn a_queue_s_name_is_the_end_of_its_url() {
        assert_eq!(name_in("https://sqs.eu-central-1.amazonaws.com/1/shop-ingest"), "shop-ingest");
    }
}
