//! Tables that DynamoDB throttled in the last hour.
//!
//! A throttled call is repeated and loses nothing, but its message is late. An on-demand table takes what it has taken before, and
//! at most twice that within half an hour; a new one takes 4,000 writes a second.

use std::time::Duration;

use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{
    report::Report,
    stack::Stack,
    tables::{self, TABLES},
};
use crate::cloudwatch::{Points, Query, metrics};

/// How far back throttled calls are counted.
const HOUR: Duration = Duration::from_secs(3_600);

/// Throttled calls of this time mean that it goes on. CloudWatch is some minutes late.
const RECENTLY: Duration = Duration::from_secs(10 * 60);

const READS: &str = "ReadThrottleEvents";
const WRITES: &str = "WriteThrottleEvents";

/// A table or one of its indexes.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// In words.
    table: &'static str,
    /// Its name in DynamoDB.
    deployed_as: &'a str,
    index: Option<&'static str>,
}

impl Place<'_> {
    fn query(&self, metric: &'static str) -> Query {
        let index = self.index.map(|index| ("GlobalSecondaryIndexName", index.to_owned()));
        Query {
            namespace: "AWS/DynamoDB",
            metric,
            dimensions: std::iter::once(("TableName", self.deployed_as.to_owned())).chain(index).collect(),
            statistic: "Sum",
        }
    }

    fn in_words(&self) -> String {
        match self.index {
            None => format!("the table of {}", self.table),
            Some(index) => format!("the index {index} of the table of {}", self.table),
        }
    }
}

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("throttling");
    let places = places(tables::names(stack));
    let queries: Vec<Query> =
        places.iter().flat_map(|place| [READS, WRITES].map(|it| place.query(it))).collect();
    let now = System.now();
    match metrics(&stack.target.sdk, &queries, HOUR, now).await {
        // CloudWatch has no points where nothing was throttled. An emulator has none either way.
        Ok(points) if stack.is_emulated() && points.iter().all(|points| points.latest().is_none()) => {
            report.unchecked("whether tables are throttled", "this emulator has no metrics of tables");
        }
        Ok(points) => judge(&places, &points, now, &mut report),
        Err(trouble) => report.trouble("whether tables are throttled", &trouble),
    }
    report
}

fn places(names: [&str; TABLES.len()]) -> Vec<Place<'_>> {
    let of_table = |(table, deployed_as): (&'static tables::Table, _)| {
        let tables::Table { name: table, indexes, .. } = table;
        let indexes = indexes.iter().copied().map(Some);
        std::iter::once(None).chain(indexes).map(move |index| Place { table, deployed_as, index })
    };
    TABLES.iter().zip(names).flat_map(of_table).collect()
}

/// `points` are reads and writes of each place in turn.
fn judge(places: &[Place<'_>], points: &[Points], now: Timestamp, report: &mut Report) {
    for (place, points) in places.iter().zip(points.chunks(2)) {
        let since = |time: Duration| {
            let mut counts =
                points.iter().map(|points| points.sum_since(now.minus(time)).unwrap_or_default());
            (counts.next().unwrap_or_default(), counts.next().unwrap_or_default())
        };
        let ((reads, writes), (recent_reads, recent_writes)) = (since(HOUR), since(RECENTLY));
        if reads + writes == 0.0 {
            continue;
        }
        let found = format!(
            "DynamoDB throttled {reads} reads and {writes} writes of {} within the last hour",
            place.in_words()
        );
        let advice = "look in DynamoDB's console for a maximum throughput, a hot key or a quota of the account; before a \
                      campaign raise the table's warm throughput, or start slowly";
        if recent_reads + recent_writes > 0.0 {
            report.fault(format!("{found}, some of them within ten minutes: messages are late"), advice);
        } else {
            report.warning(found, advice);
        }
    }
    report.well("DynamoDB throttled no table within the last hour");
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; TABLES.len()] =
        ["t-deliveries", "t-subs", "t-audiences", "t-parked", "t-letters", "t-control"];

    fn report(throttled: &[(usize, i64)]) -> Report {
        let now = Timestamp::from_secs(1_795_255_200);
        let places = places(NAMES);
        let mut points = vec![Points::default(); places.len() * 2];
        for (at, minutes) in throttled {
            let then = now.minus(Duration::from_secs(u64::try_from(minutes * 60).expect("a time")));
            points[*at] = Points::of(&[(then, 7.0)]);
        }
        let mut report = Report::new("throttling");
        judge(&places, &points, now, &mut report);
        report
    }

    fn found(report: &Report) -> Vec<&str> {
        report.findings.iter().map(|finding| finding.found.as_str()).collect()
    }

    #[test]
    fn a_table_or_an_index_that_is_throttled_is_named() {
        assert_eq!(found(&report(&[])), [""; 0]);
        let earlier = report(&[(1, 30)]);
        assert_eq!(
            found(&earlier),
            ["DynamoDB throttled 0 reads and 7 writes of the table of deliveries within the last hour"]
        );
        let now = report(&[(4, 5)]);
        assert_eq!(
            found(&now),
            [
                "DynamoDB throttled 7 reads and 0 writes of the index failing_by_tenant of the table of subscriptions \
              within the last hour, some of them within ten minutes: messages are late"
            ]
        );
        assert!(now.has_faults() && !earlier.has_faults());
    }

    #[test]
    fn an_index_has_a_dimension_of_its_own() {
        let places = places(NAMES);
        assert_eq!(places[0].query(READS).dimensions, [("TableName", "t-deliveries".to_owned())]);
        let of_index = places[2].query(WRITES).dimensions;
        let index = ("GlobalSecondaryIndexName", "failing_by_tenant".to_owned());
        assert_eq!(of_index, [("TableName", "t-subs".to_owned()), index]);
    }
}
