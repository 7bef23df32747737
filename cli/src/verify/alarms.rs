//! The alarms: when each fires. Whether they exist and act is `doctor`'s.

use aws_sdk_cloudwatch::types::{Dimension, MetricAlarm, MetricDataQuery};
use serde_json::{Value, json};

use super::{
    release::Release,
    settings::{Check, Settings},
};
use crate::{
    cloudwatch::metric_alarms,
    doctor::{Report, Stack},
};

const ALARM: &str = "AWS::CloudWatch::Alarm";

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let names = release.parts_of(ALARM).filter_map(|part| part.deployed_as.map(str::to_owned));
    let names: Vec<String> = names.collect();
    let alarms = metric_alarms(&stack.target.sdk, &names).await;
    let Some(alarms) = report.read("the stack's alarms", alarms) else { return };
    report.well(format!("{} alarms fire as the template says", alarms.len()));
    let mut check = Check { release, report };
    for part in release.parts_of(ALARM) {
        // `doctor` reports one that was deleted.
        let alarm = alarms.iter().find(|it| it.alarm_name().is_some() && it.alarm_name() == part.deployed_as);
        if let Some(alarm) = alarm {
            let remedy = "set it as the template has it: aws cloudwatch put-metric-alarm";
            check.compare(&part, Ok(settings(alarm)), remedy);
        }
    }
}

fn settings(alarm: &MetricAlarm) -> Settings {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let number = |number: Option<i32>| number.map_or(Value::Null, Value::from);
    let metrics = alarm.metrics();
    let mut settings = vec![
        ("ComparisonOperator", text(alarm.comparison_operator().map(|it| it.as_str()))),
        ("EvaluationPeriods", number(alarm.evaluation_periods())),
        ("DatapointsToAlarm", number(alarm.datapoints_to_alarm())),
        ("TreatMissingData", text(alarm.treat_missing_data())),
    ];
    if alarm.threshold_metric_id().is_none() {
        settings.push(("Threshold", alarm.threshold().map_or(Value::Null, Value::from)));
    }
    if metrics.is_empty() {
        settings.extend([
            ("Namespace", text(alarm.namespace())),
            ("MetricName", text(alarm.metric_name())),
            ("Dimensions", dimensions(alarm.dimensions())),
            ("Period", number(alarm.period())),
        ]);
        if let Some(statistic) = alarm.statistic() {
            settings.push(("Statistic", statistic.as_str().into()));
        }
    } else {
        settings.push(("Metrics", metrics.iter().map(metric).collect()));
    }
    settings
}

fn dimensions(dimensions: &[Dimension]) -> Value {
    let dimension = |it: &Dimension| json!({"Name": it.name(), "Value": it.value()});
    dimensions.iter().map(dimension).collect()
}

/// As the template has it: an expression, or a metric with its period and statistic.
fn metric(query: &MetricDataQuery) -> Value {
    let mut metric = json!({"Id": query.id(), "ReturnData": query.return_data().unwrap_or(true)});
    if let Some(expression) = query.expression() {
        metric["Expression"] = expression.into();
    }
    if let Some(stat) = query.metric_stat() {
        let of = stat.metric();
        metric["MetricStat"] = json!({
            "Metric": {
                "Namespace": of.and_then(|it| it.namespace()),
                "MetricName": of.and_then(|it| it.metric_name()),
                "Dimensions": dimensions(of.map(|it| it.dimensions()).unwrap_or_default()),
            },
            "Period": stat.period(),
            "Stat": stat.stat(),
        });
    }
    metric
}
