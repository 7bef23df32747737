//! The tables: active, with their indexes, and with expiry where the template has it.

use aws_sdk_dynamodb::types::{IndexStatus, TableStatus, TimeToLiveDescription, TimeToLiveStatus};
use futures_util::future::join_all;

use super::{
    aws_error::{AwsError, classified},
    report::Report,
    stack::Stack,
};

/// The attribute by which items expire.
const EXPIRY: &str = "expires_at";

/// A table of the template.
pub(super) struct Table {
    /// In words.
    pub(super) name: &'static str,
    pub(super) indexes: &'static [&'static str],
    expires: bool,
}

/// All of them.
pub(super) const TABLES: [Table; 6] = [
    Table { name: "deliveries", indexes: &[], expires: true },
    Table { name: "subscriptions", indexes: &["failing_by_tenant"], expires: false },
    Table { name: "audiences", indexes: &[], expires: true },
    Table { name: "parked", indexes: &[], expires: false },
    Table { name: "dead letters", indexes: &["by_day", "bodies_by_hour"], expires: true },
    Table { name: "control", indexes: &[], expires: true },
];

/// What AWS says of a table.
struct Described {
    status: Option<TableStatus>,
    indexes: Vec<(String, Option<IndexStatus>)>,
}

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("tables");
    let names = names(stack);
    let client = aws_sdk_dynamodb::Client::new(&stack.target.sdk);
    let described = join_all(names.map(|name| described(&client, name))).await;
    let expiries = join_all(names.map(|name| expiry(&client, name))).await;
    for (table, (described, expiry)) in TABLES.iter().zip(described.into_iter().zip(expiries)) {
        match described {
            Ok(described) => {
                report.well(
                    "the six tables are active, with their indexes, and items expire where they are to",
                );
                judge(table, &described, &mut report);
            }
            Err(trouble) => report.trouble(&format!("the table of {}", table.name), &trouble),
        }
        match expiry {
            Ok(expiry) => judge_expiry(table, expiry.as_ref(), &mut report),
            // That it is absent is told.
            Err(AwsError::Absent) => {}
            Err(trouble) => {
                if table.expires {
                    report.trouble(&format!("the expiry of the table of {}", table.name), &trouble);
                }
            }
        }
    }
    report
}

/// The tables' names, in the order of [`TABLES`].
pub(super) fn names(stack: &Stack) -> [&str; TABLES.len()] {
    let tables = &stack.target.tables;
    [
        &tables.deliveries,
        &tables.subscriptions,
        &tables.audiences,
        &tables.parked,
        &tables.dead_letters,
        &tables.control,
    ]
}

async fn described(client: &aws_sdk_dynamodb::Client, name: &str) -> Result<Described, AwsError> {
    let answer = client.describe_table().table_name(name).send().await;
    let table = classified("dynamodb:DescribeTable", answer)?.table.ok_or(AwsError::Absent)?;
    let indexes = table.global_secondary_indexes.unwrap_or_default();
    let indexes = indexes.into_iter().filter_map(|index| Some((index.index_name?, index.index_status)));
    Ok(Described { status: table.table_status, indexes: indexes.collect() })
}

async fn expiry(
    client: &aws_sdk_dynamodb::Client,
    name: &str,
) -> Result<Option<TimeToLiveDescription>, AwsError> {
    let answer = client.describe_time_to_live().table_name(name).send().await;
    Ok(classified("dynamodb:DescribeTimeToLive", answer)?.time_to_live_description)
}

fn judge(table: &Table, described: &Described, report: &mut Report) {
    let name = table.name;
    match &described.status {
        None | Some(TableStatus::Active) => {}
        Some(TableStatus::Updating) => {
            report.warning(format!("the table of {name} is being updated"), "look again in a minute");
        }
        Some(status) => report.fault(
            format!("the table of {name} is {}: what reads or writes it fails", status.as_str()),
            "see what became of it in DynamoDB's console; a table that was deleted can be restored from a backup",
        ),
    }
    for index in table.indexes {
        match described.indexes.iter().find(|(name, _)| name == index) {
            None => report.fault(
                format!("the table of {name} has no index {index}"),
                "deploy the template again; CloudFormation fills it from what is there",
            ),
            Some((_, None | Some(IndexStatus::Active))) => {}
            Some((_, Some(status))) => report.warning(
                format!(
                    "the index {index} of the table of {name} is {}: lists may lack something",
                    status.as_str()
                ),
                "look again when it is filled",
            ),
        }
    }
}

fn judge_expiry(table: &Table, expiry: Option<&TimeToLiveDescription>, report: &mut Report) {
    if !table.expires {
        return;
    }
    let is_on = expiry.is_some_and(|it| {
        matches!(it.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
            && it.attribute_name().is_none_or(|name| name == EXPIRY)
    });
    if !is_on {
        report.fault(
            format!("items of the table of {} do not expire: it grows for ever", table.name),
            format!("switch its time to live on, for the attribute {EXPIRY}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead_letters() -> Described {
        let indexes = [("by_day".to_owned(), Some(IndexStatus::Active)), ("bodies_by_hour".to_owned(), None)];
        Described { status: Some(TableStatus::Active), indexes: indexes.into() }
    }

    fn found(described: &Described, expiry: Option<TimeToLiveStatus>, attribute: &str) -> Vec<String> {
        let mut report = Report::new("tables");
        judge(&TABLES[4], described, &mut report);
        let expiry = TimeToLiveDescription::builder()
            .set_time_to_live_status(expiry)
            .attribute_name(attribute)
            .build();
        judge_expiry(&TABLES[4], Some(&expiry), &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_healthy_table_has_its_indexes_and_expiry() {
        assert_eq!(found(&dead_letters(), Some(TimeToLiveStatus::Enabled), EXPIRY), [""; 0]);
        let without = Described { indexes: Vec::new(), ..dead_letters() };
        assert_eq!(found(&without, Some(TimeToLiveStatus::Enabling), EXPIRY).len(), 2);
        let gone = Described { status: Some(TableStatus::Deleting), ..dead_letters() };
        assert!(found(&gone, Some(TimeToLiveStatus::Enabled), EXPIRY)[0].contains("DELETING"));
    }

    #[test]
    fn expiry_that_is_off_or_by_another_attribute_is_a_fault() {
        for (status, attribute) in [
            (None, EXPIRY),
            (Some(TimeToLiveStatus::Disabled), EXPIRY),
            (Some(TimeToLiveStatus::Enabled), "ttl"),
        ] {
            let found = found(&dead_letters(), status, attribute);
            assert_eq!(found, ["items of the table of dead letters do not expire: it grows for ever"]);
        }
    }

    #[test]
    fn the_five_are_the_template_s() {
        let template = include_str!("../../../infra/template.yaml");
        let (resources, _) = template.split_once("\nOutputs:\n").expect("it has outputs");
        let tables: Vec<&str> = resources.split("    Type: AWS::DynamoDB::Table\n").skip(1).collect();
        assert_eq!(tables.len(), TABLES.len());
        for (table, text) in TABLES.iter().zip(tables) {
            // As far as the next resource.
            let own: String =
                text.lines().take_while(|line| line.starts_with("    ")).collect::<Vec<_>>().join("\n");
            let indexes: Vec<&str> =
                own.lines().filter_map(|line| line.trim().strip_prefix("- IndexName: ")).collect();
            assert_eq!(indexes, table.indexes, "{}", table.name);
            assert_eq!(
                own.contains("AttributeName: expires_at, Enabled: true"),
                table.expires,
                "{}",
                table.name
            );
        }
    }
}
