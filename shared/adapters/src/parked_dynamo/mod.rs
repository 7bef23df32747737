//! Parked messages on DynamoDB: one partition for each shard of a bucket, no TTL. Only a release removes them. A body that is longer
//! than an item is stored in `parts`.

mod parts;

use redial_core::wait::Shard;
use redial_engine::ports::{Clock as _, ParkedItem, ParkedKey, Parking, PortError};

use self::parts::{Cut, Reading};
use crate::aws_error;
use crate::system::System;
use crate::table::attributes::s;
use crate::table::{Table, on_a_table, page, request_token};

/// The `parked` table: partition key `pk`, sort key `sk` (strings).
#[derive(Clone, Debug)]
pub struct DynamoParking {
    table: Table,
}

on_a_table!(DynamoParking);

impl Parking for DynamoParking {
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        let now = System.now();
        let cut: Vec<Cut> = items.into_iter().map(|item| parts::cut(item, &request_token(), now)).collect();
        let mut stored = self.store_others(&cut).await;
        let firsts = cut.into_iter().zip(&stored).filter(|(_, stored)| stored.is_ok());
        let firsts = firsts.map(|(cut, _)| cut.first).collect();
        let mut put = self.table.put_all(firsts).await.into_iter();
        for stored in stored.iter_mut().filter(|stored| stored.is_ok()) {
            *stored = put.next().expect("a put is answered for every item");
        }
        stored
    }

    async fn page(&self, shard: Shard, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        let mut reading = Reading::new(shard, System.now());
        let mut after = None;
        // A page may end within a message, or hold only parts without a message.
        loop {
            let query = self.table.query("pk = :pk", [(":pk", s(shard.to_string()))]);
            let page = page(query.limit(i32::from(limit)).set_exclusive_start_key(after)).await?;
            // An item that cannot be read is an error: skipped, it would never be released.
            page.items().iter().try_for_each(|item| reading.read(item)).ok_or_else(unreadable)?;
            after = page.last_evaluated_key;
            if after.is_none() || (!reading.is_open() && !reading.whole.is_empty()) {
                break;
            }
        }
        if !reading.abandoned.is_empty() {
            // Harmless: parts that are not removed now are removed by the next read.
            let _ = self.table.delete_all(reading.abandoned.clone()).await;
        }
        if reading.is_open() { Err(unreadable()) } else { Ok(reading.whole) }
    }

    /// The first part is deleted first: without it, the other parts are no message.
    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        let (firsts, others): (Vec<_>, Vec<_>) = keys.iter().map(parts::keys).unzip();
        let deleted = self.table.delete_each(firsts).await;
        let others = others.into_iter().zip(&deleted).filter(|(_, deleted)| deleted.is_ok());
        self.table.delete_all(others.flat_map(|(others, _)| others).collect()).await?;
        deleted.into_iter().collect()
    }
}

impl DynamoParking {
    /// Stores all parts but the first. `Ok` for a message whose parts were all stored.
    async fn store_others(&self, cut: &[Cut]) -> Vec<Result<(), PortError>> {
        let others = cut.iter().flat_map(|cut| cut.others.iter().cloned()).collect();
        let mut stored = self.table.put_all(others).await.into_iter();
        cut.iter()
            .map(|cut| stored.by_ref().take(cut.others.len()).collect::<Vec<_>>())
            .map(|of_one| of_one.into_iter().collect())
            .collect()
    }
}

fn unreadable() -> PortError {
    aws_error::of_code("Query", "UnreadableParkedItem")
}

#[cfg(test)]
mod tests;
