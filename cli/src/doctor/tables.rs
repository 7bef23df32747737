//! The tables: active, with their indexes, with expiry where the template has it, and not throttled in the last hour.
//!
//! A throttled call is repeated and loses nothing, but its message is late. An on-demand table serves its previous peak, and at most
//! twice that within half an hour; a new one serves 4,000 writes a second.

use std::time::Duration;

use aws_sdk_dynamodb::{
    Client,
    types::{IndexStatus, TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus},
};
use futures_util::{future::join_all, join};
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{report::Report, stack::Stack};
use crate::{
    aws_error::{AwsError, classified},
    cloudwatch::{Points, Query, metrics},
    stack::Target,
};

/// The attribute by which items expire.
const EXPIRY: &str = "expires_at";

/// A table of the template.
struct Table {
    name: &'static str,
    deployed_as: fn(&Target) -> &String,
    indexes: &'static [&'static str],
    expires: bool,
}

static TABLES: [Table; 6] = [
    Table {
        name: "deliveries",
        deployed_as: |it| &it.tables.deliveries,
        indexes: &["by_state"],
        expires: true,
    },
    Table {
        name: "subscriptions",
        deployed_as: |it| &it.tables.subscriptions,
        indexes: &["failing_by_tenant"],
        expires: true,
    },
    Table { name: "audiences", deployed_as: |it| &it.tables.audiences, indexes: &[], expires: true },
    Table { name: "parked", deployed_as: |it| &it.tables.parked, indexes: &[], expires: false },
    Table {
        name: "dead letters",
        deployed_as: |it| &it.tables.dead_letters,
        indexes: &["by_day", "bodies_by_hour"],
        expires: true,
    },
    Table { name: "control", deployed_as: |it| &it.tables.control, indexes: &[], expires: true },
];

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let client = stack.target.dynamodb();
    let read = TABLES.iter().map(async |table| {
        let name = (table.deployed_as)(&stack.target);
        join!(described(&client, name), expiry(&client, name))
    });
    let read = join_all(read).await;
    report.well("the six tables are active and have their indexes and their expiry");
    for (table, (described, expiry)) in TABLES.iter().zip(read) {
        let is_absent = matches!(described, Err(AwsError::Absent));
        if let Some(described) = report.read(format!("the table of {}", table.name), described) {
            judge(table, &described, report);
        }
        if table.expires && !is_absent {
            let expiry = report.read(format!("the expiry of the table of {}", table.name), expiry);
            expiry.into_iter().for_each(|expiry| judge_expiry(table, expiry.as_ref(), report));
        }
    }
}

async fn described(client: &Client, name: &str) -> Result<TableDescription, AwsError> {
    let response = client.describe_table().table_name(name).send().await;
    classified("dynamodb:DescribeTable", response)?.table.ok_or(AwsError::Absent)
}

async fn expiry(client: &Client, name: &str) -> Result<Option<TimeToLiveDescription>, AwsError> {
    let response = client.describe_time_to_live().table_name(name).send().await;
    Ok(classified("dynamodb:DescribeTimeToLive", response)?.time_to_live_description)
}

fn judge(table: &Table, described: &TableDescription, report: &mut Report) {
    let name = table.name;
    match described.table_status() {
        None | Some(TableStatus::Active) => {}
        Some(TableStatus::Updating) => {
            report.warning(format!("the table of {name} is being updated"), "look again in a minute");
        }
        Some(status) => report.fault(
            format!("the table of {name} is {}: reads and writes of it fail", status.as_str()),
            "look in DynamoDB's console for what became of it; a deleted table can be restored from a backup",
        ),
    }
    for index in table.indexes {
        let found = described.global_secondary_indexes().iter().find(|it| it.index_name() == Some(index));
        match found.map(|found| found.index_status()) {
            None => report.fault(
                format!("the table of {name} has no index {index}"),
                "deploy the template again; CloudFormation fills the index from the table",
            ),
            Some(None | Some(IndexStatus::Active)) => {}
            Some(Some(status)) => report.warning(
                format!(
                    "the index {index} of the table of {name} is {}: lists may be incomplete",
                    status.as_str()
                ),
                "look again when it is filled",
            ),
        }
    }
}

fn judge_expiry(table: &Table, expiry: Option<&TimeToLiveDescription>, report: &mut Report) {
    let is_on = expiry.is_some_and(|it| {
        matches!(it.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
            && it.attribute_name().is_none_or(|name| name == EXPIRY)
    });
    if !is_on {
        report.fault(
            format!("items of the table of {} do not expire: it grows for ever", table.name),
            format!("enable its time to live, with the attribute {EXPIRY}"),
        );
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Throttled calls of this time are a fault. CloudWatch is some minutes late.
const RECENTLY: Duration = Duration::from_secs(10 * 60);

const READS: &str = "ReadThrottleEvents";
const WRITES: &str = "WriteThrottleEvents";

/// All tables and their indexes.
fn places() -> impl Iterator<Item = (&'static Table, Option<&'static str>)> {
    let of_table = |table: &'static Table| {
        let indexes = table.indexes.iter().copied().map(Some);
        [None].into_iter().chain(indexes).map(move |index| (table, index))
    };
    TABLES.iter().flat_map(of_table)
}

fn throttled(deployed_as: &str, index: Option<&str>, metric: &'static str) -> Query {
    let index = index.map(|index| ("GlobalSecondaryIndexName", index.to_owned()));
    Query {
        namespace: "AWS/DynamoDB",
        metric,
        dimensions: [("TableName", deployed_as.to_owned())].into_iter().chain(index).collect(),
        statistic: "Sum",
    }
}

pub(super) async fn check_throttling(stack: &Stack, report: &mut Report) {
    let queries = places().flat_map(|(table, index)| {
        [READS, WRITES].map(|it| throttled((table.deployed_as)(&stack.target), index, it))
    });
    let queries: Vec<Query> = queries.collect();
    let now = System.now();
    let what = "whether tables are throttled";
    let points = metrics(&stack.target.sdk, &queries, HOUR, now).await;
    match report.read(what, points) {
        // CloudWatch has no points where nothing was throttled. An emulator has none either way.
        Some(points) if stack.target.is_emulated() && points.iter().all(|it| it.latest().is_none()) => {
            report.unchecked(what, "this emulator has no metrics of tables");
        }
        Some(points) => judge_throttling(&points, now, report),
        None => {}
    }
}

/// `points` are reads and writes of each place in turn.
fn judge_throttling(points: &[Points], now: Timestamp, report: &mut Report) {
    for ((table, index), points) in places().zip(points.chunks(2)) {
        let sum = |points: &Points, time: Duration| points.sum_since(now.minus(time)).unwrap_or_default();
        let [reads, writes] = [0, 1].map(|at| points.get(at).map_or(0.0, |points| sum(points, HOUR)));
        if reads + writes == 0.0 {
            continue;
        }
        let of_index = index.map_or(String::new(), |index| format!("the index {index} of "));
        let found = format!(
            "DynamoDB throttled {reads} reads and {writes} writes of {of_index}the table of {} within the last hour",
            table.name
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
    use aws_sdk_dynamodb::types::GlobalSecondaryIndexDescription;
    use redial_testkit::template::{Template, Value};

    use super::{super::report::tests::finds, *};

    #[test]
    fn a_table_is_active_with_its_indexes_and_expiry() {
        let both = [("by_day", IndexStatus::Active), ("bodies_by_hour", IndexStatus::Active)];
        let creating = [both[0].clone(), ("bodies_by_hour", IndexStatus::Creating)];
        let (active, on) = (|| TableStatus::Active, TimeToLiveStatus::Enabled);
        let no_expiry = "fault: items of the table of dead letters do not expire";
        for (status, indexes, expiry, attribute, expected) in [
            (active(), &both[..], Some(&on), EXPIRY, ""),
            (active(), &both, Some(&TimeToLiveStatus::Enabling), EXPIRY, ""),
            (
                active(),
                &both[..1],
                Some(&on),
                EXPIRY,
                "fault: the table of dead letters has no index bodies_by_hour",
            ),
            (active(), &creating, Some(&on), EXPIRY, "warning: the index bodies_by_hour"),
            (TableStatus::Deleting, &both, Some(&on), EXPIRY, "fault: the table of dead letters is DELETING"),
            (active(), &both, None, EXPIRY, no_expiry),
            (active(), &both, Some(&TimeToLiveStatus::Disabled), EXPIRY, no_expiry),
            (active(), &both, Some(&on), "ttl", no_expiry),
        ] {
            let index = |(name, status): &(&str, IndexStatus)| {
                let index = GlobalSecondaryIndexDescription::builder().index_name(*name);
                index.index_status(status.clone()).build()
            };
            let described = TableDescription::builder()
                .table_status(status)
                .set_global_secondary_indexes(Some(indexes.iter().map(index).collect()))
                .build();
            let expiry = TimeToLiveDescription::builder()
                .set_time_to_live_status(expiry.cloned())
                .attribute_name(attribute)
                .build();
            finds(expected, |report| {
                judge(&TABLES[4], &described, report);
                judge_expiry(&TABLES[4], Some(&expiry), report);
            });
        }
    }

    #[test]
    fn the_six_tables_are_the_template_s() {
        let template = Template::read();
        let tables: Vec<_> = template.resources("AWS::DynamoDB::Table").map(|(_, table)| table).collect();
        assert_eq!(tables.len(), TABLES.len());
        for (table, properties) in TABLES.iter().zip(tables) {
            let indexes = properties.get("GlobalSecondaryIndexes").and_then(Value::as_sequence);
            let indexes: Vec<&str> =
                indexes.into_iter().flatten().filter_map(|index| index["IndexName"].as_str()).collect();
            assert_eq!(indexes, table.indexes, "{}", table.name);
            let expiry = properties.get("TimeToLiveSpecification");
            let expires = expiry.is_some_and(|it| it["AttributeName"] == EXPIRY && it["Enabled"] == true);
            assert_eq!(expires, table.expires, "{}", table.name);
        }
    }

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
                Some((6, 5)),
                "fault: DynamoDB throttled 7 reads and 0 writes of the index failing_by_tenant of the table of \
                 subscriptions within the last hour, some of them within ten minutes: messages are late",
            ),
        ] {
            let mut points = vec![Points::default(); places().count() * 2];
            if let Some((at, minutes)) = throttled {
                points[at] = Points::of(&[(now.minus(Duration::from_secs(minutes * 60)), 7.0)]);
            }
            finds(expected, |report| judge_throttling(&points, now, report));
        }
    }

    #[test]
    fn an_index_has_a_dimension_of_its_own() {
        let table = ("TableName", "t-subs".to_owned());
        assert_eq!(throttled("t-subs", None, READS).dimensions, std::slice::from_ref(&table));
        let index = ("GlobalSecondaryIndexName", "failing_by_tenant".to_owned());
        assert_eq!(throttled("t-subs", Some("failing_by_tenant"), WRITES).dimensions, [table, index]);
    }
}
