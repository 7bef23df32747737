//! The HTTP API's part of the `deliveries` table: deliveries are queued before a worker claims them, and looked up.
//!
//! An entry is inserted, which fails where there is one; those are then read. So a request of new messages costs one call for every 25.
//! The inserted entry is one that [`crate::ledger_dynamo`] swaps when a worker claims it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::listing::Listing;
use redial_core::ledger::{Cancellation, Entry, PastAttempt};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Clock as _, Deliveries, DeliveryRecord, Inserted, Listed, NewDelivery, PortError,
};

use crate::delivery_item::{ATTEMPTS, Fields, entry, entry_key, unclaimed};
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read};
use crate::table::{Statement, Table, on_a_table};
use crate::{acks_dynamo, aws_error, batches_dynamo, by_state_dynamo, cancel_dynamo, expired_entry};

/// The `deliveries` table: partition key `pk` (string), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoDeliveries {
    table: Table,
}

on_a_table!(DynamoDeliveries);

impl DynamoDeliveries {
    /// The items of deliveries, read consistently, as they would be had each attempt been recorded by itself.
    pub async fn items(
        &self,
        keys: &[DeliveryKey],
    ) -> Vec<Result<Option<HashMap<String, AttributeValue>>, PortError>> {
        let keys = keys.iter().map(entry_key).collect();
        batches_dynamo::resolved(&self.table, keys, Patience::brief()).await
    }

    /// What is known of each of these; `None` of one that is not known (any more).
    pub async fn records(&self, keys: &[DeliveryKey]) -> Result<Vec<Option<DeliveryRecord>>, PortError> {
        let now = System.now();
        let record = |item: Option<Item>| item.as_ref().and_then(known);
        let items = self.items(keys).await.into_iter();
        items.map(|item| Ok(record(item?).filter(|record| !record.entry.is_forgotten(now)))).collect()
    }

    /// The item of one.
    pub async fn item(
        &self,
        key: &DeliveryKey,
    ) -> Result<Option<HashMap<String, AttributeValue>>, PortError> {
        self.items(std::slice::from_ref(key)).await.pop().expect("every key is answered")
    }

    /// Writes these over the expired entries that they met.
    async fn replace(
        &self,
        met: &[(&NewDelivery, &Entry)],
        now: Timestamp,
    ) -> Vec<Result<Inserted, PortError>> {
        let statement = |at: usize| {
            let (delivery, expired) = met[at];
            expired_entry::replace(&self.table, fields(delivery, now), expired)
        };
        let written = self.table.execute(met.len(), &statement, Patience::brief()).await;
        let mut answers = Vec::with_capacity(met.len());
        for ((delivery, _), written) in met.iter().zip(written) {
            answers.push(match written {
                Ok(true) => Ok(Inserted::New),
                // Another request was first, or this one, whose answer was lost; or DynamoDB has deleted it, and the caller can repeat this one.
                Ok(false) => self.find(&delivery.key).await.and_then(|found| {
                    let contended = || aws_error::of_code("BatchExecuteStatement", "Contention");
                    found.map(|record| duplicate(record.entry)).ok_or_else(contended)
                }),
                Err(error) => Err(error),
            });
        }
        answers
    }
}

fn fields(delivery: &NewDelivery, now: Timestamp) -> Fields {
    unclaimed(&delivery.entry(now), delivery.channel)
}

impl Deliveries for DynamoDeliveries {
    async fn insert(&self, deliveries: Vec<NewDelivery>, now: Timestamp) -> Vec<Result<Inserted, PortError>> {
        let statement = |at: usize| Statement::insert(self.table.name(), fields(&deliveries[at], now));
        let written = self.table.execute(deliveries.len(), &statement, Patience::brief()).await;
        let known = deliveries.iter().zip(&written).filter(|(_, written)| **written == Ok(false));
        let known = known.map(|(delivery, _)| entry_key(&delivery.key)).collect();
        let mut found = batches_dynamo::resolved(&self.table, known, Patience::brief()).await.into_iter();
        let mut expired = Vec::new();
        let mut answers = Vec::with_capacity(deliveries.len());
        for (at, written) in written.into_iter().enumerate() {
            let stored = match written {
                Ok(true) => Ok(None),
                Ok(false) => found.next().expect("every known one is read").and_then(|item| {
                    // It was deleted in between, or another release wrote it.
                    let unreadable = || aws_error::of_code("BatchGetItem", "Unreadable");
                    item.as_ref().and_then(entry).map(Some).ok_or_else(unreadable)
                }),
                Err(error) => Err(error),
            };
            answers.push(stored.map(|stored| match stored {
                Some(stored) if !stored.is_forgotten(now) => duplicate(stored),
                stored => {
                    expired.extend(stored.map(|stored| (at, stored)));
                    Inserted::New
                }
            }));
        }
        let met: Vec<_> = expired.iter().map(|(at, stored)| (&deliveries[*at], stored)).collect();
        for ((at, _), replaced) in expired.iter().zip(self.replace(&met, now).await) {
            answers[*at] = replaced;
        }
        answers
    }

    async fn cancel(&self, key: &DeliveryKey, now: Timestamp) -> Result<Cancellation, PortError> {
        cancel_dynamo::cancel(&self.table, key, now).await
    }

    async fn list(&self, listing: &Listing) -> Result<Listed, PortError> {
        let (keys, next) = by_state_dynamo::page(&self.table, listing).await?;
        let now = System.now();
        let mut records = Vec::with_capacity(keys.len());
        for item in self.items(&keys).await {
            let Some(record) = item?.as_ref().and_then(known) else { continue };
            if listing.finds(&record.entry) && !record.entry.is_forgotten(now) {
                records.push(record);
            }
        }
        Ok(Listed { records, next })
    }

    async fn find(&self, key: &DeliveryKey) -> Result<Option<DeliveryRecord>, PortError> {
        let now = System.now();
        let found = self.item(key).await?.as_ref().and_then(known);
        Ok(found.filter(|known| !known.entry.is_forgotten(now)))
    }
}

fn duplicate(stored: Entry) -> Inserted {
    let awaits_its_message = stored.awaits_its_message();
    Inserted::Duplicate { state: stored.state, fingerprint: stored.fingerprint, awaits_its_message }
}

fn known(item: &Item) -> Option<DeliveryRecord> {
    let mut attempts: Vec<PastAttempt> =
        ATTEMPTS.iter().filter_map(|name| PastAttempt::from_text(item.text(name)?)).collect();
    attempts.sort_by_key(PastAttempt::turn);
    Some(DeliveryRecord {
        entry: entry(item)?,
        channel: item.text("channel").and_then(Channel::from_label),
        attempts,
        acknowledged: acks_dynamo::times(item),
    })
}

#[cfg(test)]
#[path = "deliveries_dynamo_tests.rs"]
mod tests;
