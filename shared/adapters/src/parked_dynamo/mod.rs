//! Waiting messages on DynamoDB: one partition a shard of a bucket, no TTL. Only a release removes them. A body that is longer
//! than an item lies in `parts`.

mod parts;

use aws_sdk_dynamodb::Client;
use redial_core::wait::Shard;
use redial_engine::ports::{Clock as _, ParkedItem, ParkedKey, Parking, PortError};

use self::parts::{Cut, Reading};
use crate::attributes::{Item, s};
use crate::request_token::request_token;
use crate::system::System;
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
        let now = System.now();
        let cut: Vec<Cut> = items.into_iter().map(|item| parts::cut(item, &request_token(), now)).collect();
        let mut stored = self.store_others(&cut).await;
        let firsts = cut.into_iter().zip(&stored).filter(|(_, stored)| stored.is_ok());
        let firsts = firsts.map(|(cut, _)| cut.first).collect();
        let mut put = batch_write::put(&self.client, &self.units, &self.table, firsts).await.into_iter();
        for stored in stored.iter_mut().filter(|stored| stored.is_ok()) {
            *stored = put.next().expect("a put is answered for every item");
        }
        stored
    }

    async fn page(&self, shard: Shard, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        let mut reading = Reading::new(shard, System.now());
        let mut after = None;
        // A page of DynamoDB's may end within a message, or hold nothing but what is no message.
        loop {
            let page = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("pk = :pk")
                .expression_attribute_values(":pk", s(shard.to_string()))
                .consistent_read(true)
                .limit(i32::from(limit))
                .set_exclusive_start_key(after)
                .send()
                .await
                .map_err(|error| aws_error::of_call("Query", &error))?;
            // An item that cannot be read must not be passed over in silence: it would never leave.
            page.items().iter().try_for_each(|item| reading.read(item)).ok_or_else(unreadable)?;
            after = page.last_evaluated_key;
            if after.is_none() || (!reading.is_open() && !reading.whole.is_empty()) {
                break;
            }
        }
        if !reading.abandoned.is_empty() {
            // They are in nobody's way: what is not removed now is removed at the next look.
            let _ = self.remove(reading.abandoned.clone()).await;
        }
        if reading.is_open() { Err(unreadable()) } else { Ok(reading.whole) }
    }

    /// The first part goes first: what is left of a body without it is no message.
    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        let (firsts, others): (Vec<_>, Vec<_>) = keys.iter().map(parts::keys).unzip();
        let deleted = batch_write::delete_each(&self.client, &self.units, &self.table, firsts).await;
        let others = others.into_iter().zip(&deleted).filter(|(_, deleted)| deleted.is_ok());
        self.remove(others.flat_map(|(others, _)| others).collect()).await?;
        deleted.into_iter().collect()
    }
}

impl DynamoParking {
    /// Stores all parts but the first. `Ok` for a message of which none is missing.
    async fn store_others(&self, cut: &[Cut]) -> Vec<Result<(), PortError>> {
        let others = cut.iter().flat_map(|cut| cut.others.iter().cloned()).collect();
        let mut stored = batch_write::put(&self.client, &self.units, &self.table, others).await.into_iter();
        cut.iter()
            .map(|cut| stored.by_ref().take(cut.others.len()).collect::<Vec<_>>())
            .map(|of_one| of_one.into_iter().collect())
            .collect()
    }

    async fn remove(&self, keys: Vec<Item>) -> Result<(), PortError> {
        batch_write::delete(&self.client, &self.units, &self.table, keys).await
    }
}

fn unreadable() -> PortError {
    aws_error::of_code("Query", "UnreadableParkedItem")
}

#[cfg(test)]
mod tests;
