//! The alarms: that each watches something that there is, says what it means, and reaches the topic.

use std::collections::BTreeSet;

use redial_core::metric::Metric;

use super::{
    Block, TEMPLATE,
    metrics::{Known, Series},
    parameter, resources,
};

/// The longest description that CloudWatch takes, in characters (PutMetricAlarm).
const LONGEST_DESCRIPTION: u64 = 1024;

pub(super) fn alarms() -> Vec<Block<'static>> {
    resources("AWS::CloudWatch::Alarm")
}

/// What an alarm watches: its one metric, or those that its expression is made of.
pub(super) fn series(alarm: &Block<'_>) -> Vec<Series> {
    let text = alarm.lines.join("\n");
    let up_to = |text: &str, ends: &[char]| text.split(ends).next().unwrap_or_default().trim().to_owned();
    let after = |text: &str, key: &str| {
        let (_, rest) = text.split_once(key).unwrap_or_else(|| panic!("{}: no {key}", alarm.name));
        rest.to_owned()
    };
    let one = |text: &str| {
        let dimensions = up_to(&after(text, "Dimensions: ["), &[']']);
        let dimensions = dimensions.split("Name: ").skip(1).map(|dimension| {
            let (name, value) = dimension.split_once(", Value: ").expect("a name and a value");
            (name.to_owned(), resolved(&up_to(value, &['}'])))
        });
        Series {
            namespace: up_to(text, &[',', '\n']),
            name: up_to(&after(text, "MetricName: "), &[',', '\n']),
            dimensions: dimensions.collect(),
        }
    };
    text.split("Namespace: ").skip(1).map(one).collect()
}

/// `!Ref X` and `!GetAtt X.Y`, as they are written within a text.
fn resolved(value: &str) -> String {
    match value.strip_prefix("!Ref ").or_else(|| value.strip_prefix("!GetAtt ")) {
        Some(name) => format!("${{{name}}}"),
        None => value.to_owned(),
    }
}

/// The alarms on metrics that are written nowhere, and on which.
fn on_nothing(known: &Known) -> Vec<(&'static str, Series)> {
    let all = alarms().into_iter();
    let series = all.flat_map(|alarm| series(&alarm).into_iter().map(move |series| (alarm.name, series)));
    series.filter(|(_, series)| !known.has(series)).collect()
}

#[test]
fn every_alarm_watches_metrics_that_the_code_or_aws_writes_with_those_dimensions() {
    assert_eq!(on_nothing(&Known::all()), []);
    for alarm in alarms() {
        let names = alarm.lines.iter().filter(|line| line.contains("MetricName: ")).count();
        assert!(names > 0 && series(&alarm).len() == names, "{} was not understood", alarm.name);
    }
}

#[test]
fn a_metric_that_is_renamed_in_the_code_leaves_its_alarms_on_nothing() {
    let known = Known::all();
    let mut renamed = 0;
    for metric in Metric::ALL.map(Metric::label) {
        let expected: Vec<_> = alarms()
            .iter()
            .flat_map(|alarm| series(alarm).into_iter().map(|series| (alarm.name, series)))
            .filter(|(_, series)| series.namespace == "Redial" && series.name == metric)
            .collect();
        renamed += usize::from(!expected.is_empty());
        assert_eq!(on_nothing(&known.with_renamed(metric)), expected, "{metric}");
    }
    assert!(renamed > 10, "{renamed}");
}

#[test]
fn what_the_alarms_are_promised_to_watch_is_watched() {
    let watched: BTreeSet<String> = alarms().iter().flat_map(series).map(|series| series.name).collect();
    let ours = "Retried SentOnRetry PermanentFailures ServiceUnavailable BadRequests InDoubt RetryOverhead DeadLetters \
                Poison DispatchFailures CleanupFailures Quarantined EndpointsDisabled PoliciesIgnored BreakersOpened WaitsSwept";
    let of_aws = "ApproximateNumberOfMessagesVisible ApproximateAgeOfOldestMessage ExecutionsFailed ExecutionsTimedOut \
                  ExecutionsAborted AsyncEventsDropped Errors Throttles RecursiveInvocationsDropped";
    for metric in ours.split(' ').chain(of_aws.split(' ')) {
        assert!(watched.contains(metric), "{metric}");
    }
}

#[test]
fn every_alarm_explains_itself_ignores_missing_data_and_notifies_the_topic() {
    let address = parameter("RunbookUrl").number("MaxLength");
    for alarm in alarms() {
        let description = alarm.value("AlarmDescription").unwrap_or_default();
        let said = description
            .strip_prefix("!Sub \"")
            .and_then(|text| text.split_once(". What to do: ${RunbookUrl}#"));
        let (means, _) = said.unwrap_or_else(|| panic!("{}: {description}", alarm.name));
        assert!(means.len() > 20, "{}: {means}", alarm.name);
        assert!(description.len() as u64 + address < LONGEST_DESCRIPTION, "{}", alarm.name);
        assert_eq!(alarm.value("TreatMissingData"), Some("notBreaching"), "{}", alarm.name);
        let topic = "!If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref \"AWS::NoValue\"]";
        assert_eq!(alarm.value("AlarmActions"), Some(topic), "{}", alarm.name);
    }
    assert!(TEMPLATE.contains("  HasAlarmTopic: !Not [!Equals [!Ref AlarmTopicArn, \"\"]]\n"));
}

#[test]
fn an_expression_uses_metrics_of_its_alarm_and_has_one_result() {
    for alarm in alarms() {
        let Some(expression) = alarm.value("Expression") else { continue };
        let after = |key: &'static str| {
            alarm.lines.iter().filter_map(move |line| line.split_once(key)).map(|(_, it)| it)
        };
        let declared: BTreeSet<&str> = after("- Id: ").collect();
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // Functions are in capitals.
        let used: BTreeSet<&str> =
            words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
        let (result, of): (BTreeSet<&str>, _) =
            declared.iter().partition(|id| ["share", "band", "events"].contains(*id));
        assert_eq!((used, result.len()), (of, 1), "{}: {expression}", alarm.name);
        assert_eq!(after("Period: ").collect::<BTreeSet<_>>().len(), 1, "{}", alarm.name);
        // A band is returned together with what it is about.
        let returned = if declared.contains("band") { 2 } else { 1 };
        assert_eq!(after("ReturnData: ").filter(|it| *it == "true").count(), returned, "{}", alarm.name);
    }
}

/// The alarms that a stack has unless its operator asks for more: whatever fails, one of them goes off.
#[test]
fn the_basic_alarms_watch_functions_queues_dead_letters_breakers_and_waits() {
    let of =
        |condition| alarms().into_iter().filter(move |alarm| alarm.value("Condition") == Some(condition));
    let (mut basic, mut all): (Vec<_>, Vec<_>) = (of("HasAlarms").collect(), of("HasAllAlarms").collect());
    let page = include_str!("../../../infra/docs/operate.md");
    let named =
        [format!("`basic` ({} alarms,", basic.len()), format!("`full` ({}, of", basic.len() + all.len())];
    assert!(named.iter().all(|it| page.contains(it)), "{named:?}");
    // Of a queue that a stack has only where it relays events.
    basic.extend(of("HasRelayAlarms"));
    all.extend(of("HasAllRelayAlarms"));
    assert_eq!(basic.len() + all.len(), alarms().len(), "each has one of these conditions");
    assert!(TEMPLATE.contains("  HasAlarms: !Not [!Equals [!Ref Alarms, none]]\n"));
    assert!(TEMPLATE.contains("  HasAllAlarms: !Equals [!Ref Alarms, full]\n"));
    for (with, of) in [("HasRelayAlarms", "HasAlarms"), ("HasAllRelayAlarms", "HasAllAlarms")] {
        assert!(TEMPLATE.contains(&format!("  {with}: !And [!Condition RelaysEvents, !Condition {of}]\n")));
    }
    assert_eq!(parameter("Alarms").value("AllowedValues"), Some("[full, basic, none]"));

    let watched: Vec<Series> = basic.iter().flat_map(series).collect();
    // CloudWatch bills an alarm by its metrics.
    assert!(watched.len() <= 27, "{}", watched.len());
    for (of_type, attribute, metric) in [
        ("AWS::Serverless::Function", "", "Errors"),
        ("AWS::Serverless::Function", "", "Throttles"),
        ("AWS::SQS::Queue", ".QueueName", "ApproximateAgeOfOldestMessage"),
    ] {
        for resource in resources(of_type).iter().filter(|it| it.name != "QuarantineQueue") {
            let value = format!("${{{}{attribute}}}", resource.name);
            let is_watched =
                |it: &Series| it.name == metric && it.dimensions.values().any(|named| *named == value);
            assert!(watched.iter().any(is_watched), "{metric} of {}", resource.name);
        }
    }
    let names: BTreeSet<&str> = watched.iter().map(|series| series.name.as_str()).collect();
    for name in [
        "DeadLetters",
        "PermanentFailures",
        "Poison",
        "DispatchFailures",
        "CleanupFailures",
        "BreakersOpened",
        "WaitsSwept",
        "RequestsFailed",
    ] {
        assert!(names.contains(name), "{name}");
    }
}
