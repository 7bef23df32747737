//! The metrics that there are: those that the code writes, and AWS's own.
//!
//! What the code writes is read from the code, not copied from it: the real telemetry shows which metrics, dimensions and values each
//! way of counting writes, and the sources which metric is counted in which of those ways. So a metric that is renamed, or that loses
//! a dimension, leaves the alarms and widgets on it without a metric, and the tests beside this file name them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use redial_adapters::telemetry::JsonTelemetry;
use redial_core::{lane::Lane, metric::Metric, provider::Provider, reason::Reason, time::Timestamp};
use redial_engine::ports::Telemetry;
use redial_tests::files::{files_below, workspace};
use serde_json::Value;

use super::{Block, resources, section};

/// The stack's name, as CloudFormation puts it into a text.
pub(super) const STACK: &str = "${AWS::StackName}";

/// A metric's dimensions: names and values. What CloudFormation has to look up is written `${…}`.
pub(super) type Dimensions = BTreeMap<String, String>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Series {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) dimensions: Dimensions,
}

impl Series {
    fn new<const N: usize>(namespace: &str, name: &str, dimensions: [(&str, String); N]) -> Self {
        let dimensions = dimensions.map(|(name, value)| (name.to_owned(), value)).into();
        Self { namespace: namespace.to_owned(), name: name.to_owned(), dimensions }
    }
}

/// AWS's metrics that the template uses: namespace, dimension, what that dimension names, metrics.
const OF_AWS: [(&str, &str, &str, &str); 4] = [
    // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    (
        "AWS/SQS",
        "QueueName",
        "AWS::SQS::Queue",
        "ApproximateNumberOfMessagesVisible ApproximateAgeOfOldestMessage",
    ),
    // https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    (
        "AWS/States",
        "StateMachineArn",
        "AWS::Serverless::StateMachine",
        "ExecutionsStarted ExecutionsSucceeded ExecutionsFailed ExecutionsTimedOut ExecutionsAborted",
    ),
    // https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
    (
        "AWS/Lambda",
        "FunctionName",
        "AWS::Serverless::Function",
        "Invocations Errors Throttles Duration RecursiveInvocationsDropped AsyncEventsDropped",
    ),
    // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html
    ("AWS/DynamoDB", "TableName", "AWS::DynamoDB::Table", "ReadThrottleEvents WriteThrottleEvents"),
];

/// What DynamoDB writes for a table, and for each of its indexes.
pub(super) const THROTTLED: [&str; 2] = ["ReadThrottleEvents", "WriteThrottleEvents"];

pub(super) fn indexes<'a>(table: &Block<'a>) -> Vec<&'a str> {
    table.lines.iter().filter_map(|line| line.trim_start().strip_prefix("- IndexName: ")).collect()
}

#[derive(Clone, Debug)]
pub(super) struct Known(pub(super) BTreeSet<Series>);

impl Known {
    pub(super) fn all() -> Self {
        let mut known = written();
        for (namespace, dimension, of_type, names) in OF_AWS {
            for resource in resources(of_type) {
                // A queue's `Ref` is its URL; a function's is its name, and a state machine's its ARN.
                let attribute = if of_type == "AWS::SQS::Queue" { ".QueueName" } else { "" };
                let value = format!("${{{}{attribute}}}", resource.name);
                let dimensions = [(dimension, value)];
                known.extend(names.split(' ').map(|name| Series::new(namespace, name, dimensions.clone())));
            }
        }
        for table in resources("AWS::DynamoDB::Table") {
            for (index, name) in indexes(&table).into_iter().flat_map(|it| THROTTLED.map(|name| (it, name))) {
                let table = format!("${{{}}}", table.name);
                let dimensions = [("TableName", table), ("GlobalSecondaryIndexName", index.to_owned())];
                known.insert(Series::new("AWS/DynamoDB", name, dimensions));
            }
        }
        Self(known)
    }

    pub(super) fn has(&self, series: &Series) -> bool {
        self.0.contains(series)
    }

    /// The same, as if the code named a metric otherwise.
    pub(super) fn with_renamed(&self, name: &str) -> Self {
        let renamed = |mut series: Series| {
            if series.name == name {
                series.name = format!("Renamed{name}");
            }
            series
        };
        Self(self.0.iter().cloned().map(renamed).collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Count,
    CountWith,
    CountOn,
    Measure,
    MeasureOn,
    DeadLetter,
}

impl Way {
    fn count_all(self, telemetry: &JsonTelemetry) {
        match self {
            Self::Count => Metric::ALL.into_iter().for_each(|metric| telemetry.count(metric, 1)),
            Self::Measure => Metric::ALL.into_iter().for_each(|metric| telemetry.measure(metric, 1.0)),
            Self::MeasureOn => {
                for lane in Lane::ALL {
                    Metric::ALL.into_iter().for_each(|metric| telemetry.measure_on(metric, lane, 1.0));
                }
            }
            Self::DeadLetter => {
                let letter = |reason: &Reason| telemetry.dead_letter(*reason, Some(Lane::Bulk));
                Reason::ALL.iter().for_each(letter);
            }
            Self::CountOn => {
                for lane in Lane::ALL {
                    Metric::ALL.into_iter().for_each(|metric| telemetry.count_on(metric, lane, 1));
                }
            }
            Self::CountWith => {
                for provider in Provider::ALL {
                    Metric::ALL.into_iter().for_each(|metric| telemetry.count_with(metric, provider, 1));
                }
            }
        }
    }
}

fn written_by(way: Way) -> BTreeSet<Series> {
    let telemetry = JsonTelemetry::new(STACK.to_owned());
    way.count_all(&telemetry);
    telemetry.take_lines(Timestamp::from_ms(0)).iter().flat_map(series_of).collect()
}

fn series_of(line: &Value) -> Vec<Series> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut found = Vec::new();
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        for names in directive["Dimensions"].as_array().expect("sets of dimensions") {
            let names = names.as_array().expect("a set of dimensions").iter().map(text);
            let dimensions: Dimensions = names.map(|name| (name.clone(), text(&line[&name]))).collect();
            for metric in directive["Metrics"].as_array().expect("metrics") {
                let (namespace, name) = (text(&directive["Namespace"]), text(&metric["Name"]));
                found.push(Series { namespace, name, dimensions: dimensions.clone() });
            }
        }
    }
    found
}

fn written() -> BTreeSet<Series> {
    let of_way = |(metric, way): (Metric, Way)| {
        written_by(way).into_iter().filter(move |series| series.name == metric.label())
    };
    ways_by_metric().into_iter().flat_map(of_way).collect()
}

fn ways_by_metric() -> BTreeSet<(Metric, Way)> {
    let mut ways = BTreeSet::new();
    for (path, source) in sources() {
        if source.contains(".dead_letter(") {
            ways.insert((Metric::DeadLetters, Way::DeadLetter));
        }
        for (at, mention) in source.match_indices("Metric::") {
            let name: String =
                source[at + mention.len()..].chars().take_while(char::is_ascii_alphanumeric).collect();
            let Some(metric) = Metric::ALL.into_iter().find(|metric| format!("{metric:?}") == name) else {
                continue;
            };
            let before = source[..at].trim_end();
            let is_of_table = source.contains(".count(metric, 1)")
                && before.strip_suffix('(').is_some_and(|before| before.trim_end().ends_with([',', '[']));
            let calls = [
                (".count(", Way::Count),
                // Chosen in a `match` or a table, and counted after it.
                ("=>", Way::Count),
                (".count_with(", Way::CountWith),
                (".count_on(", Way::CountOn),
                (".measure(", Way::Measure),
                (".measure_on(", Way::MeasureOn),
            ];
            let way = calls.into_iter().find(|(call, _)| before.ends_with(call)).map(|(_, way)| way);
            match way.or(is_of_table.then_some(Way::Count)) {
                Some(way) => _ = ways.insert((metric, way)),
                // By reason, in the telemetry itself.
                None if metric == Metric::DeadLetters => {}
                None => panic!("how is {name} counted in {}?", path.display()),
            }
        }
    }
    ways
}

/// What runs in the functions, but for the list of the metrics itself and for tests.
fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    let folders = ["shared/core/src", "shared/engine/src", "shared/adapters/src", "functions"];
    let files = folders.into_iter().flat_map(|folder| files_below(workspace().join(folder)));
    let runs = |path: &PathBuf| {
        let path = path.strip_prefix(workspace()).expect("below the root").to_string_lossy();
        path.ends_with(".rs") && !path.contains("tests") && !path.ends_with("/metric.rs")
    };
    files.filter(runs).map(|path| {
        let source = std::fs::read_to_string(&path).expect("text");
        let production = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        (path, production)
    })
}

#[test]
fn each_way_of_counting_is_written_with_its_dimensions() {
    for (way, expected) in [
        (Way::Count, &["Stack"][..]),
        (Way::Measure, &["Stack"]),
        (Way::MeasureOn, &["Lane Stack"]),
        (Way::CountWith, &["Stack"]),
        (Way::CountOn, &["Lane Stack", "Stack"]),
        (Way::DeadLetter, &["Lane Stack", "Stack"]),
    ] {
        let names = |series: Series| series.dimensions.into_keys().collect::<Vec<_>>().join(" ");
        let written: BTreeSet<String> = written_by(way).into_iter().map(names).collect();
        assert!(written.iter().eq(expected), "{way:?}: {written:?}");
    }
}

#[test]
fn every_metric_on_the_list_is_one_that_something_counts() {
    let counted: BTreeSet<Metric> = ways_by_metric().into_iter().map(|(metric, _)| metric).collect();
    assert_eq!(counted, Metric::ALL.into_iter().collect());
    // The dimension that the template watches is the one that the functions write.
    let globals = section("Globals");
    assert!(globals.iter().any(|line| line.trim() == "REDIAL_STACK: !Ref AWS::StackName"));
}
