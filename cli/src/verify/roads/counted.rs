//! What CloudWatch has of a run: AWS's own counts and the functions' embedded metrics. No emulator has both.
//!
//! A metric that does not arrive keeps its alarm silent for good, and nothing else shows it.

use std::time::Duration;

use redial_adapters::{
    system::System,
    telemetry::{NAMESPACE, STACK},
};
use redial_core::{lane::Lane, metric::Metric, time::Timestamp};
use redial_engine::ports::Clock as _;

use super::road::Road;
use crate::{
    cloudwatch::{Query, metrics},
    cost::{Counts, gb_seconds},
    doctor::{Report, Stack},
    stack::Target,
    terminal::spinner,
};

/// How long CloudWatch may take. SQS's metrics of a queue that was idle may be 15 minutes late (SQS developer guide, "Available
/// CloudWatch metrics for Amazon SQS").
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Metrics have a value a minute.
const PAUSE: Duration = Duration::from_secs(60);

/// What GetMetricData costs for each metric of each call, in USD (Amazon CloudWatch pricing, 2026).
const USD_PER_METRIC: f64 = 0.01 / 1_000.0;

/// Before the first message: the minute that it was sent in began earlier.
const MARGIN: Duration = Duration::from_secs(60);

/// A metric that the run has to leave a trace in, or that its cost is calculated from.
struct Count {
    query: Query,
    at_least: f64,
}

/// What waiting for the metrics of these roads costs at most, in USD.
pub(super) fn most_usd(target: &Target, roads: &[&Road]) -> f64 {
    let calls = 1 + LIMIT.as_secs() / PAUSE.as_secs();
    let metrics = (counts(target, "", roads).len() as u64 * calls) as f64;
    metrics * USD_PER_METRIC
}

/// Waits until CloudWatch has counted the run, and compares that with what was sent.
pub(super) async fn check(stack: &Stack, roads: &[&Road], began: Timestamp, report: &mut Report) {
    if stack.target.is_emulated() {
        return report.unchecked("everything", "an emulator has no metrics of AWS's services");
    }
    let counts = counts(&stack.target, &stack.name, roads);
    let queries: Vec<Query> = counts.iter().map(|count| count.query.clone()).collect();
    let view = spinner();
    // The run itself may have taken minutes, the deployment of its receiver included.
    let waits_since = System.now();
    let mut found: Vec<Option<f64>>;
    loop {
        let now = System.now();
        let within = now.since(began) + MARGIN;
        let read = metrics(&stack.target.sdk, &queries, within, now).await;
        let Some(points) = report.read("CloudWatch's metrics of the run", read) else { return };
        let since = began.minus(MARGIN);
        found = points.iter().map(|points| points.sum_since(since)).collect();
        let missing = missing(&counts, &found);
        if missing.is_empty() || now.since(waits_since) > LIMIT {
            break;
        }
        view.set_message(format!("waiting for CloudWatch: {}", missing.join(", ")));
        tokio::time::sleep(PAUSE).await;
    }
    view.finish_and_clear();
    let memory = stack.dispatch.as_ref().ok().and_then(|dispatch| dispatch.configuration.memory_size());
    judge(&counts, &found, f64::from(memory.unwrap_or_default()), report);
}

fn judge(counts: &[Count], found: &[Option<f64>], memory_mb: f64, report: &mut Report) {
    for (count, found) in counts.iter().zip(found) {
        let found = found.unwrap_or_default();
        if found < count.at_least {
            let Query { namespace, metric, .. } = count.query;
            let remedy = if namespace == NAMESPACE {
                "CloudWatch extracts it from lines of the functions' log groups: look for them with `redial tail`, and for \
                 EMFParsingErrors in the namespace AWS/Logs"
            } else {
                "verify again in some minutes; if it stays away, look at AWS's health dashboard"
            };
            report.fault(
                format!("CloudWatch counted {found} {metric} in {namespace} instead of at least {}, so that alarms on \
                         it stay silent", count.at_least),
                remedy,
            );
        }
    }
    let counted = priced(counts, found, memory_mb);
    report.well(format!(
        "all metrics arrived; by their counts the messages cost {:.5} USD at list prices",
        counted.usd(),
    ));
}

fn missing(counts: &[Count], found: &[Option<f64>]) -> Vec<&'static str> {
    let is_missing = |(count, found): (&Count, &Option<f64>)| {
        (found.unwrap_or_default() < count.at_least).then_some(count.query.metric)
    };
    counts.iter().zip(found).filter_map(is_missing).collect()
}

/// What the messages of these roads leave. A message that is retried was on the retry queue, unless it waited for its time.
fn counts(target: &Target, stack: &str, roads: &[&Road]) -> Vec<Count> {
    let number = |is_one: &dyn Fn(&Road) -> bool| roads.iter().filter(|road| is_one(road)).count();
    let of_lane = |lane: Lane| number(&|road| road.lane == lane);
    let ends_as = |state: &'static str| move |road: &Road| road.expected.state.as_deref() == Some(state);
    let sent = ends_as("sent");
    let retried = |road: &Road| road.expected.attempt == Some(2);
    let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
    let count = |namespace, metric, dimension: (&'static str, String), at_least: usize| Count {
        query: Query { namespace, metric, dimensions: vec![dimension], statistic: "Sum" },
        at_least: at_least as f64,
    };
    let sqs = |metric, url: &str, at_least| count("AWS/SQS", metric, ("QueueName", name(url)), at_least);
    let own =
        |metric: Metric, at_least| count(NAMESPACE, metric.label(), (STACK, stack.to_owned()), at_least);
    let dispatch =
        |metric, at_least| count("AWS/Lambda", metric, ("FunctionName", target.dispatch.clone()), at_least);
    let deliveries = |metric, at_least| {
        count("AWS/DynamoDB", metric, ("TableName", target.tables.deliveries.clone()), at_least)
    };
    let attempts = roads.len() + number(&retried);
    let mut counts = vec![
        own(Metric::Attempts, attempts),
        own(Metric::Sent, number(&sent)),
        own(Metric::SentOnRetry, number(&|road| sent(road) && retried(road))),
        own(Metric::Retried, number(&retried)),
        own(Metric::DeadLetters, number(&ends_as("failed"))),
        // A push to an endpoint that is gone is counted apart.
        own(Metric::Gone, number(&ends_as("gone"))),
        dispatch("Invocations", 1),
        dispatch("Duration", 1),
        deliveries("ConsumedWriteCapacityUnits", roads.len()),
        deliveries("ConsumedReadCapacityUnits", 0),
    ];
    let queues = &target.queues;
    for (url, messages) in [
        (&queues.ingest, of_lane(Lane::Transactional)),
        (&queues.bulk, of_lane(Lane::Bulk)),
        (&queues.retry, number(&retried)),
    ] {
        counts.push(sqs("NumberOfMessagesSent", url, messages));
        counts.push(sqs("NumberOfMessagesReceived", url, messages));
        counts.push(sqs("NumberOfMessagesDeleted", url, messages));
    }
    counts
}

/// What is paid for. A call for a batch counts once for each message here, so that this is more than what SQS charges.
fn priced(counts: &[Count], found: &[Option<f64>], memory_mb: f64) -> Counts {
    let sum = |namespace: &str, metric: &str| -> f64 {
        let is_of =
            |count: &Count| count.query.namespace == namespace && count.query.metric.starts_with(metric);
        let of = counts.iter().zip(found).filter(|(count, _)| is_of(count));
        of.map(|(_, found)| found.unwrap_or_default()).sum()
    };
    Counts {
        sqs_requests: Some(sum("AWS/SQS", "NumberOfMessages")),
        invocations: Some(sum("AWS/Lambda", "Invocations")),
        gb_seconds: Some(gb_seconds(sum("AWS/Lambda", "Duration"), memory_mb)),
        write_units: Some(sum("AWS/DynamoDB", "ConsumedWrite")),
        read_units: Some(sum("AWS/DynamoDB", "ConsumedRead")),
        log_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::found;

    fn count(namespace: &'static str, metric: &'static str, at_least: f64) -> Count {
        Count { query: Query { namespace, metric, dimensions: Vec::new(), statistic: "Sum" }, at_least }
    }

    #[test]
    fn a_metric_that_does_not_arrive_is_a_fault() {
        let counts = [count(NAMESPACE, "Sent", 7.0), count("AWS/SQS", "NumberOfMessagesSent", 6.0)];
        let silent = "fault: CloudWatch counted 0 Sent in Redial instead of at least 7, so that alarms on it stay silent";
        for (points, expected) in [
            ([Some(7.0), Some(8.0)], &[][..]),
            ([None, Some(6.0)], &[silent]),
            ([Some(0.0), Some(6.0)], &[silent]),
        ] {
            assert_eq!(found(|report| judge(&counts, &points, 256.0, report)), expected, "{points:?}");
        }
        assert_eq!(missing(&counts, &[None, None]), ["Sent", "NumberOfMessagesSent"]);
        assert_eq!(missing(&counts, &[Some(7.0), Some(6.0)]), [""; 0]);
    }

    #[test]
    fn what_is_paid_for_is_summed_by_service() {
        let counts = [
            count("AWS/SQS", "NumberOfMessagesSent", 1.0),
            count("AWS/SQS", "NumberOfMessagesDeleted", 1.0),
            count("AWS/Lambda", "Invocations", 1.0),
            count("AWS/Lambda", "Duration", 1.0),
            count("AWS/DynamoDB", "ConsumedWriteCapacityUnits", 1.0),
            count(NAMESPACE, "Sent", 1.0),
        ];
        let found = [Some(3.0), Some(4.0), Some(5.0), Some(600.0), None, Some(9.0)];
        let expected = Counts {
            sqs_requests: Some(7.0),
            invocations: Some(5.0),
            gb_seconds: Some(0.15),
            write_units: Some(0.0),
            read_units: Some(0.0),
            log_bytes: None,
        };
        assert_eq!(priced(&counts, &found, 256.0), expected);
        assert!((expected.usd() - 6.3e-6).abs() < 1e-6, "{}", expected.usd());
    }
}
