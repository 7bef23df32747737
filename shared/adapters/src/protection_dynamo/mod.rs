//! What workers share to protect origins: small items in the `control` table.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `origin#<origin>` | `state` | `version`, and `state`: JSON of an [`OriginState`] |
//! | `origin#<origin>#<counter>` | `counts` | `attempts`, `failures`, `limited`, `retries`, `held`, `older`, which only grow |
//! | `origins` | `<origin>` | none: the list of origins that have a state |
//! | `limits` | `origin#<origin>`, `tenant#<tenant>` | `rate`: a limit that an operator has set |
//! | `bucket#<part of a bucket>` | `slots` | `free_from`: when its next slot is, in epoch ms |
//!
//! All but limits expire some time after their last write. Origins stand in plain text here, where operators need them, and
//! nowhere else.
//!
//! No worker holds a lock: a state is exchanged on the condition that nobody came between, counters and slots are added to. One
//! that dies between two of its writes leaves a list with an origin too many, or slots that nobody uses.
//!
//! | file | what |
//! |---|---|
//! | `item` | keys, and what the items hold |
//! | `lease` | blocks of slots |
//! | `operator` | what lists and sets, for the command line |

mod item;
mod lease;
mod operator;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use futures_util::future::join_all;
use redial_core::endpoint::Origin;
use redial_core::protection::token_bucket::{Answer, Request};
use redial_core::protection::{Count, OriginState, Phase};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Limited, PortError, Protection, StoredOrigin};
use redial_engine::protection::COUNTERS;

use self::item::Key;
use crate::attributes::{Item, expiry, n, s};
use crate::batch_get::{self, Reading};
use crate::retries::Patience;
use crate::write_units::WriteUnits;
use crate::{aws_error, telemetry};

/// How long a state, and a place in the list, is kept after it was last written.
const STATE_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How long a counter is kept after it was last added to.
const COUNTS_KEPT: Duration = Duration::from_secs(86_400);

/// The `control` table, as far as it protects origins.
#[derive(Clone, Debug)]
pub struct DynamoProtection {
    client: Client,
    table: String,
    units: WriteUnits,
}

impl DynamoProtection {
    /// On this table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
    pub fn new(client: Client, control_table: String) -> Self {
        Self { client, table: control_table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }

    /// The items of these keys, in one call a hundred.
    async fn find(&self, keys: BTreeSet<Key>, reading: Reading) -> Result<HashMap<Key, Item>, PortError> {
        let keys = keys.iter().map(Key::item).collect();
        let items = batch_get::read(&self.client, &self.table, keys, reading, Patience::brief()).await?;
        Ok(items.into_iter().filter_map(|item| Some((Key::of(&item)?, item))).collect())
    }

    /// The item of this key as it is now.
    async fn get(&self, key: &Key) -> Result<Option<Item>, PortError> {
        let got = self.client.get_item().table_name(&self.table).set_key(Some(key.item()));
        let got = got.consistent_read(true).send().await;
        Ok(got.map_err(|error| aws_error::of_call("GetItem", &error))?.item)
    }

    /// An UpdateItem of this key; its condition and what it changes are the caller's to add.
    fn updating(&self, key: &Key) -> UpdateItemFluentBuilder {
        let update = self.client.update_item().table_name(&self.table).set_key(Some(key.item()));
        update.return_consumed_capacity(ReturnConsumedCapacity::Total)
    }

    /// Sends it; answers the attributes that were asked for, or `None` if its condition did not hold.
    async fn updated(&self, update: UpdateItemFluentBuilder) -> Result<Option<Item>, PortError> {
        match update.send().await {
            Ok(answer) => {
                self.units.add(answer.consumed_capacity());
                Ok(Some(answer.attributes.unwrap_or_default()))
            }
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(aws_error::of_call("UpdateItem", &error)),
        }
    }

    /// Sends an update that nothing depends on: that it failed is told, and mended by the next of its kind.
    async fn updated_beside(&self, update: UpdateItemFluentBuilder) {
        if let Err(error) = self.updated(update).await {
            telemetry::infrastructure(&error);
        }
    }

    /// Puts an origin on the list of those that have a state.
    async fn list(&self, origin: &Origin, now: Timestamp) {
        let update = self
            .updating(&Key::listed(origin))
            .update_expression("SET #expires_at = :expires_at")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":expires_at", expiry(now.plus(STATE_KEPT)));
        self.updated_beside(update).await;
    }

    async fn add_to(&self, key: &Key, count: Count, now: Timestamp) -> Result<(), PortError> {
        let fields = item::fields(count);
        let sums: Vec<String> = fields.iter().map(|(name, _)| format!("#{name} :{name}")).collect();
        let update = self
            .updating(key)
            .update_expression(format!("SET #expires_at = :expires_at ADD {}", sums.join(", ")))
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":expires_at", expiry(now.plus(COUNTS_KEPT)));
        let update = fields.into_iter().fold(update, |update, (name, count)| {
            update
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), n(count))
        });
        self.updated(update).await.map(|_| ())
    }
}

impl Protection for DynamoProtection {
    async fn read(
        &self,
        origins: Vec<Origin>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Option<Rate>>), PortError> {
        let keys = origins.iter().map(Key::state).chain(limits.iter().map(Key::limit));
        let found = self.find(keys.filter(Key::fits).collect(), Reading::Eventual).await?;
        let stored = |origin| found.get(&Key::state(origin)).map(item::stored).unwrap_or_default();
        let rate = |limited| found.get(&Key::limit(limited)).and_then(|item| item::rate(limited, item));
        Ok((origins.iter().map(stored).collect(), limits.iter().map(rate).collect()))
    }

    async fn look(&self, origin: &Origin) -> Result<(StoredOrigin, Count), PortError> {
        let counters = (0..COUNTERS).map(|counter| Key::counts(origin, counter));
        let keys = counters.chain([Key::state(origin)]).collect();
        let mut found = self.find(keys, Reading::Consistent).await?;
        let stored = found.remove(&Key::state(origin)).as_ref().map(item::stored).unwrap_or_default();
        Ok((stored, found.values().map(item::count).fold(Count::default(), Count::plus)))
    }

    async fn exchange(
        &self,
        origin: &Origin,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let is_first = version == 0;
        if is_first {
            self.list(origin, now).await;
        }
        let update = self
            .updating(&Key::state(origin))
            .update_expression("SET #version = :next, #state = :state, #expires_at = :expires_at")
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#state", "state")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":next", n(version.saturating_add(1)))
            .expression_attribute_values(":state", s(item::text_of(&state)))
            .expression_attribute_values(":expires_at", expiry(now.plus(STATE_KEPT)));
        let update = if is_first {
            // What is no version reads as 0: whoever wrote it by hand must not stop all exchanges.
            update
                .condition_expression(
                    "attribute_not_exists(#version) OR #version < :next OR NOT attribute_type(#version, :number)",
                )
                .expression_attribute_values(":number", s("N"))
        } else {
            update
                .condition_expression("#version = :version")
                .expression_attribute_values(":version", n(version))
        };
        let is_ours = self.updated(update).await?.is_some();
        if is_ours && !is_first && state.breaker().phase(now) != Phase::Closed {
            self.list(origin, now).await;
        }
        Ok(is_ours)
    }

    async fn add(
        &self,
        counter: u16,
        counts: Vec<(Origin, Count)>,
        now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        let counts = counts.iter().map(|(origin, count)| (Key::counts(origin, counter), *count));
        join_all(counts.map(|(key, count)| async move { self.add_to(&key, count, now).await })).await
    }

    async fn lease(&self, request: Request) -> Result<Answer, PortError> {
        self.lease_block(&request).await
    }
}

#[cfg(test)]
mod tests;
