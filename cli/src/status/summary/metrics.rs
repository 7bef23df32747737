//! CloudWatch's metrics: how old each queue's oldest message is, and what the stack did in the last minutes.
//!
//! The latter arrive when an invocation ends, and can be read about a minute later.

use std::time::Duration;

use redial_adapters::telemetry::{LANE, NAMESPACE, STACK};
use redial_core::{lane::Lane, metric::Metric, time::Timestamp};

use super::{
    flow::{self, COUNTED, ENDS, Flow},
    queues::Place,
};
use crate::{
    asked::Trouble,
    cloudwatch::{Points, Query, metrics},
    target::Target,
};

/// SQS publishes an age once a minute, and some minutes late.
const AGE_PERIOD: Duration = Duration::from_secs(15 * 60);

/// The age of each queue's oldest message, where it is known.
pub(super) type Ages = [Option<Duration>; Place::ALL.len()];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Metrics {
    pub(super) ages: Ages,
    /// `None` if CloudWatch has none of these metrics.
    pub(super) flow: Option<Flow>,
}

/// The flow's metrics in the order of their queries.
fn counted() -> impl Iterator<Item = (Metric, Option<Lane>)> {
    let of_lane = |lane: Lane| ENDS.into_iter().map(move |metric| (metric, Some(lane)));
    COUNTED.into_iter().map(|metric| (metric, None)).chain(Lane::ALL.into_iter().flat_map(of_lane))
}

/// Reads all of them in one call.
pub(super) async fn read(target: &Target, now: Timestamp) -> Result<Metrics, Trouble> {
    let ages = Place::ALL.map(|place| Query {
        namespace: "AWS/SQS",
        metric: "ApproximateAgeOfOldestMessage",
        dimensions: vec![("QueueName", place.name(target).to_owned())],
        statistic: "Maximum",
    });
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
    let queries: Vec<Query> = ages.into_iter().chain(flow).collect();
    let points = metrics(&target.sdk, &queries, AGE_PERIOD, now).await?;
    Ok(of(&points, now))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of five minutes is no fraction, not negative, and far from the end of its type"
)]
fn of(points: &[Points], now: Timestamp) -> Metrics {
    let (ages, counts) = points.split_at(Place::ALL.len().min(points.len()));
    let age = |points: &Points| {
        points.latest().and_then(|secs| Duration::try_from_secs_f64(secs).ok()).filter(|age| !age.is_zero())
    };
    let mut flow = None;
    for ((metric, lane), points) in counted().zip(counts) {
        if let Some(count) = points.sum_since(now.minus(flow::PERIOD)) {
            flow.get_or_insert_with(Flow::default).add(metric, lane, count as u64);
        }
    }
    Metrics { ages: std::array::from_fn(|at| ages.get(at).and_then(age)), flow }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = Place::ALL.len() + COUNTED.len() + ENDS.len() * Lane::ALL.len();

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_255_200 + secs)
    }

    #[test]
    fn the_newest_age_counts_and_the_sum_of_five_minutes() {
        let mut points = vec![Points::default(); MANY];
        points[0] = Points::of(&[(at(0), 100.0), (at(60), 40.0)]);
        points[1] = Points::of(&[(at(60), 0.0)]);
        points[Place::ALL.len() + 1] = Points::of(&[(at(0), 7.0), (at(60), 2.0), (at(300), 3.0)]);
        // The last one counts failures of the last lane.
        points[MANY - 1] = Points::of(&[(at(60), 4.0)]);
        let metrics = of(&points, at(330));
        assert_eq!(metrics.ages[..2], [Some(Duration::from_secs(40)), None]);
        let flow = metrics.flow.expect("a flow");
        assert_eq!(flow.counted, [0, 5, 0, 0, 0, 0, 0, 0]);
        assert_eq!((flow.failed(Lane::Bulk), flow.failed(Lane::Transactional)), (4, 0));
    }

    #[test]
    fn no_metrics_are_not_the_same_as_zeroes() {
        assert_eq!(of(&vec![Points::default(); MANY], at(0)), Metrics::default());
    }
}
