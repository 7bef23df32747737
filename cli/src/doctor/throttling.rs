//! Tables that DynamoDB throttled in the last hour.
//!
//! A throttled call is repeated and loses nothing, but its message is late. An on-demand table serves its previous peak, and at most
//! twice that within half an hour; a new one serves 4,000 writes a second.

use std::time::Duration;

use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{
    report::Report,
    stack::Stack,
    tables::{TABLES, Table},
};
use crate::cloudwatch::{Points, Query, metrics};

const HOUR: Duration = Duration::from_secs(3_600);

/// Throttled calls of this time are a fault. CloudWatch is some minutes late.
const RECENTLY: Duration = Duration::from_secs(10 * 60);

const READS: &str = "ReadThrottleEvents";
const WRITES: &str = "WriteThrottleEvents";

/// A table or one of its indexes.
#[derive(Clone, Copy)]
struct Place {
    table: &'static Table,
    index: Option<&'static str>,
}

impl Place {
    fn query(&self, metric: &'static str, deployed_as: &str) -> Query {
        let index = self.index.map(|index| ("GlobalSecondaryIndexName", index.to_owned()));
        Query {
            namespace: "AWS/DynamoDB",
            metric,
            dimensions: std::iter::once(("TableName", deployed_as.to_owned())).chain(index).collect(),
            statistic: "Sum",
        }
    }

    fn in_words(&self) -> String {
        let table = self.table.name;
        match self.index {
            None => format!("the table of {table}"),
            Some(index) => format!("the index {index} of the table of {table}"),
        }
    }
}

fn places() -> Vec<Place> {
    let of_table = |table: &'static Table| {
        let indexes = table.indexes.iter().copied().map(Some);
        std::iter::once(None).chain(indexes).map(move |index| Place { table, index })
    };
    TABLES.iter().flat_map(of_table).collect()
}

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let places = places();
    let of_place = |place: &Place| [READS, WRITES].map(|it| place.query(it, place.table.deployed_as(stack)));
    let queries: Vec<Query> = places.iter().flat_map(of_place).collect();
    let now = System.now();
    let what = "whether tables are throttled";
    let points = metrics(&stack.target.sdk, &queries, HOUR, now).await;
    match report.read(what, points) {
        // CloudWatch has no points where nothing was throttled. An emulator has none either way.
        Some(points) if stack.target.is_emulated() && points.iter().all(|it| it.latest().is_none()) => {
            report.unchecked(what, "this emulator has no metrics of tables");
        }
        Some(points) => judge(&places, &points, now, report),
        None => {}
    }
}

/// `points` are reads and writes of each place in turn.
fn judge(places: &[Place], points: &[Points], now: Timestamp, report: &mut Report) {
    for (place, points) in places.iter().zip(points.chunks(2)) {
        let sum = |points: &Points, time: Duration| points.sum_since(now.minus(time)).unwrap_or_default();
        let [reads, writes] = [0, 1].map(|at| points.get(at).map_or(0.0, |points| sum(points, HOUR)));
        if reads + writes == 0.0 {
            continue;
        }
        let found = format!(
            "DynamoDB throttled {reads} reads and {writes} writes of {} within the last hour",
            place.in_words()
        );
        let remedy = "look in DynamoDB's console for a maximum throughput, a hot key or a quota of the account; before a \
                      campaign raise the table's warm throughput, or start slowly";
        if points.iter().any(|points| sum(points, RECENTLY) > 0.0) {
            report.fault(format!("{found}, some of them within ten minutes: messages are late"), remedy);
        } else {
            report.warning(found, remedy);
        }
    }
    report.well("DynamoDB throttled no table within the last hour");
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    #[test]
    fn a_throttled_table_or_index_is_named() {
        let now = Timestamp::from_secs(1_795_255_200);
        for (throttled, expected) in [
            (None, ""),
            (
                Some((1, 30)),
                "warning: DynamoDB throttled 0 reads and 7 writes of the table of deliveries within the last hour",
            ),
            (
                Some((4, 5)),
                "fault: DynamoDB throttled 7 reads and 0 writes of the index failing_by_tenant of the table of \
                 subscriptions within the last hour, some of them within ten minutes: messages are late",
            ),
        ] {
            let mut points = vec![Points::default(); places().len() * 2];
            if let Some((at, minutes)) = throttled {
                points[at] = Points::of(&[(now.minus(Duration::from_secs(minutes * 60)), 7.0)]);
            }
            finds(expected, |report| judge(&places(), &points, now, report));
        }
    }

    #[test]
    fn an_index_has_a_dimension_of_its_own() {
        let table = ("TableName", "t-subs".to_owned());
        assert_eq!(places()[1].query(READS, "t-subs").dimensions, [table.clone()]);
        let index = ("GlobalSecondaryIndexName", "failing_by_tenant".to_owned());
        assert_eq!(places()[2].query(WRITES, "t-subs").dimensions, [table, index]);
    }
}
