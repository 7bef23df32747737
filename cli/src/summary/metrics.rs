//! What CloudWatch was told: how old each queue's oldest message is, and what the whole stack did in the last minutes.
//!
//! Redial's own metrics have the stack for their dimension and no lane, so what was sent and what failed is told of the stack
//! as a whole. CloudWatch hears of it when an invocation ends, and shows it about a minute later.

use std::time::Duration;

use redial_adapters::telemetry::NAMESPACE;
use redial_core::{metric::Metric, time::Timestamp};

use super::queues::Place;
use crate::{
    asked::Trouble,
    cloudwatch::{Asked, Points, metrics},
    target::Target,
};

/// What is told of the last minutes.
pub(super) const FLOW: [Metric; 8] = [
    Metric::Attempts,
    Metric::Sent,
    Metric::Retried,
    Metric::Deferred,
    Metric::DeadLetters,
    Metric::FailedNoRetries,
    Metric::Expired,
    Metric::Gone,
];

/// How many minutes of it.
pub(super) const FLOW_OF: Duration = Duration::from_secs(5 * 60);

/// How far back an age is looked for: SQS tells of a queue once a minute, and some minutes late.
const AGE_OF: Duration = Duration::from_secs(15 * 60);

/// How old each queue's oldest message is, where that is known.
pub(super) type Ages = [Option<Duration>; Place::ALL.len()];

/// What CloudWatch was told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Told {
    pub(super) ages: Ages,
    /// How often each of [`FLOW`] was; `None` where nothing at all was told.
    pub(super) flow: Option<[u64; FLOW.len()]>,
}

/// Asks for all of it in one call.
pub(super) async fn told(target: &Target, now: Timestamp) -> Result<Told, Trouble> {
    let ages = Place::ALL.map(|place| Asked {
        namespace: "AWS/SQS",
        metric: "ApproximateAgeOfOldestMessage",
        dimension: ("QueueName", place.name(target).to_owned()),
        statistic: "Maximum",
    });
    let flow = FLOW.map(|metric| Asked {
        namespace: NAMESPACE,
        metric: metric.label(),
        dimension: ("Stack", target.name.clone()),
        statistic: "Sum",
    });
    let asked: Vec<Asked> = ages.into_iter().chain(flow).collect();
    let points = metrics(&target.sdk, &asked, AGE_OF, now).await?;
    Ok(of(&points, now))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of five minutes is no fraction, not negative, and far from the end of its type"
)]
fn of(points: &[Points], now: Timestamp) -> Told {
    let (ages, flow) = points.split_at(Place::ALL.len().min(points.len()));
    let age = |points: &Points| {
        points.latest().and_then(|secs| Duration::try_from_secs_f64(secs).ok()).filter(|age| !age.is_zero())
    };
    let counts: Vec<Option<f64>> = flow.iter().map(|points| points.sum_since(now.minus(FLOW_OF))).collect();
    let count = |at: usize| counts.get(at).copied().flatten().map_or(0, |count| count as u64);
    Told {
        ages: std::array::from_fn(|at| ages.get(at).and_then(age)),
        flow: counts.iter().any(Option::is_some).then(|| std::array::from_fn(count)),
    }
}

/// A metric's name: `DeadLetters` as `dead letters`.
pub(super) fn in_words(metric: Metric) -> String {
    let mut words = String::new();
    for (at, letter) in metric.label().char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_255_200 + secs)
    }

    #[test]
    fn the_newest_age_counts_and_the_sum_of_five_minutes() {
        let mut points = vec![Points::default(); Place::ALL.len() + FLOW.len()];
        points[0] = Points::of(&[(at(0), 100.0), (at(60), 40.0)]);
        points[1] = Points::of(&[(at(60), 0.0)]);
        points[Place::ALL.len() + 1] = Points::of(&[(at(0), 7.0), (at(60), 2.0), (at(300), 3.0)]);
        let told = of(&points, at(330));
        assert_eq!(told.ages[..2], [Some(Duration::from_secs(40)), None]);
        assert_eq!(told.flow, Some([0, 5, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_metric_is_named_in_words() {
        assert_eq!(in_words(Metric::FailedNoRetries), "failed no retries");
    }

    #[test]
    fn that_nothing_was_told_is_not_the_same_as_nothing() {
        let points = vec![Points::default(); Place::ALL.len() + FLOW.len()];
        assert_eq!(of(&points, at(0)), Told::default());
    }
}
