//! `GetMetricData`: what metrics were, minute by minute.

use std::{collections::BTreeMap, time::Duration};

use aws_config::SdkConfig;
use redial_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Caller;
use crate::asked::Trouble;

/// The most metrics of a call (API reference).
const AT_ONCE: usize = 500;

/// The smallest period that these metrics have, in seconds.
const PERIOD_SECS: u32 = 60;

/// A metric with its dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) namespace: &'static str,
    pub(crate) metric: &'static str,
    /// Names and values.
    pub(crate) dimensions: Vec<(&'static str, String)>,
    /// `Sum`, `Maximum`, …
    pub(crate) statistic: &'static str,
}

/// A metric's values by their minutes; a minute in which nothing was told has none.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Points(BTreeMap<Timestamp, f64>);

impl Points {
    #[cfg(test)]
    pub(crate) fn of(points: &[(Timestamp, f64)]) -> Self {
        Self(points.iter().copied().collect())
    }

    /// The newest value.
    pub(crate) fn latest(&self) -> Option<f64> {
        self.0.last_key_value().map(|(_, value)| *value)
    }

    /// Those of the minutes that began at `since` or later, together; `None` if there is none.
    pub(crate) fn sum_since(&self, since: Timestamp) -> Option<f64> {
        let values: Vec<f64> = self.0.range(since..).map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    metric_data_results: Vec<Series>,
    #[serde(default)]
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Series {
    id: String,
    #[serde(default)]
    timestamps: Vec<Value>,
    #[serde(default)]
    values: Vec<f64>,
}

/// What these metrics were within the last `within`, in the order in which they are asked for.
pub(crate) async fn metrics(
    sdk: &SdkConfig,
    asked: &[Asked],
    within: Duration,
    now: Timestamp,
) -> Result<Vec<Points>, Trouble> {
    let caller = Caller::new(sdk)?;
    let mut points = vec![Points::default(); asked.len()];
    for (chunk, first) in asked.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
        let queries: Vec<Value> = chunk.iter().zip(first..).map(|(asked, at)| query(asked, at)).collect();
        let mut call = json!({
            "MetricDataQueries": queries,
            "StartTime": now.minus(within).as_secs(),
            // The minute that has begun is one of them.
            "EndTime": now.as_secs() + i64::from(PERIOD_SECS),
        });
        loop {
            let answer: Answer = caller.call("GetMetricData", &call).await?;
            answer.metric_data_results.iter().for_each(|series| take(series, &mut points));
            match answer.next_token {
                Some(token) => call["NextToken"] = token.into(),
                None => break,
            }
        }
    }
    Ok(points)
}

fn query(asked: &Asked, at: usize) -> Value {
    let Asked { namespace, metric, dimensions, statistic } = asked;
    let dimensions: Vec<Value> =
        dimensions.iter().map(|(name, value)| json!({"Name": name, "Value": value})).collect();
    let metric = json!({"Namespace": namespace, "MetricName": metric, "Dimensions": dimensions});
    json!({
        // An id begins with a small letter.
        "Id": format!("m{at}"),
        "MetricStat": {"Metric": metric, "Period": PERIOD_SECS, "Stat": statistic},
    })
}

fn take(series: &Series, points: &mut [Points]) {
    let at = series.id.strip_prefix('m').and_then(|at| at.parse::<usize>().ok());
    let Some(points) = at.and_then(|at| points.get_mut(at)) else { return };
    let times = series.timestamps.iter().map(time);
    points.0.extend(times.zip(&series.values).filter_map(|(time, value)| Some((time?, *value))));
}

/// Seconds since the epoch, as AWS says it, or RFC 3339, as emulators do.
fn time(value: &Value) -> Option<Timestamp> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time in this protocol is far from the ends of its type"
    )]
    let seconds = value.as_f64().map(|seconds| Timestamp::from_secs(seconds as i64));
    seconds.or_else(|| Timestamp::parse_rfc3339(value.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, of: usize) -> Vec<Points> {
        let answer: Answer = serde_json::from_str(text).expect("an answer");
        let mut points = vec![Points::default(); of];
        answer.metric_data_results.iter().for_each(|series| take(series, &mut points));
        points
    }

    #[test]
    fn the_latest_value_is_the_newest_in_whatever_order_and_words_the_times_come() {
        let points = read(
            r#"{"MetricDataResults": [
                {"Id": "m1", "Timestamps": [1795255560.0, 1795255500], "Values": [7.0, 5.0], "StatusCode": "Complete"},
                {"Id": "m0", "Timestamps": ["2026-11-21T10:05:00Z", "2026-11-21T10:06:00Z"], "Values": [1, 2]},
                {"Id": "m2"}
            ]}"#,
            3,
        );
        assert_eq!(points.iter().map(Points::latest).collect::<Vec<_>>(), [Some(2.0), Some(7.0), None]);
        let since = Timestamp::parse_rfc3339("2026-11-21T10:05:30Z").expect("a time");
        assert_eq!(
            points.iter().map(|it| it.sum_since(since)).collect::<Vec<_>>(),
            [Some(2.0), Some(7.0), None]
        );
    }

    #[test]
    fn pages_of_an_answer_are_one_and_what_was_not_asked_for_is_left_out() {
        let mut points =
            read(r#"{"MetricDataResults": [{"Id": "m0", "Timestamps": [60], "Values": [1]}]}"#, 1);
        let more = r#"{"Id": "m0", "Timestamps": [120], "Values": [2]}"#;
        take(&serde_json::from_str(more).expect("a series"), &mut points);
        take(&serde_json::from_str(&more.replace("m0", "m9")).expect("a series"), &mut points);
        assert_eq!(points[0].sum_since(Timestamp::from_secs(60)), Some(3.0));
    }

    #[test]
    fn a_metric_is_asked_for_with_its_dimensions() {
        let asked = Asked {
            namespace: "AWS/SQS",
            metric: "ApproximateAgeOfOldestMessage",
            dimensions: vec![("QueueName", "ingest".to_owned())],
            statistic: "Maximum",
        };
        assert_eq!(
            query(&asked, 4),
            json!({"Id": "m4", "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SQS", "MetricName": "ApproximateAgeOfOldestMessage",
                    "Dimensions": [{"Name": "QueueName", "Value": "ingest"}],
                },
                "Period": 60, "Stat": "Maximum",
            }})
        );
    }
}
