//! The HTTP API's part of the `deliveries` table: deliveries are queued before a worker claims them, and looked up.
//!
//! An entry is inserted, which fails where there is one; those are then read. So a request of new messages costs one call for every 25.
//! The inserted entry is one that [`crate::ledger_dynamo`] swaps when a worker claims it: state `queued`, turn 0, a claim that expired
//! long ago, and an empty MessageId.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::ledger::history::KEPT;
use redial_core::ledger::{PastAttempt, State, expires_at};
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, Deliveries, DeliveryRecord, Inserted, NewDelivery, PortError};

use crate::acks_dynamo;
use crate::aws_error;
use crate::ledger_dynamo::{attribute, entry, entry_key};
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, expiry, ms, n, s};
use crate::table::{Statement, Table, Written, on_a_table};

/// The lease token of an entry that no worker has claimed.
const UNCLAIMED: &str = "front-door";

/// The `deliveries` table: partition key `pk` (string), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoDeliveries {
    table: Table,
}

on_a_table!(DynamoDeliveries);

impl DynamoDeliveries {
    fn statement(&self, delivery: &NewDelivery, now: Timestamp) -> Statement {
        let Turn { lineage, attempt } = Turn::default();
        let key = &delivery.key;
        let mut fields: Vec<(&str, AttributeValue)> = vec![
            ("pk", s(key.to_string())),
            ("tenant", s(key.tenant.as_str())),
            ("id", s(key.id.as_str())),
            ("state", s(State::Queued.label())),
            ("lineage", n(lineage.0)),
            ("attempt", n(attempt.0)),
            ("fingerprint", s(delivery.fingerprint.as_str())),
            ("lease_token", s(UNCLAIMED)),
            ("lease_until", ms(Timestamp::default())),
            ("source_message", s("")),
            ("created_at", ms(now)),
            ("updated_at", ms(now)),
            ("expires_at", expiry(expires_at(now, delivery.not_before))),
        ];
        fields.extend(delivery.channel.map(|channel| ("channel", s(channel.label()))));
        fields.extend(delivery.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        fields.extend(delivery.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
        fields.extend(delivery.not_before.map(|at| ("not_before", ms(at))));
        Statement::insert(self.table.name(), fields)
    }

    async fn items(&self, keys: &[&DeliveryKey]) -> Result<Vec<Item>, PortError> {
        self.table.get_all(keys.iter().map(|key| entry_key(key)).collect()).await
    }
}

impl Deliveries for DynamoDeliveries {
    async fn insert(&self, deliveries: Vec<NewDelivery>, now: Timestamp) -> Vec<Result<Inserted, PortError>> {
        let statements = deliveries.iter().map(|delivery| self.statement(delivery, now)).collect();
        let written = self.table.execute(statements, Patience::brief()).await;
        let known: Vec<&DeliveryKey> = deliveries
            .iter()
            .zip(&written)
            .filter(|(_, written)| **written == Written::ConditionFailed)
            .map(|(delivery, _)| &delivery.key)
            .collect();
        let items = if known.is_empty() { Ok(Vec::new()) } else { self.items(&known).await };
        let found = items.map(|items| items.iter().filter_map(entry).collect::<Vec<_>>());
        deliveries
            .iter()
            .zip(written)
            .map(|(delivery, written)| match written {
                Written::Yes => Ok(Inserted::New),
                Written::Failed(error) => Err(error),
                Written::ConditionFailed => {
                    let entries = found.as_ref().map_err(Clone::clone)?;
                    let stored = entries.iter().find(|stored| stored.key == delivery.key);
                    // It expired in between, or another release wrote it.
                    let stored = stored.ok_or_else(|| aws_error::of_code("BatchGetItem", "Unreadable"))?;
                    // It counts as absent, and the claim overwrites it.
                    if stored.is_forgotten(now) {
                        return Ok(Inserted::New);
                    }
                    Ok(Inserted::Duplicate { state: stored.state, fingerprint: stored.fingerprint.clone() })
                }
            })
            .collect()
    }

    async fn find(&self, key: &DeliveryKey) -> Result<Option<DeliveryRecord>, PortError> {
        let now = System.now();
        let found = self.items(&[key]).await?.first().and_then(known);
        Ok(found.filter(|known| !known.entry.is_forgotten(now)))
    }
}

fn known(item: &Item) -> Option<DeliveryRecord> {
    let mut attempts: Vec<PastAttempt> =
        (0..KEPT).filter_map(|place| PastAttempt::from_text(item.text(&attribute(place))?)).collect();
    attempts.sort_by_key(PastAttempt::turn);
    let times = AckEvent::ALL.into_iter();
    Some(DeliveryRecord {
        entry: entry(item)?,
        channel: item.text("channel").and_then(Channel::from_label),
        attempts,
        acknowledged: times
            .filter_map(|event| Some((event, item.time(acks_dynamo::attribute(event))?)))
            .collect(),
    })
}

#[cfg(test)]
#[path = "deliveries_dynamo_tests.rs"]
mod tests;
