//! How old each queue's oldest message is, and what the stack did in the last minutes: as a whole, and what each lane sent and failed
//! to send; and what AWS counted that all of it used ([`used`]).
//!
//! CloudWatch has both as metrics; those of the last minutes arrive when an invocation ends, and can be read about a minute later.
//! An emulator has no metrics of queues and makes none of what functions log in the embedded metric format. The embedded emulator
//! lists the messages of its queues: an age is counted as SQS counts it, from the sending, for messages that wait or are in
//! flight and were received fewer than three times; of a message only its times and receives are read. The lines of metrics are in the
//! functions' logs. The emulator may write a function's last lines only with its next invocation, so the numbers may lag.

use std::{collections::HashMap, time::Duration};

use aws_credential_types::provider::ProvideCredentials as _;
use redial_adapters::telemetry::{LANE, NAMESPACE, STACK};
use redial_console::signing::signature;
use redial_core::{lane::Lane, metric::Metric, time::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{
    queues::{QUEUES, Queue, name_in, of_stack},
    used::{self, Function},
};
use crate::{
    aws_error::AwsError,
    cloudwatch::{Points, Query, metrics},
    cost::Counts,
    stack::Target,
    tail::{CloudWatchLogs, groups},
};

/// Metrics of the whole stack.
pub(super) const COUNTED: [Metric; 8] = [
    Metric::Attempts,
    Metric::Sent,
    Metric::Retried,
    Metric::Deferred,
    Metric::DeadLetters,
    Metric::FailedNoRetries,
    Metric::Expired,
    Metric::Gone,
];

/// Those of them after which a delivery goes on; each other one is an end.
const NO_ENDS: [Metric; 3] = [Metric::Attempts, Metric::Retried, Metric::Deferred];

/// Metrics of each lane: what was sent, and what failed.
const ENDS: [Metric; 3] = [Metric::Sent, Metric::DeadLetters, Metric::FailedNoRetries];

/// What came back through errors of the stack's own, to the queues of dispatch and of cleanup.
pub(super) const FAILURES: [Metric; 2] = [Metric::DispatchFailures, Metric::CleanupFailures];

/// What is counted unless another period is given.
pub(super) const FLOW_PERIOD: Duration = Duration::from_secs(5 * 60);

/// How long CloudWatch keeps metrics by the minute (Amazon CloudWatch concepts).
pub(super) const LONGEST_PERIOD: Duration = Duration::from_secs(15 * 86_400);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flow {
    /// Of the whole stack, in the order of [`COUNTED`].
    pub(super) counted: [u64; COUNTED.len()],
    /// Of each lane, in the order of [`ENDS`].
    pub(super) ends: [[u64; ENDS.len()]; Lane::ALL.len()],
    /// In the order of [`FAILURES`].
    pub(super) failures: [u64; FAILURES.len()],
    /// That the functions were charged, if that was counted.
    pub(super) write_units: Option<u64>,
}

impl Flow {
    /// Adds to a metric of the whole stack, or of a lane; other metrics are ignored.
    fn add(&mut self, metric: Metric, lane: Option<Lane>, n: u64) {
        let place = match lane {
            None if metric == Metric::WriteUnits => Some(self.write_units.get_or_insert_default()),
            None => place_of(metric, &COUNTED, &mut self.counted)
                .or_else(|| place_of(metric, &FAILURES, &mut self.failures)),
            Some(lane) => place_of(metric, &ENDS, &mut self.ends[lane as usize]),
        };
        if let Some(place) = place {
            *place += n;
        }
    }

    /// Deliveries of the whole stack that came to an end.
    pub(super) fn ended(self) -> u64 {
        let ends = COUNTED.iter().zip(self.counted).filter(|(metric, _)| !NO_ENDS.contains(metric));
        ends.map(|(_, n)| n).sum()
    }

    /// Attempts of the whole stack.
    pub(super) const fn attempts(self) -> u64 {
        self.counted[0]
    }

    pub(super) fn sent(&self, lane: Lane) -> u64 {
        self.ends[lane as usize][0]
    }

    pub(super) fn failed(&self, lane: Lane) -> u64 {
        self.ends[lane as usize].iter().skip(1).sum()
    }
}

/// The count of a metric among those of a list.
fn place_of<'a>(metric: Metric, among: &[Metric], counts: &'a mut [u64]) -> Option<&'a mut u64> {
    among.iter().position(|it| *it == metric).map(|at| &mut counts[at])
}

/// A metric's name: `DeadLetters` as `dead letters`.
pub(super) fn in_words(metric: Metric) -> String {
    let spaced =
        metric.label().chars().flat_map(|it| it.is_uppercase().then_some(' ').into_iter().chain([it]));
    spaced.collect::<String>().trim_start().to_lowercase()
}

/// SQS publishes an age once a minute, and some minutes late.
const AGE_PERIOD: Duration = Duration::from_secs(15 * 60);

/// The age of each queue's oldest message, where it is known, in the order of [`QUEUES`].
pub(super) type Ages = [Option<Duration>; QUEUES.len()];

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Metrics {
    pub(super) ages: Ages,
    /// What AWS counted that the stack used.
    pub(super) counts: Counts,
    /// `None` if CloudWatch has none of these metrics.
    pub(super) flow: Option<Flow>,
}

/// The flow's metrics in the order of their queries.
fn counted() -> impl Iterator<Item = (Metric, Option<Lane>)> {
    let of_lane = |lane: Lane| ENDS.into_iter().map(move |metric| (metric, Some(lane)));
    let of_all = COUNTED.into_iter().chain(FAILURES).chain([Metric::WriteUnits]);
    of_all.map(|metric| (metric, None)).chain(Lane::ALL.into_iter().flat_map(of_lane))
}

/// Reads all of them in one call, the flow and the counts since a time.
pub(super) async fn read(
    target: &Target,
    functions: &[Function],
    since: Timestamp,
    now: Timestamp,
) -> Result<Metrics, AwsError> {
    let ages: Vec<Query> = of_stack(target).map(|(_, url)| age_query(url)).collect();
    let queues = ages.len();
    let flow = counted().map(|(metric, lane)| {
        let stack = (STACK, target.name.clone());
        let lane = lane.map(|lane| (LANE, lane.label().to_owned()));
        Query {
            namespace: NAMESPACE,
            metric: metric.label(),
            dimensions: std::iter::once(stack).chain(lane).collect(),
            statistic: "Sum",
        }
    });
    let queries: Vec<Query> = ages.into_iter().chain(flow).chain(used::queries(target, functions)).collect();
    let points = metrics(&target.sdk, &queries, AGE_PERIOD.max(now.since(since)), now).await?;
    Ok(of(&points, queues, functions, since, now))
}

fn of(points: &[Points], queues: usize, functions: &[Function], since: Timestamp, now: Timestamp) -> Metrics {
    let (ages, counts) = points.split_at(queues.min(points.len()));
    let (flow_points, used) = counts.split_at(counted().count().min(counts.len()));
    let mut flow = None;
    for ((metric, lane), points) in counted().zip(flow_points) {
        if let Some(count) = points.sum_since(since) {
            flow.get_or_insert_with(Flow::default).add(metric, lane, count as u64);
        }
    }
    let ages = std::array::from_fn(|at| ages.get(at).and_then(|points| age_in(points, now)));
    Metrics { ages, counts: used::of(used, functions, since), flow }
}

fn age_query(url: &str) -> Query {
    Query {
        namespace: "AWS/SQS",
        metric: "ApproximateAgeOfOldestMessage",
        dimensions: vec![("QueueName", name_in(url).to_owned())],
        statistic: "Maximum",
    }
}

fn age_in(points: &Points, now: Timestamp) -> Option<Duration> {
    let recent = points.latest_since(now.minus(AGE_PERIOD));
    recent.and_then(|secs| Duration::try_from_secs_f64(secs).ok()).filter(|age| !age.is_zero())
}

/// The age of one queue's oldest message, where it is known.
pub(super) async fn oldest(
    target: &Target,
    queue: &Queue,
    now: Timestamp,
) -> Result<Option<Duration>, AwsError> {
    let Some(url) = (queue.url)(target) else { return Ok(None) };
    if let Some(ages) = emulated_ages(target, now).await {
        return Ok(QUEUES.iter().zip(ages).find(|(it, _)| it.label == queue.label).and_then(|(_, age)| age));
    }
    let points = metrics(&target.sdk, &[age_query(url)], AGE_PERIOD, now).await?;
    Ok(points.first().and_then(|points| age_in(points, now)))
}

const TIMEOUT: Duration = Duration::from_secs(20);

const PATH: &str = "/_ministack/sqs/messages";

/// From this receive on SQS leaves a message out of the age of the oldest one (AWS, "Available CloudWatch metrics for Amazon SQS").
const LEFT_OUT_FROM: u64 = 3;

/// Queues by account, region and URL.
#[derive(Deserialize)]
struct EmulatedQueues {
    messages: HashMap<String, HashMap<String, HashMap<String, Vec<Message>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Message {
    /// In seconds.
    sent_timestamp: i64,
    is_visible: bool,
    receive_count: u64,
}

/// The age of each queue's oldest message; `None` on AWS and on other emulators.
pub(super) async fn emulated_ages(target: &Target, now: Timestamp) -> Option<Ages> {
    let endpoint = target.sdk.endpoint_url().filter(|_| target.is_emulated())?;
    let url = format!("{}{PATH}", endpoint.trim_end_matches('/'));
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(TIMEOUT).build().ok()?;
    let credentials = target.sdk.credentials_provider()?.provide_credentials().await.ok()?;
    let region = target.sdk.region()?;
    let signature = signature("GET", &url, &credentials, region.as_ref(), now).ok()?;
    let request = signature.into_iter().fold(client.get(url), |get, (name, value)| get.header(name, value));
    let response = request.send().await.ok()?.error_for_status().ok()?;
    let queues: EmulatedQueues = serde_json::from_str(&response.text().await.ok()?).ok()?;
    Some(QUEUES.each_ref().map(|queue| age(&queues, name_in((queue.url)(target)?), now)))
}

fn age(queues: &EmulatedQueues, name: &str, now: Timestamp) -> Option<Duration> {
    let queues = queues.messages.values().flat_map(HashMap::values).flatten();
    let messages = queues.filter(|(url, _)| name_in(url) == name).flat_map(|(_, messages)| messages);
    let counts = |message: &&Message| {
        (message.is_visible || message.receive_count > 0) && message.receive_count < LEFT_OUT_FROM
    };
    let oldest = messages.filter(counts).map(|message| message.sent_timestamp).min()?;
    Some(now.since(Timestamp::from_secs(oldest)))
}

/// The metrics in the logs; `None` on AWS, if the logs cannot be read, or if nothing was logged.
pub(super) async fn emulated_flow(target: &Target, since: Timestamp) -> Option<Flow> {
    if !target.is_emulated() {
        return None;
    }
    let logs = CloudWatchLogs::new(&target.sdk);
    let mut flow = None;
    for group in groups(target).await.ok()? {
        let (lines, _) = logs.lines(&group.name, since, "", usize::MAX).await.ok()?;
        lines.iter().for_each(|line| add(&line.text, &mut flow));
    }
    flow
}

/// Adds the counts of a line, if it is one of metrics.
fn add(line: &str, flow: &mut Option<Flow>) {
    // Most lines are of attempts, which need no parsing.
    if !line.contains("\"_aws\"") {
        return;
    }
    let Ok(line) = serde_json::from_str::<Value>(line) else { return };
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        if directive["Namespace"] != NAMESPACE {
            continue;
        }
        let flow = flow.get_or_insert_default();
        for dimensions in directive["Dimensions"].as_array().into_iter().flatten() {
            let names = dimensions.as_array().into_iter().flatten().filter_map(Value::as_str);
            let lane = line[LANE].as_str().and_then(Lane::from_label);
            let lane = match (&names.collect::<Vec<_>>()[..], lane) {
                ([STACK], _) => None,
                ([STACK, LANE], Some(lane)) => Some(lane),
                _ => continue,
            };
            for metric in Metric::ALL {
                if let Some(n) = line[metric.label()].as_u64() {
                    flow.add(metric, lane, n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_s_failures_are_its_dead_letters_and_those_without_retries() {
        let mut flow = Flow::default();
        for (metric, lane, n) in [
            (Metric::Sent, None, 9),
            (Metric::Sent, Some(Lane::Bulk), 7),
            (Metric::DeadLetters, Some(Lane::Bulk), 2),
            (Metric::FailedNoRetries, Some(Lane::Bulk), 1),
            (Metric::Sent, Some(Lane::Transactional), 2),
            (Metric::Parked, None, 5),
            (Metric::Gone, Some(Lane::Bulk), 5),
            (Metric::WriteUnits, None, 11),
            (Metric::CleanupFailures, None, 3),
        ] {
            flow.add(metric, lane, n);
        }
        assert_eq!((flow.counted, flow.write_units), ([0, 9, 0, 0, 0, 0, 0, 0], Some(11)));
        assert_eq!(flow.failures, [0, 3]);
        assert_eq!((flow.sent(Lane::Bulk), flow.failed(Lane::Bulk)), (7, 3));
        assert_eq!((flow.sent(Lane::Transactional), flow.failed(Lane::Transactional)), (2, 0));
    }

    #[test]
    fn retries_and_what_is_held_back_are_no_ends() {
        let counted = COUNTED.map(|metric| if NO_ENDS.contains(&metric) { 100 } else { 1 });
        assert_eq!(Flow { counted, ..Flow::default() }.ended(), 5);
    }

    #[test]
    fn a_metric_is_named_in_words() {
        assert_eq!(in_words(Metric::FailedNoRetries), "failed no retries");
    }

    /// Of a stack that relays no events.
    const OF_QUEUES: usize = QUEUES.len() - 1;

    const MANY: usize = OF_QUEUES + COUNTED.len() + FAILURES.len() + 1 + ENDS.len() * Lane::ALL.len();

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_255_200 + secs)
    }

    #[test]
    fn the_newest_age_counts_and_the_sum_of_five_minutes() {
        let mut points = vec![Points::default(); MANY];
        points[0] = Points::of(&[(at(0), 100.0), (at(60), 40.0)]);
        points[1] = Points::of(&[(at(60), 0.0)]);
        points[OF_QUEUES + 1] = Points::of(&[(at(0), 7.0), (at(60), 2.0), (at(300), 3.0)]);
        // The last one counts failures of the last lane.
        points[MANY - 1] = Points::of(&[(at(60), 4.0)]);
        let metrics = of(&points, OF_QUEUES, &[], at(30), at(330));
        assert_eq!(metrics.ages[..2], [Some(Duration::from_secs(40)), None]);
        let flow = metrics.flow.expect("a flow");
        assert_eq!(flow.counted, [0, 5, 0, 0, 0, 0, 0, 0]);
        assert_eq!((flow.failed(Lane::Bulk), flow.failed(Lane::Transactional)), (4, 0));
        let longer = of(&points, OF_QUEUES, &[], at(0), at(7_200));
        assert_eq!(longer.ages, Ages::default(), "an age of hours ago is no age of now");
        assert_eq!(longer.flow.map(|flow| flow.counted[1]), Some(12));
    }

    #[test]
    fn no_metrics_are_not_the_same_as_zeroes() {
        assert_eq!(of(&vec![Points::default(); MANY], OF_QUEUES, &[], at(0), at(300)), Metrics::default());
    }

    #[test]
    fn the_oldest_message_that_waits_or_is_in_flight_counts() {
        let queues = r#"{"messages": {"000000000000": {"us-east-1": {
            "http://localhost:4566/000000000000/a-ingest": [
                {"SentTimestamp": 50, "VisibleAt": 50, "IsVisible": true, "ReceiveCount": 3},
                {"SentTimestamp": 100, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 0, "Body": "s3cret"},
                {"SentTimestamp": 300, "VisibleAt": 300, "IsVisible": true, "ReceiveCount": 0},
                {"SentTimestamp": 200, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 1}
            ],
            "http://localhost:4566/000000000000/a-bulk": []
        }}}}"#;
        let queues: EmulatedQueues = serde_json::from_str(queues).expect("as the emulator has it");
        let age = |name| age(&queues, name, Timestamp::from_secs(500));
        assert_eq!((age("a-ingest"), age("a-bulk"), age("b")), (Some(Duration::from_secs(300)), None, None));
    }

    #[test]
    fn lines_of_metrics_are_added_up_and_others_are_ignored() {
        let mut flow = None;
        for line in [
            "START RequestId: 1",
            r#"{"event":"attempt","verdict":"sent","note":"\"_aws\""}"#,
            r#"{"_aws":{"CloudWatchMetrics":[{"Namespace":"Another","Dimensions":[["Stack"]]}]},"Sent":99}"#,
        ] {
            add(line, &mut flow);
        }
        assert_eq!(flow, None);
        let line = |dimensions: &str, counts: &str| {
            format!(
                r#"{{"_aws":{{"CloudWatchMetrics":[{{"Namespace":"Redial","Dimensions":[[{dimensions}]]}}]}},"Stack":"s",{counts}}}"#
            )
        };
        for line in [
            line(r#""Stack""#, r#""Attempts":3,"Sent":2,"RetryOverhead":[1.5]"#),
            line(r#""Stack""#, r#""Attempts":1,"Sent":1,"WriteUnits":4"#),
            line(r#""Stack","Lane""#, r#""Lane":"bulk","Sent":2,"DeadLetters":1"#),
            line(r#""Stack","Lane""#, r#""Lane":"another","Sent":40"#),
            line(r#""Stack","Reason""#, r#""Reason":"rejected","DeadLetters":50"#),
        ] {
            add(&line, &mut flow);
        }
        let flow = flow.expect("lines of metrics");
        assert_eq!((flow.counted, flow.write_units), ([4, 3, 0, 0, 0, 0, 0, 0], Some(4)));
        assert_eq!((flow.sent(Lane::Bulk), flow.failed(Lane::Bulk)), (2, 1));
        assert_eq!((flow.sent(Lane::Transactional), flow.failed(Lane::Transactional)), (0, 0));
    }
}
