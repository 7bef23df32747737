//! The number of messages on each queue.

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_core::lane::Lane;

use crate::{
    aws_error::{AwsError, classified},
    stack::Target,
};

/// A queue of the template.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) lane: Option<Lane>,
    /// Its name beside its lane.
    pub(super) label: &'static str,
    /// How old its oldest message may be, in seconds: the threshold of the template's alarm.
    pub(super) oldest: Option<u64>,
    /// How many messages may wait on it: the threshold of the template's alarm.
    pub(super) most_waiting: u64,
    /// `None` if the stack does not have it.
    pub(super) url: fn(&Target) -> Option<&String>,
}

const fn queue(
    lane: Option<Lane>,
    label: &'static str,
    oldest: Option<u64>,
    most_waiting: u64,
    url: fn(&Target) -> Option<&String>,
) -> Queue {
    Queue { lane, label, oldest, most_waiting, url }
}

/// Messages from producers and retries that are due soon, by lane; then, for cleanup, references to dead letters, and messages that
/// were received too often. The last one has events on their way to their targets, in a stack that relays them.
pub(super) const QUEUES: [Queue; 7] = [
    queue(Some(Lane::Transactional), "ingest", Some(300), 10_000, |it| Some(&it.queues.ingest)),
    queue(Some(Lane::Transactional), "retry", Some(1_800), 10_000, |it| Some(&it.queues.retry)),
    queue(Some(Lane::Bulk), "ingest", Some(3_600), 10_000, |it| Some(&it.queues.bulk)),
    queue(Some(Lane::Bulk), "retry", Some(7_200), 10_000, |it| Some(&it.queues.retry_bulk)),
    queue(None, "dead_letters", Some(900), 100, |it| Some(&it.queues.dead_letters)),
    queue(None, "quarantine", None, 0, |it| Some(&it.quarantine)),
    queue(None, "events_relay", Some(900), 10_000, |it| it.relay.as_ref()),
];

/// Those that a stack has, with their URLs: all of them, or all but the last.
pub(super) fn of_stack(target: &Target) -> impl Iterator<Item = (&'static Queue, &String)> {
    const ALL: &[Queue] = &QUEUES;
    ALL.iter().filter_map(|queue| Some((queue, (queue.url)(target)?)))
}

impl Queue {
    /// Its name in a sentence.
    pub(super) fn in_words(&self) -> String {
        match self.lane {
            Some(lane) => format!("{} {} queue", lane.label(), self.label),
            None => format!("{} queue", self.label.replace("_letters", "-letter").replace('_', " ")),
        }
    }

    /// Whether it is shown without a finding, too.
    pub(super) fn is_always_shown(&self) -> bool {
        self.label != "events_relay"
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

/// In the order of [`QUEUES`]: of those that the stack has.
pub(super) async fn depths(target: &Target) -> Vec<Result<Depth, AwsError>> {
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    join_all(of_stack(target).map(|(_, url)| depth(&sqs, url))).await
}

pub(super) async fn depth(sqs: &aws_sdk_sqs::Client, url: &str) -> Result<Depth, AwsError> {
    let read = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let attributes = classified("sqs:GetQueueAttributes", read.send().await)?.attributes.unwrap_or_default();
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
        let names = ["Ingest", "Retry", "Bulk", "RetryBulk", "DeadLetter", "Quarantine", "EventsRelay"];
        for (queue, name) in QUEUES.iter().zip(names) {
            assert_eq!(Some(queue.most_waiting), threshold(format!("{name}DepthAlarm")), "{name}");
            assert_eq!(queue.oldest, threshold(format!("{name}AgeAlarm")), "{name}");
        }
    }

    #[test]
    fn a_queue_s_name_is_the_end_of_its_url() {
        assert_eq!(name_in("https://sqs.eu-central-1.amazonaws.com/1/shop-ingest"), "shop-ingest");
    }
}
