//! The dashboard: JSON within the template, of whose metrics CloudWatch, too, draws nothing where there is none.

use std::collections::BTreeSet;

use redial_adapters::telemetry::JsonTelemetry;
use redial_core::{metric::Metric, provider::Provider, time::Timestamp};
use redial_engine::ports::Telemetry as _;
use serde_json::Value;

use super::{
    Block,
    alarms::alarms,
    metrics::{Dimensions, Known, Series},
    resources, section,
};

/// Its widgets. What CloudFormation fills in stands in texts, so that it is JSON before that, too.
fn widgets() -> Vec<Value> {
    let dashboards = resources("AWS::CloudWatch::Dashboard");
    let [dashboard] = dashboards.as_slice() else { panic!("there is one dashboard") };
    let lines = dashboard.lines.iter().skip_while(|line| line.trim() != "DashboardBody: !Sub |").skip(1);
    let body: String = lines.copied().collect();
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    body["widgets"].as_array().expect("a list of widgets").clone()
}

/// What a widget shows, but for expressions; and its expressions.
fn shown(widget: &Value) -> (Vec<Series>, Vec<String>) {
    let (mut series, mut expressions) = (Vec::new(), Vec::new());
    for row in widget["properties"]["metrics"].as_array().into_iter().flatten() {
        let row = row.as_array().expect("a row is a list");
        let mut texts = row.iter().map_while(Value::as_str).map(str::to_owned);
        match (texts.next(), texts.next()) {
            (Some(namespace), Some(name)) => {
                let mut dimensions = Dimensions::new();
                while let Some(name) = texts.next() {
                    dimensions.insert(name, texts.next().expect("a dimension has a value"));
                }
                series.push(Series { namespace, name, dimensions });
            }
            _ => expressions.push(row[0]["expression"].as_str().expect("an expression").to_owned()),
        }
    }
    (series, expressions)
}

/// What would be drawn empty, with the widget's title.
fn empty(known: &Known) -> Vec<(String, String)> {
    let mut empty = Vec::new();
    for widget in widgets() {
        let title = widget["properties"]["title"].as_str().expect("a widget has a title").to_owned();
        for series in shown(&widget).0.iter().filter(|series| !known.has(series)) {
            empty.push((title.clone(), series.name.clone()));
        }
    }
    empty
}

#[test]
fn every_widget_shows_metrics_that_the_code_or_aws_writes_with_those_dimensions() {
    assert_eq!(empty(&Known::all()), []);
    // Nothing that names a metric of ours went unread.
    let text = section("Resources").join("\n");
    let read: usize = widgets()
        .iter()
        .map(|widget| shown(widget).0.iter().filter(|it| it.namespace == "Redial").count())
        .sum();
    assert_eq!(read, text.matches("[\"Redial\",").count());
}

#[test]
fn a_metric_that_is_renamed_in_the_code_leaves_its_widgets_empty() {
    let known = Known::all();
    let all = section("Resources").join("\n");
    let mut renamed = 0;
    for metric in Metric::ALL.map(Metric::label) {
        let shown = all.contains(&format!("[\"Redial\",\"{metric}\","));
        let empty = empty(&known.with_renamed(metric));
        assert_eq!(!empty.is_empty(), shown, "{metric}: {empty:?}");
        assert!(empty.iter().all(|(_, name)| name == metric), "{empty:?}");
        renamed += usize::from(shown);
    }
    assert!(renamed > 15, "{renamed}");
}

/// What is no metric is read from the log: each event is written, and each class of origins has its field.
#[test]
fn every_query_reads_events_and_fields_that_the_functions_log() {
    let source = include_str!("../../../shared/adapters/src/telemetry.rs");
    let widgets = widgets();
    let queries = widgets.iter().filter(|widget| widget["type"] == "log");
    let queries: Vec<&str> = queries.filter_map(|widget| widget["properties"]["query"].as_str()).collect();
    assert_eq!(queries.len(), 3);
    for query in &queries {
        assert!(
            query.starts_with("SOURCE '${DispatchLogs}' | ")
                || query.starts_with("SOURCE '${CleanupLogs}' | ")
        );
        for event in query.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(source.contains(&format!("event = \"{event}\",")), "{event}");
        }
    }
    let telemetry = JsonTelemetry::new("stack".to_owned());
    for provider in Provider::ALL {
        telemetry.count_with(Metric::Deferred, provider, 1);
    }
    let line = telemetry.take_lines(Timestamp::default()).remove(0);
    let fields = line["DeferredByProvider"].as_object().expect("a field");
    let summed: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(summed.len(), Provider::ALL.len());
    for class in summed {
        assert!(queries[2].contains(&format!("sum(DeferredByProvider.{class}) as {class}")), "{class}");
    }
}

#[test]
fn the_first_widget_shows_the_state_of_every_alarm_that_each_stack_has() {
    let first = &widgets()[0];
    assert_eq!((first["type"].as_str(), first["y"].as_u64()), (Some("alarm"), Some(0)));
    let shown: Vec<&str> =
        first["properties"]["alarms"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let every_stack_s =
        |alarm: &&Block<'_>| !alarm.value("Condition").is_some_and(|it| it.ends_with("RelayAlarms"));
    let alarms = alarms();
    let all: Vec<String> =
        alarms.iter().filter(every_stack_s).map(|alarm| format!("${{{}.Arn}}", alarm.name)).collect();
    assert_eq!(shown, all);
    // https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    assert!(all.len() <= 100);
}

#[test]
fn the_widgets_lie_side_by_side_on_a_grid_of_24_columns() {
    let mut taken = BTreeSet::new();
    for widget in widgets() {
        let number = |key: &str| widget[key].as_u64().unwrap_or_else(|| panic!("{key} of {widget}"));
        assert!(number("x") + number("width") <= 24, "{widget}");
        for x in number("x")..number("x") + number("width") {
            for y in number("y")..number("y") + number("height") {
                assert!(taken.insert((x, y)), "column {x}, row {y} is taken twice: {widget}");
            }
        }
    }
}

#[test]
fn every_metric_widget_is_complete_and_uses_what_it_declares() {
    for widget in widgets().iter().filter(|widget| widget["type"] == "metric") {
        let properties = &widget["properties"];
        assert_eq!(properties["region"], "${AWS::Region}", "{widget}");
        assert!(properties["period"].as_u64().is_some_and(|period| period % 60 == 0), "{widget}");
        assert!(properties["stat"].is_string(), "{widget}");
        let rows = properties["metrics"].as_array().expect("rows");
        let ids: BTreeSet<&str> =
            rows.iter().filter_map(|row| row.as_array()?.last()?["id"].as_str()).collect();
        for expression in &shown(widget).1 {
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric());
            for id in words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
                assert!(ids.contains(id), "{id} in {expression}");
            }
        }
    }
}
