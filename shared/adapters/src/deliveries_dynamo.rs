//! The HTTP API's part of the `deliveries` table: deliveries are queued before a worker claims them, and looked up.
//!
//! An entry is inserted, which fails where there is one; those are then read. So a request of new messages costs one call for every 25.
//! The inserted entry is one that [`crate::ledger_dynamo`] swaps when a worker claims it: state `queued`, turn 0, a claim that expired
//! long ago, and an empty MessageId.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::identity::{DeliveryKey, IdSource, Turn};
use redial_core::ledger::listing::Listing;
use redial_core::ledger::{Ask, Cancellation, PastAttempt, State, expires_at};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Clock as _, Deliveries, DeliveryRecord, Inserted, Listed, NewDelivery, PortError,
};

use crate::delivery_item::{ATTEMPTS, asked, entry, entry_key, given, identity};
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, ms, s};
use crate::table::{Statement, Table, on_a_table};
use crate::{acks_dynamo, aws_error, batches_dynamo, by_state_dynamo, cancel_dynamo};

/// The lease token of an entry that no worker has claimed.
const UNCLAIMED: &str = "front-door";

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

    fn statement(&self, delivery: &NewDelivery, now: Timestamp) -> Statement {
        let NewDelivery { key, fingerprint, channel, endpoint_hash, subscription, given: said, not_before } =
            delivery;
        let ask = Ask {
            key: key.clone(),
            turn: Turn::default(),
            lease_token: UNCLAIMED.to_owned(),
            lease_until: Timestamp::default(),
            source_message: String::new(),
            fingerprint: fingerprint.clone(),
            id_source: IdSource::Producer,
            state: State::Queued,
        };
        let mut fields = asked(&ask, expires_at(now, *not_before), now);
        fields.extend(identity(key, now));
        fields.extend(channel.map(|channel| ("channel", s(channel.label()))));
        fields.extend(endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        fields.extend(subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
        fields.extend(given(said));
        fields.extend(not_before.map(|at| ("not_before", ms(at))));
        Statement::insert(self.table.name(), fields)
    }
}

impl Deliveries for DynamoDeliveries {
    async fn insert(&self, deliveries: Vec<NewDelivery>, now: Timestamp) -> Vec<Result<Inserted, PortError>> {
        let statement = |at: usize| self.statement(&deliveries[at], now);
        let written = self.table.execute(deliveries.len(), &statement, Patience::brief()).await;
        let known = deliveries.iter().zip(&written).filter(|(_, written)| **written == Ok(false));
        let known = known.map(|(delivery, _)| entry_key(&delivery.key)).collect();
        let mut found = batches_dynamo::resolved(&self.table, known, Patience::brief()).await.into_iter();
        let answer = |written| match written {
            Ok(true) => Ok(Inserted::New),
            Err(error) => Err(error),
            Ok(false) => {
                let stored = found.next().expect("every known one is read")?.as_ref().and_then(entry);
                // It expired in between, or another release wrote it.
                let stored = stored.ok_or_else(|| aws_error::of_code("BatchGetItem", "Unreadable"))?;
                // It counts as absent, and the claim overwrites it.
                if stored.is_forgotten(now) {
                    return Ok(Inserted::New);
                }
                let awaits_its_message = stored.awaits_its_message();
                let (state, fingerprint) = (stored.state, stored.fingerprint);
                Ok(Inserted::Duplicate { state, fingerprint, awaits_its_message })
            }
        };
        written.into_iter().map(answer).collect()
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
