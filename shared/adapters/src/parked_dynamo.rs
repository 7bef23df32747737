//! Waiting messages on DynamoDB: one partition a shard of a bucket, no TTL. Only a release removes them.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::Tenant;
use redial_core::ports::{ParkedItem, ParkedKey, Parking, PortError};
use redial_core::wait::Shard;

use crate::attributes::{Item, Read, ms, s};
use crate::write_units::WriteUnits;
use crate::{aws_error, batch_write};

/// The `parked` table.
#[derive(Clone, Debug)]
pub struct DynamoParking {
    client: Client,
    table: String,
    units: WriteUnits,
}

impl DynamoParking {
    /// On this table: partition key `pk`, sort key `sk` (strings).
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }
}

impl Parking for DynamoParking {
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        let items = items
            .into_iter()
            .map(|parked| {
                let mut item = key(&parked.key);
                item.insert("tenant".to_owned(), s(parked.tenant.as_str()));
                item.insert("not_before".to_owned(), ms(parked.not_before));
                item.insert("body".to_owned(), AttributeValue::B(Blob::new(parked.body)));
                item
            })
            .collect();
        batch_write::put(&self.client, &self.units, &self.table, items).await
    }

    async fn page(&self, shard: Shard, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        let page = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", s(shard.to_string()))
            .consistent_read(true)
            .limit(i32::from(limit))
            .send()
            .await
            .map_err(|error| aws_error::of_call("Query", &error))?;
        page.items()
            .iter()
            // An item that cannot be read must not be passed over in silence: it would never leave.
            .map(|item| {
                parked(shard, item).ok_or_else(|| aws_error::of_code("Query", "UnreadableParkedItem"))
            })
            .collect()
    }

    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        if keys.is_empty() {
            return Ok(());
        }
        batch_write::delete(&self.client, &self.units, &self.table, keys.iter().map(key).collect()).await
    }
}

fn key(key: &ParkedKey) -> Item {
    HashMap::from([("pk".to_owned(), s(key.shard.to_string())), ("sk".to_owned(), s(&key.sort))])
}

fn parked(shard: Shard, item: &Item) -> Option<ParkedItem> {
    let body = item.get("body")?.as_b().ok()?.clone().into_inner();
    Some(ParkedItem {
        key: ParkedKey { shard, sort: item.text("sk")?.to_owned() },
        tenant: Tenant::parse(item.text("tenant")?)?,
        not_before: item.time("not_before")?,
        body: String::from_utf8(body).ok()?,
    })
}
