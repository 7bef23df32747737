//! The tables: active, with their indexes, and with expiry where the template has it.

use aws_sdk_dynamodb::{
    Client,
    types::{IndexStatus, TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus},
};
use futures_util::future::join_all;

use super::{report::Report, stack::Stack};
use crate::{
    asked::{Trouble, asked},
    target::Target,
};

/// The attribute by which items expire.
const EXPIRY: &str = "expires_at";

/// A table of the template.
pub(super) struct Table {
    pub(super) name: &'static str,
    deployed_as: fn(&Target) -> &String,
    pub(super) indexes: &'static [&'static str],
    expires: bool,
}

impl Table {
    pub(super) fn deployed_as<'a>(&self, stack: &'a Stack) -> &'a str {
        (self.deployed_as)(&stack.target)
    }
}

pub(super) const TABLES: [Table; 6] = [
    Table { name: "deliveries", deployed_as: |it| &it.tables.deliveries, indexes: &[], expires: true },
    Table {
        name: "subscriptions",
        deployed_as: |it| &it.tables.subscriptions,
        indexes: &["failing_by_tenant"],
        expires: false,
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
    let client = Client::new(&stack.target.sdk);
    let described = join_all(TABLES.iter().map(|table| described(&client, table.deployed_as(stack)))).await;
    let expiries = join_all(TABLES.iter().map(|table| expiry(&client, table.deployed_as(stack)))).await;
    report.well("the six tables are active and have their indexes and their expiry");
    for (table, (described, expiry)) in TABLES.iter().zip(described.into_iter().zip(expiries)) {
        let is_absent = matches!(described, Err(Trouble::Absent));
        if let Some(described) = report.read(format!("the table of {}", table.name), described) {
            judge(table, &described, report);
        }
        if table.expires && !is_absent {
            let expiry = report.read(format!("the expiry of the table of {}", table.name), expiry);
            expiry.into_iter().for_each(|expiry| judge_expiry(table, expiry.as_ref(), report));
        }
    }
}

async fn described(client: &Client, name: &str) -> Result<TableDescription, Trouble> {
    let response = client.describe_table().table_name(name).send().await;
    asked("dynamodb:DescribeTable", response)?.table.ok_or(Trouble::Absent)
}

async fn expiry(client: &Client, name: &str) -> Result<Option<TimeToLiveDescription>, Trouble> {
    let response = client.describe_time_to_live().table_name(name).send().await;
    Ok(asked("dynamodb:DescribeTimeToLive", response)?.time_to_live_description)
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

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::GlobalSecondaryIndexDescription;
    use redial_testkit::template::{Template, Value};

    use super::{super::report::tests::finds, *};

    #[test]
    fn a_table_is_active_with_its_indexes_and_expiry() {
        let both = [("by_day", IndexStatus::Active), ("bodies_by_hour", IndexStatus::Active)];
        let creating = [both[0].clone(), ("bodies_by_hour", IndexStatus::Creating)];
        let on = TimeToLiveStatus::Enabled;
        let no_expiry = "fault: items of the table of dead letters do not expire";
        for (status, indexes, expiry, attribute, expected) in [
            (TableStatus::Active, &both[..], Some(&on), EXPIRY, ""),
            (TableStatus::Active, &both, Some(&TimeToLiveStatus::Enabling), EXPIRY, ""),
            (
                TableStatus::Active,
                &both[..1],
                Some(&on),
                EXPIRY,
                "fault: the table of dead letters has no index bodies_by_hour",
            ),
            (TableStatus::Active, &creating, Some(&on), EXPIRY, "warning: the index bodies_by_hour"),
            (TableStatus::Deleting, &both, Some(&on), EXPIRY, "fault: the table of dead letters is DELETING"),
            (TableStatus::Active, &both, None, EXPIRY, no_expiry),
            (TableStatus::Active, &both, Some(&TimeToLiveStatus::Disabled), EXPIRY, no_expiry),
            (TableStatus::Active, &both, Some(&on), "ttl", no_expiry),
        ] {
            let index = |(name, status): &(&str, IndexStatus)| {
                GlobalSecondaryIndexDescription::builder()
                    .index_name(*name)
                    .index_status(status.clone())
                    .build()
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
}
