//! The number of messages on each queue.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_core::lane::Lane;

use crate::{
    asked::{Trouble, asked},
    target::Target,
};

/// A queue of the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Messages from producers.
    Ingest(Lane),
    /// Retries that are due soon.
    Retry(Lane),
    /// References to dead letters, for cleanup.
    DeadLetters,
    /// Messages that were received too often, for cleanup.
    Quarantine,
}

impl Place {
    pub(super) const ALL: [Self; 6] = [
        Self::Ingest(Lane::Transactional),
        Self::Retry(Lane::Transactional),
        Self::Ingest(Lane::Bulk),
        Self::Retry(Lane::Bulk),
        Self::DeadLetters,
        Self::Quarantine,
    ];

    pub(super) const fn lane(self) -> Option<Lane> {
        match self {
            Self::Ingest(lane) | Self::Retry(lane) => Some(lane),
            Self::DeadLetters | Self::Quarantine => None,
        }
    }

    /// Its name beside its lane.
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

    /// How old its oldest message may be: the threshold of the template's alarm.
    pub(super) const fn oldest(self) -> Option<Duration> {
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

    /// How many messages may wait on it: the threshold of the template's alarm.
    pub(super) const fn most_waiting(self) -> u64 {
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

    /// In SQS.
    pub(super) fn name(self, target: &Target) -> &str {
        name_in(self.url(target))
    }
}

/// The name in a queue's URL.
pub(super) fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// SQS's approximate numbers of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Depth {
    pub(super) waiting: u64,
    /// Received, and neither deleted nor visible again.
    pub(super) in_flight: u64,
    pub(super) delayed: u64,
}

/// In the order of [`Place::ALL`].
pub(super) async fn depths(target: &Target) -> Vec<Result<Depth, Trouble>> {
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    join_all(Place::ALL.map(|place| depth(&sqs, place.url(target)))).await
}

async fn depth(sqs: &aws_sdk_sqs::Client, url: &str) -> Result<Depth, Trouble> {
    let read = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let attributes = asked("sqs:GetQueueAttributes", read.send().await)?.attributes.unwrap_or_default();
    let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(Depth {
        waiting: number(QueueAttributeName::ApproximateNumberOfMessages),
        in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
    })
}

#[cfg(test)]
mod tests {
    use redial_testkit::template::Template;

    use super::*;

    #[test]
    fn the_limits_of_age_and_depth_are_the_alarms_thresholds() {
        let template = Template::read();
        let threshold = |alarm: String| template["Resources"][&*alarm]["Properties"]["Threshold"].as_u64();
        for (place, queue) in
            Place::ALL.into_iter().zip(["Ingest", "Retry", "Bulk", "RetryBulk", "DeadLetter", "Quarantine"])
        {
            assert_eq!(Some(place.most_waiting()), threshold(format!("{queue}DepthAlarm")), "{queue}");
            if let Some(oldest) = place.oldest() {
                assert_eq!(Some(oldest.as_secs()), threshold(format!("{queue}AgeAlarm")), "{queue}");
            }
        }
    }

    #[test]
    fn a_queue_s_name_is_the_end_of_its_url() {
        assert_eq!(name_in("https://sqs.eu-central-1.amazonaws.com/1/shop-ingest"), "shop-ingest");
    }
}
