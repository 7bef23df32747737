//! That nothing that can fail silently is without an alarm, and that no alarm is silent because a metric is not there yet.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Block,
    alarms::{alarms, series},
    metrics::{Dimensions, THROTTLED, indexes},
    resources,
};

fn watched() -> BTreeSet<(String, Dimensions)> {
    alarms().iter().flat_map(series).map(|series| (series.name, series.dimensions)).collect()
}

fn is_watched(metric: &str, dimensions: &[(&str, String)]) -> bool {
    let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    watched().contains(&(metric.to_owned(), dimensions))
}

#[test]
fn every_queue_table_function_and_state_machine_is_watched() {
    for (of_type, dimension, attribute, metrics) in [
        ("AWS::SQS::Queue", "QueueName", ".QueueName", &["ApproximateNumberOfMessagesVisible"][..]),
        ("AWS::DynamoDB::Table", "TableName", "", &THROTTLED),
        ("AWS::Serverless::Function", "FunctionName", "", &["Errors", "Throttles"]),
        (
            "AWS::Serverless::StateMachine",
            "StateMachineArn",
            "",
            &["ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted"],
        ),
    ] {
        for resource in resources(of_type) {
            let name = (dimension, format!("${{{}{attribute}}}", resource.name));
            let mut metrics = metrics.to_vec();
            // What is in quarantine is twenty receives old: there it is the depth that counts.
            if of_type == "AWS::SQS::Queue" && resource.name != "QuarantineQueue" {
                metrics.push("ApproximateAgeOfOldestMessage");
            }
            let events = Block::all(&resource.lines, 8);
            if events.iter().any(|event| event.value("Type") == Some("Schedule")) {
                metrics.push("AsyncEventsDropped");
            }
            for metric in metrics {
                assert!(is_watched(metric, std::slice::from_ref(&name)), "{metric} of {}", resource.name);
            }
            for index in indexes(&resource) {
                let of_index = [name.clone(), ("GlobalSecondaryIndexName", index.to_owned())];
                assert!(is_watched("WriteThrottleEvents", &of_index), "{index} of {}", resource.name);
            }
        }
    }
}

#[test]
fn every_queue_that_feeds_dispatch_has_a_band_of_three_standard_deviations() {
    let banded: BTreeSet<String> = alarms()
        .iter()
        .filter(|alarm| alarm.value("Expression") == Some("ANOMALY_DETECTION_BAND(depth, 3)"))
        .flat_map(series)
        .map(|mut series| series.dimensions.remove("QueueName").unwrap_or_default())
        .collect();
    let dispatch = resources("AWS::Serverless::Function").swap_remove(0);
    assert_eq!(dispatch.name, "DispatchFunction");
    let fed: BTreeSet<String> = Block::all(&dispatch.lines, 8)
        .iter()
        .filter_map(|event| event.value("Queue")?.strip_prefix("!GetAtt ")?.strip_suffix(".Arn"))
        .map(|queue| format!("${{{queue}.QueueName}}"))
        .collect();
    assert_eq!((banded, fed.len()), (fed, 4));
}

/// The sums of one period, of those metrics that something was written of.
type Sums<'a> = BTreeMap<&'a str, f64>;

/// An expression of CloudWatch's metric math over one period, as far as the template uses it. What depends on a metric that is
/// missing is missing, and so is a division by nothing.
struct Reader<'a> {
    rest: &'a str,
    sums: &'a Sums<'a>,
}

impl Reader<'_> {
    fn takes(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expects(&mut self, token: &str) {
        assert!(self.takes(token), "{token} before {}", self.rest);
    }

    /// `a >= b`, which is one or nought, or just a sum.
    fn condition(&mut self) -> Option<f64> {
        let left = self.sum();
        if !self.takes(">=") {
            return left;
        }
        let right = self.sum();
        Some(f64::from(u8::from(left? >= right?)))
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product();
        while self.takes("+") {
            let next = self.product();
            value = value.zip(next).map(|(a, b)| a + b);
        }
        value
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.atom();
        loop {
            if self.takes("*") {
                let next = self.atom();
                value = value.zip(next).map(|(a, b)| a * b);
            } else if self.takes("/") {
                let next = self.atom().filter(|divisor| *divisor != 0.0);
                value = value.zip(next).map(|(a, b)| a / b);
            } else {
                return value;
            }
        }
    }

    /// What stands between commas, up to the end of a call.
    fn arguments<const N: usize>(&mut self, end: &str) -> [Option<f64>; N] {
        std::array::from_fn(|at| {
            let value = self.condition();
            self.expects(if at + 1 < N { "," } else { end });
            value
        })
    }

    fn atom(&mut self) -> Option<f64> {
        if self.takes("IF(") {
            let [condition, yes, no] = self.arguments(")");
            return if condition? == 0.0 { no } else { yes };
        }
        if self.takes("FILL(") {
            let [value, otherwise] = self.arguments(")");
            return value.or(otherwise);
        }
        if self.takes("MAX([") {
            let [a, b] = self.arguments("])");
            return a.zip(b).map(|(a, b)| a.max(b));
        }
        if self.takes("(") {
            let value = self.sum();
            self.expects(")");
            return value;
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.parse().ok().or_else(|| self.sums.get(word).copied())
    }
}

/// Whether an alarm on a share goes off in a period of these sums; nothing if it has no value.
fn goes_off(alarm: &Block<'_>, sums: &[(&str, f64)]) -> Option<bool> {
    let expression = alarm.value("Expression").expect("an expression").trim_matches('"');
    let sums = sums.iter().copied().collect();
    let mut reader = Reader { rest: expression, sums: &sums };
    let value = reader.condition();
    assert_eq!(reader.rest, "", "{expression}");
    let threshold: f64 = alarm.value("Threshold").and_then(|text| text.parse().ok()).expect("a number");
    match alarm.value("ComparisonOperator") {
        Some("GreaterThanThreshold") => value.map(|value| value > threshold),
        Some("LessThanThreshold") => value.map(|value| value < threshold),
        other => panic!("{}: {other:?}", alarm.name),
    }
}

/// The alarms on shares, with what is bad of what.
fn shares() -> Vec<(Block<'static>, &'static str, &'static str)> {
    let of = |alarm: Block<'static>| match alarm.name {
        "RetrySuccessAlarm" => (alarm, "retries", "successes"),
        "PermanentFailureAlarm" | "DispatchFailuresAlarm" => (alarm, "failures", "attempts"),
        "BadRequestAlarm" => (alarm, "refused", "attempts"),
        "ProviderUnavailableAlarm" => (alarm, "unavailable", "attempts"),
        "InDoubtAlarm" => (alarm, "doubtful", "attempts"),
        "DeadLetterShareAlarm" => (alarm, "letters", "sent"),
        name => panic!("{name} is a share of what?"),
    };
    let mut alarms = alarms();
    alarms.retain(|alarm| alarm.lines.iter().any(|line| line.trim() == "- Id: share"));
    assert_eq!(alarms.len(), 7);
    alarms.into_iter().map(of).collect()
}

#[test]
fn a_share_goes_off_without_its_other_metric_and_not_for_nothing_or_little() {
    for (alarm, bad, other) in shares() {
        for (sums, expected) in [
            (&[(bad, 30.0)][..], true),
            (&[(bad, 30.0), (other, 0.0)], true),
            (&[], false),
            (&[(bad, 3.0)], false),
            (&[(other, 1000.0)], false),
            (&[(other, 19.0)], false),
        ] {
            assert_eq!(goes_off(&alarm, sums), Some(expected), "{} {sums:?}", alarm.name);
        }
    }
}

#[test]
fn what_is_throttled_anywhere_at_a_table_sets_its_alarm_off() {
    let mut alarms = alarms();
    alarms.retain(|alarm| alarm.lines.iter().any(|line| line.trim() == "- Id: events"));
    assert_eq!(alarms.len(), resources("AWS::DynamoDB::Table").len());
    for alarm in alarms {
        let ids = alarm.lines.iter().filter_map(|line| line.trim().strip_prefix("- Id: "));
        for id in ids.filter(|id| *id != "events") {
            assert_eq!(goes_off(&alarm, &[(id, 1.0)]), Some(true), "{} {id}", alarm.name);
        }
        assert_eq!(goes_off(&alarm, &[]), Some(false), "{}", alarm.name);
    }
}
