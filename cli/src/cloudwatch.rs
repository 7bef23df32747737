//! CloudWatch: alarms as they are now, and what metrics were, minute by minute.

use std::{collections::BTreeMap, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::{
    Client,
    primitives::DateTime,
    types::{
        AlarmType, Dimension, Metric, MetricAlarm, MetricDataQuery, MetricDataResult, MetricStat, StateValue,
        StatusCode,
    },
};
use redial_core::time::Timestamp;

use crate::aws_error::{AwsError, classified};

/// The most alarms of one response (API reference).
const ALARMS_AT_ONCE: usize = 100;

/// The most metrics of one request (API reference).
const METRICS_AT_ONCE: usize = 500;

/// The smallest period that these metrics have, in seconds, and the one by which more than a day is read: by the minute, a fortnight would be
/// pages of values.
const PERIOD_SECS: i32 = 60;
const LONG_PERIOD_SECS: i32 = 300;
const A_DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alarm {
    pub(crate) name: String,
    pub(crate) is_firing: bool,
    /// Whether it does anything when it fires.
    pub(crate) notifies: bool,
}

impl Alarm {
    fn new(
        name: Option<&str>,
        state: Option<&StateValue>,
        enabled: Option<bool>,
        actions: &[String],
    ) -> Self {
        Self {
            name: name.unwrap_or_default().to_owned(),
            is_firing: state == Some(&StateValue::Alarm),
            notifies: enabled != Some(false) && !actions.is_empty(),
        }
    }
}

/// Those of these names that exist.
pub(crate) async fn alarms(sdk: &SdkConfig, names: &[String]) -> Result<Vec<Alarm>, AwsError> {
    let client = Client::new(sdk);
    let mut alarms = Vec::new();
    for names in names.chunks(ALARMS_AT_ONCE) {
        let described = client
            .describe_alarms()
            .set_alarm_names(Some(names.to_vec()))
            .alarm_types(AlarmType::MetricAlarm)
            .alarm_types(AlarmType::CompositeAlarm)
            .max_records(ALARMS_AT_ONCE as i32)
            .send()
            .await;
        let described = classified("cloudwatch:DescribeAlarms", described)?;
        let (metric, composite) = (described.metric_alarms(), described.composite_alarms());
        alarms.extend(metric.iter().map(|it| {
            Alarm::new(it.alarm_name(), it.state_value(), it.actions_enabled(), it.alarm_actions())
        }));
        alarms.extend(composite.iter().map(|it| {
            Alarm::new(it.alarm_name(), it.state_value(), it.actions_enabled(), it.alarm_actions())
        }));
    }
    Ok(alarms)
}

/// The metric alarms of these names, with their rules.
pub(crate) async fn metric_alarms(sdk: &SdkConfig, names: &[String]) -> Result<Vec<MetricAlarm>, AwsError> {
    let client = Client::new(sdk);
    let mut alarms = Vec::new();
    for names in names.chunks(ALARMS_AT_ONCE) {
        let call = client.describe_alarms().set_alarm_names(Some(names.to_vec()));
        let call = call.alarm_types(AlarmType::MetricAlarm).max_records(ALARMS_AT_ONCE as i32);
        let described = classified("cloudwatch:DescribeAlarms", call.send().await)?;
        alarms.extend(described.metric_alarms.into_iter().flatten());
    }
    Ok(alarms)
}

/// A metric with its dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Query {
    pub(crate) namespace: &'static str,
    pub(crate) metric: &'static str,
    /// Names and values.
    pub(crate) dimensions: Vec<(&'static str, String)>,
    /// `Sum`, `Maximum`, …
    pub(crate) statistic: &'static str,
}

/// A metric's values by the minutes that they begin at; a minute without data has none.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Points(BTreeMap<Timestamp, f64>);

impl Points {
    #[cfg(test)]
    pub(crate) fn of(points: &[(Timestamp, f64)]) -> Self {
        Self(points.iter().copied().collect())
    }

    pub(crate) fn latest(&self) -> Option<f64> {
        self.0.last_key_value().map(|(_, value)| *value)
    }

    /// The newest of the minutes that began at `since` or later.
    pub(crate) fn latest_since(&self, since: Timestamp) -> Option<f64> {
        self.0.range(since..).next_back().map(|(_, value)| *value)
    }

    /// The sum over the minutes that began at `since` or later; `None` if there is none.
    pub(crate) fn sum_since(&self, since: Timestamp) -> Option<f64> {
        let values: Vec<f64> = self.0.range(since..).map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    fn add(&mut self, result: &MetricDataResult) {
        let times = result.timestamps().iter().map(|at| Timestamp::from_secs(at.secs()));
        self.0.extend(times.zip(result.values().iter().copied()));
    }
}

/// What these metrics were within the last `within`, in the order of the queries: by the minute, or of more than a day by five minutes.
pub(crate) async fn metrics(
    sdk: &SdkConfig,
    queries: &[Query],
    within: Duration,
    now: Timestamp,
) -> Result<Vec<Points>, AwsError> {
    let client = Client::new(sdk);
    let period = if within > A_DAY { LONG_PERIOD_SECS } else { PERIOD_SECS };
    let mut points = vec![Points::default(); queries.len()];
    for (queries, points) in queries.chunks(METRICS_AT_ONCE).zip(points.chunks_mut(METRICS_AT_ONCE)) {
        let mut pages = client
            .get_metric_data()
            .set_metric_data_queries(Some(
                queries.iter().enumerate().map(|it| data_query(it, period)).collect(),
            ))
            .start_time(DateTime::from_secs(now.minus(within).as_secs()))
            // The minute that has begun is one of them.
            .end_time(DateTime::from_secs(now.as_secs() + i64::from(PERIOD_SECS)))
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            let page = classified("cloudwatch:GetMetricData", page)?;
            for result in page.metric_data_results() {
                whole(result, page.next_token().is_some())?;
                if let Some(points) = index(result).and_then(|index| points.get_mut(index)) {
                    points.add(result);
                }
            }
        }
    }
    Ok(points)
}

/// Fails where CloudWatch has no answer for a metric, which is not the same as a metric without values.
fn whole(result: &MetricDataResult, has_more: bool) -> Result<(), AwsError> {
    match result.status_code() {
        None | Some(StatusCode::Complete) => Ok(()),
        Some(StatusCode::PartialData) if has_more => Ok(()),
        Some(status) => {
            let words = format!("a metric could not be read: {}", status.as_str());
            Err(AwsError::of("cloudwatch:GetMetricData", Some(status.as_str()), words))
        }
    }
}

fn data_query((index, query): (usize, &Query), period: i32) -> MetricDataQuery {
    let dimensions =
        query.dimensions.iter().map(|(name, value)| Dimension::builder().name(*name).value(value));
    let metric = Metric::builder()
        .namespace(query.namespace)
        .metric_name(query.metric)
        .set_dimensions(Some(dimensions.map(|it| it.build()).collect()));
    let stat = MetricStat::builder().metric(metric.build()).period(period).stat(query.statistic);
    // An id begins with a small letter.
    MetricDataQuery::builder().id(format!("m{index}")).metric_stat(stat.build()).build()
}

fn index(result: &MetricDataResult) -> Option<usize> {
    result.id()?.strip_prefix('m')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_without_enabled_actions_notifies_no_one() {
        let topic = ["arn:topic".to_owned()];
        for (enabled, actions, notifies) in
            [(None, &topic[..], true), (Some(false), &topic[..], false), (None, &[], false)]
        {
            let alarm = Alarm::new(Some("a"), Some(&StateValue::Alarm), enabled, actions);
            assert_eq!(alarm, Alarm { name: "a".to_owned(), is_firing: true, notifies });
        }
    }

    #[test]
    fn results_in_any_order_and_on_several_pages_are_one_series() {
        let result = |id: &str, points: &[(i64, f64)]| {
            let (times, values) = points.iter().map(|(at, value)| (DateTime::from_secs(*at), *value)).unzip();
            MetricDataResult::builder().id(id).set_timestamps(Some(times)).set_values(Some(values)).build()
        };
        let mut points = Points::default();
        points.add(&result("m0", &[(180, 7.0), (60, 5.0)]));
        points.add(&result("m0", &[(120, 2.0)]));
        assert_eq!(points.latest(), Some(7.0));
        assert_eq!(points.sum_since(Timestamp::from_secs(120)), Some(9.0));
        assert_eq!(Points::default().sum_since(Timestamp::from_secs(0)), None);
        assert_eq!(["m0", "m17", "q1"].map(|id| index(&result(id, &[]))), [Some(0), Some(17), None]);
    }

    #[test]
    fn a_metric_that_cannot_be_read_is_an_error() {
        for (status, has_more, is_whole) in [
            (StatusCode::Complete, false, true),
            (StatusCode::PartialData, true, true),
            (StatusCode::PartialData, false, false),
            (StatusCode::InternalError, true, false),
            (StatusCode::Forbidden, false, false),
        ] {
            let result = MetricDataResult::builder().id("m0").status_code(status.clone()).build();
            assert_eq!(whole(&result, has_more).is_ok(), is_whole, "{status:?} {has_more}");
        }
    }

    #[test]
    fn a_query_names_its_metric_with_dimensions() {
        let query = Query {
            namespace: "AWS/SQS",
            metric: "ApproximateAgeOfOldestMessage",
            dimensions: vec![("QueueName", "ingest".to_owned())],
            statistic: "Maximum",
        };
        let query = data_query((4, &query), 60);
        let stat = query.metric_stat().expect("a metric");
        let metric = stat.metric().expect("its name");
        assert_eq!((query.id(), stat.period(), stat.stat()), (Some("m4"), Some(60), Some("Maximum")));
        assert_eq!(metric.metric_name(), Some("ApproximateAgeOfOldestMessage"));
        let dimension = Dimension::builder().name("QueueName").value("ingest").build();
        assert_eq!((metric.namespace(), metric.dimensions()), (Some("AWS/SQS"), &[dimension][..]));
    }
}
