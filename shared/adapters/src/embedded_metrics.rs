//! Metrics in CloudWatch's embedded metric format, which needs no call: log lines that CloudWatch reads as metrics.
//!
//! They are summed over an invocation, and have a line for the stack and one for each lane.

use std::collections::BTreeMap;

use redial_core::lane::Lane;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// The namespace of all metrics.
pub const NAMESPACE: &str = "Redial";

/// The dimension of every metric: the stack's name.
pub const STACK: &str = "Stack";

/// A second dimension of deliveries and failures: the lane's label.
pub const LANE: &str = "Lane";

/// The most values that one metric may have in one line (embedded metric format specification).
const MOST_VALUES: usize = 100;

/// A name and a value.
pub(crate) type Dimension = (&'static str, &'static str);

/// Sums since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Of the stack, and by a second name: a lane's is a dimension, and the others are fields.
    counts: BTreeMap<Option<Dimension>, BTreeMap<Metric, u64>>,
    /// Likewise; of an invocation the first hundred of each.
    values: BTreeMap<Option<Dimension>, BTreeMap<Metric, Vec<f64>>>,
}

impl Metrics {
    /// Adds to the sum of the stack, and to the sum of each of these dimensions.
    pub(crate) fn add(&mut self, metric: Metric, n: u64, by: impl IntoIterator<Item = Dimension>) {
        for dimension in std::iter::once(None).chain(by.into_iter().map(Some)) {
            *self.counts.entry(dimension).or_default().entry(metric).or_default() += n;
        }
    }

    pub(crate) fn add_value(&mut self, metric: Metric, value: f64, of: Option<Dimension>) {
        let values = self.values.entry(of).or_default().entry(metric).or_default();
        if values.len() < MOST_VALUES {
            values.push(value);
        }
    }

    /// A line for the stack, and one for each lane. Each metric of each dimension costs by the month, and only lanes are read as metrics; so
    /// reasons and classes of origins are fields of the stack's line: `"DeadLettersByReason":{"rejected":2}`.
    pub(crate) fn lines<'a>(&'a self, stack: &'a str, now: Timestamp) -> Vec<Line<'a>> {
        let line = |lane: Option<Dimension>| {
            let counts = self.counts.get(&lane).into_iter().flatten();
            let values = self.values.get(&lane).into_iter().flatten();
            let counts = counts.map(|(metric, n)| (*metric, Amount::Count(*n)));
            let metrics = counts.chain(values.map(|(metric, values)| (*metric, Amount::Values(values))));
            Line { stack, now, lane, metrics: metrics.collect(), parts: BTreeMap::new() }
        };
        let lanes = Lane::ALL.map(|lane| Some((LANE, lane.label())));
        let mut lines: Vec<Line<'a>> =
            std::iter::once(None).chain(lanes).map(line).filter(|line| !line.metrics.is_empty()).collect();
        for (dimension, counts) in &self.counts {
            let Some((name, value)) = dimension.filter(|(name, _)| *name != LANE) else { continue };
            for (metric, n) in counts {
                lines[0].parts.entry((*metric, name)).or_default().insert(value, *n);
            }
        }
        lines
    }
}

/// A line of the embedded metric format, written as it stands: an invocation is often one message.
pub(crate) struct Line<'a> {
    stack: &'a str,
    now: Timestamp,
    lane: Option<Dimension>,
    metrics: Vec<(Metric, Amount<'a>)>,
    /// Of the stack's line: what a metric's sum is of, by the name of the kind.
    parts: BTreeMap<(Metric, &'static str), BTreeMap<&'static str, u64>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Amount<'a> {
    Count(u64),
    Values(&'a [f64]),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    timestamp: i64,
    cloud_watch_metrics: [Described<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Described<'a> {
    namespace: &'static str,
    dimensions: [Vec<&'a str>; 1],
    metrics: Vec<Definition>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: &'static str,
    unit: &'static str,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let definition = |(metric, _): &(Metric, Amount<'_>)| Definition {
            name: metric.label(),
            unit: metric.unit().label(),
        };
        let names = std::iter::once(STACK).chain(self.lane.map(|(name, _)| name)).collect();
        let metrics = self.metrics.iter().map(definition).collect();
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry(
            "_aws",
            &Directive {
                timestamp: self.now.as_ms(),
                cloud_watch_metrics: [Described { namespace: NAMESPACE, dimensions: [names], metrics }],
            },
        )?;
        line.serialize_entry(STACK, self.stack)?;
        if let Some((name, value)) = self.lane {
            line.serialize_entry(name, value)?;
        }
        for (metric, amount) in &self.metrics {
            line.serialize_entry(metric.label(), amount)?;
        }
        for ((metric, name), parts) in &self.parts {
            line.serialize_entry(&format!("{}By{name}", metric.label()), parts)?;
        }
        line.end()
    }
}
