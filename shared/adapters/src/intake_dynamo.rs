//! The front door's part of the `deliveries` table: deliveries entered before anybody has claimed them, and looked up.
//!
//! An entry is inserted, which fails where there is one; those are read then. So a request of messages that are new costs one
//! call for 25 of them. What is inserted is what [`crate::ledger_dynamo`] swaps when a worker claims it: state `queued`, turn 0, a
//! lease that ended long ago, and the MessageId of no message.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::ledger::history::KEPT;
use redial_core::ledger::{PastAttempt, State, expires_at};
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, Deliveries, Entered, Entrance, Intake, Known, PortError};

use crate::acks_dynamo;
use crate::attributes::{Item, Read, expiry, ms, n, s};
use crate::ledger_dynamo::{attribute, entry};
use crate::partiql::{self, Statement, Written};
use crate::retries::Patience;
use crate::system::System;
use crate::write_units::WriteUnits;
use crate::{aws_error, batch_get};

/// The lease token of an entry that nobody has claimed: no invocation's.
const NOBODY: &str = "front-door";

/// The `deliveries` table.
#[derive(Clone, Debug)]
pub struct DynamoIntake {
    client: Client,
    table: String,
    units: WriteUnits,
}

impl DynamoIntake {
    /// On this table: partition key `pk` (string), TTL attribute `expires_at`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }

    fn insert(&self, entrance: &Entrance, now: Timestamp) -> Statement {
        let Turn { lineage, attempt } = Turn::default();
        let key = &entrance.key;
        let mut fields: Vec<(&str, AttributeValue)> = vec![
            ("pk", s(key.to_string())),
            ("tenant", s(key.tenant.as_str())),
            ("id", s(key.id.as_str())),
            ("state", s(State::Queued.label())),
            ("lineage", n(lineage.0)),
            ("attempt", n(attempt.0)),
            ("fingerprint", s(entrance.fingerprint.as_str())),
            ("lease_token", s(NOBODY)),
            ("lease_until", ms(Timestamp::default())),
            ("source_message", s("")),
            ("created_at", ms(now)),
            ("updated_at", ms(now)),
            ("expires_at", expiry(expires_at(now, entrance.not_before))),
        ];
        fields.extend(entrance.channel.map(|channel| ("channel", s(channel.label()))));
        fields.extend(entrance.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        fields.extend(entrance.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
        fields.extend(entrance.not_before.map(|at| ("not_before", ms(at))));
        Statement::insert(&self.table, fields)
    }

    async fn items(&self, keys: &[&DeliveryKey]) -> Result<Vec<Item>, PortError> {
        let keys = keys.iter().map(|key| HashMap::from([("pk".to_owned(), s(key.to_string()))])).collect();
        batch_get::get(&self.client, &self.table, keys).await
    }
}

impl Intake for DynamoIntake {
    async fn enter(&self, entrances: Vec<Entrance>, now: Timestamp) -> Vec<Result<Entered, PortError>> {
        let statements = entrances.iter().map(|entrance| self.insert(entrance, now)).collect();
        let written = partiql::execute(&self.client, &self.units, statements, Patience::brief()).await;
        let known: Vec<&DeliveryKey> = entrances
            .iter()
            .zip(&written)
            .filter(|(_, written)| **written == Written::ConditionFailed)
            .map(|(entrance, _)| &entrance.key)
            .collect();
        let items = if known.is_empty() { Ok(Vec::new()) } else { self.items(&known).await };
        let found = items.map(|items| items.iter().filter_map(entry).collect::<Vec<_>>());
        entrances
            .iter()
            .zip(written)
            .map(|(entrance, written)| match written {
                Written::Yes => Ok(Entered::Fresh),
                Written::Failed(error) => Err(error),
                Written::ConditionFailed => {
                    let entries = found.as_ref().map_err(Clone::clone)?;
                    let stored = entries.iter().find(|stored| stored.key == entrance.key);
                    // It expired in between, or another release wrote it.
                    let stored = stored.ok_or_else(|| aws_error::of_code("BatchGetItem", "Unreadable"))?;
                    // It counts as absent, and the claim writes over it.
                    if stored.is_forgotten(now) {
                        return Ok(Entered::Fresh);
                    }
                    Ok(Entered::Known { state: stored.state, fingerprint: stored.fingerprint.clone() })
                }
            })
            .collect()
    }
}

impl Deliveries for DynamoIntake {
    async fn find(&self, key: &DeliveryKey) -> Result<Option<Known>, PortError> {
        let now = System.now();
        let found = self.items(&[key]).await?.first().and_then(known);
        Ok(found.filter(|known| !known.entry.is_forgotten(now)))
    }
}

fn known(item: &Item) -> Option<Known> {
    let mut attempts: Vec<PastAttempt> =
        (0..KEPT).filter_map(|place| PastAttempt::from_text(item.text(&attribute(place))?)).collect();
    attempts.sort_by_key(PastAttempt::turn);
    let told = AckEvent::ALL.into_iter();
    Some(Known {
        entry: entry(item)?,
        channel: item.text("channel").and_then(Channel::from_label),
        attempts,
        acknowledged: told
            .filter_map(|event| Some((event, item.time(acks_dynamo::attribute(event))?)))
            .collect(),
    })
}

#[cfg(test)]
#[path = "intake_dynamo_tests.rs"]
mod tests;
