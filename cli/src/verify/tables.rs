//! The tables' settings that `doctor` does not judge: keys, billing, indexes' keys, and the continuous backups.

use aws_sdk_dynamodb::{
    Client,
    types::{BillingMode, KeySchemaElement, PointInTimeRecoveryStatus, TableDescription},
};
use futures_util::{future::join_all, join};
use serde_json::{Value, json};

use super::{
    release::Release,
    settings::{Check, Settings},
};
use crate::{
    aws_error::{AwsError, classified},
    doctor::{Report, Stack},
};

const TO_BACK_UP: &str =
    "enable it, or what is deleted by mistake is lost: aws dynamodb update-continuous-backups";
const OTHER: &str = "aws dynamodb update-table; keys cannot be changed: deploy the template as a new stack, and move what the \
                     table holds";

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let client = stack.target.dynamodb();
    let tables = release.parts_of("AWS::DynamoDB::Table").filter_map(|part| Some((part.deployed_as?, part)));
    let read = tables.map(async |(name, part)| {
        let (table, backups) = join!(described(&client, name), has_backups(&client, name));
        (part, table, backups)
    });
    report.well(
        "the six tables have the template's keys, indexes and billing, and five have continuous backups",
    );
    for (part, table, backups) in join_all(read).await {
        let is_absent = matches!(table, Err(AwsError::Absent));
        let mut check = Check { release, report: &mut *report };
        check.compare(&part, table.map(|table| settings(&table)), OTHER);
        if is_absent {
            continue;
        }
        let what = format!("PointInTimeRecovery of {}", part.name);
        let expected = release.property(&part, "PointInTimeRecoverySpecification");
        let expected = expected.map(|it| it["PointInTimeRecoveryEnabled"].clone());
        match report.read(what.clone(), backups) {
            Some(false) if stack.target.is_emulated() && expected == Some(true.into()) => {
                report.unchecked(what, "this emulator keeps no continuous backups");
            }
            Some(found) => {
                let mut check = Check { release, report: &mut *report };
                check.judge(part.name, "PointInTimeRecovery", expected.as_ref(), &found.into(), TO_BACK_UP);
            }
            None => {}
        }
    }
}

async fn described(client: &Client, name: &str) -> Result<TableDescription, AwsError> {
    let response = client.describe_table().table_name(name).send().await;
    classified("dynamodb:DescribeTable", response)?.table.ok_or(AwsError::Absent)
}

async fn has_backups(client: &Client, name: &str) -> Result<bool, AwsError> {
    let described = client.describe_continuous_backups().table_name(name).send().await;
    let described = classified("dynamodb:DescribeContinuousBackups", described)?;
    let recovery =
        described.continuous_backups_description().and_then(|it| it.point_in_time_recovery_description());
    Ok(recovery.and_then(|it| it.point_in_time_recovery_status())
        == Some(&PointInTimeRecoveryStatus::Enabled))
}

fn settings(table: &TableDescription) -> Settings {
    let mode =
        table.billing_mode_summary().and_then(|it| it.billing_mode()).unwrap_or(&BillingMode::Provisioned);
    let mut settings = vec![("BillingMode", mode.as_str().into()), ("KeySchema", keys(table.key_schema()))];
    // `doctor` reports an index that is missing.
    if !table.global_secondary_indexes().is_empty() {
        let index = |it: &aws_sdk_dynamodb::types::GlobalSecondaryIndexDescription| {
            let projection = it.projection().and_then(|it| it.projection_type()).map(|it| it.as_str());
            json!({
                "IndexName": it.index_name(),
                "KeySchema": keys(it.key_schema()),
                "Projection": {"ProjectionType": projection},
            })
        };
        let indexes: Value = table.global_secondary_indexes().iter().map(index).collect();
        settings.push(("GlobalSecondaryIndexes", indexes));
    }
    settings
}

fn keys(schema: &[KeySchemaElement]) -> Value {
    let key = |it: &KeySchemaElement| json!({"AttributeName": it.attribute_name(), "KeyType": it.key_type().as_str()});
    schema.iter().map(key).collect()
}
