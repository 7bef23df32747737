//! What workers share to protect origins: small items in the `control` table.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `origin#<origin>` | `state` | `version`, and `state`: JSON of an [`OriginState`] |
//! | `origin#<origin>#<counter>` | `counts` | `attempts`, `failures`, `limited`, `retries`, `held`, `older`, which only grow |
//! | `origins` | `<origin>` | none: the list of origins that have a state |
//! | `limits` | `origin#<origin>`, `tenant#<tenant>` | `rate`: a limit that an operator has set |
//! | `bucket#<part of a bucket>` | `slots` | `free_from`: when its next slot is free, in epoch ms |
//!
//! All but limits expire some time after their last write. Origins are in plain text here, where operators need them, and nowhere else.
//!
//! No worker holds a lock: a state is exchanged on the condition that its version is unchanged, counters and slots are added to. A worker
//! that dies between two of its writes leaves one origin too many in the list, or slots that stay unused.
//!
//! | file | what |
//! |---|---|
//! | `item` | keys and attributes |
//! | `slots` | blocks of slots of a token bucket |
//! | `operator` | lists and limits, for the command line |

mod item;
mod operator;
mod slots;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use redial_core::endpoint::Origin;
use redial_core::protection::token_bucket::{Answer, Request};
use redial_core::protection::{Count, OriginState, Phase};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Limited, PortError, Protection, StoredOrigin};
use redial_engine::protection::COUNTERS;

use self::item::Key;
use crate::retries::Patience;
use crate::table::attributes::{Item, expiry, n, s};
use crate::table::{Reading, Table, on_a_table};
use crate::telemetry;

/// How long a state, and its place in the list, is kept after it was last written.
const STATE_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How long a counter is kept after it was last added to.
const COUNTS_KEPT: Duration = Duration::from_secs(86_400);

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoProtection {
    table: Table,
}

on_a_table!(DynamoProtection);

impl DynamoProtection {
    /// The items of these keys: one call for each hundred.
    async fn find(&self, keys: BTreeSet<Key>, reading: Reading) -> Result<HashMap<Key, Item>, PortError> {
        let keys = keys.iter().map(Key::item).collect();
        let items = self.table.read_all(keys, reading, Patience::brief()).await?;
        Ok(items.into_iter().filter_map(|item| Some((Key::of(&item)?, item))).collect())
    }

    /// Moves an item's expiry, or makes the item. Nothing depends on it: a failure is logged, and the next write of its kind makes up for
    /// it.
    async fn keep_until(&self, key: &Key, end: Timestamp) {
        let values = [(":expires_at", expiry(end))];
        let update = self.table.update(key.item(), "SET #expires_at = :expires_at", values);
        if let Err(error) = self.table.send(update).await {
            telemetry::infrastructure(&error);
        }
    }

    /// Puts an origin on the list of those that have a state.
    async fn list(&self, origin: &Origin, now: Timestamp) {
        self.keep_until(&Key::listed(origin), now.plus(STATE_KEPT)).await;
    }

    async fn add_to(&self, key: &Key, count: Count, now: Timestamp) -> Result<(), PortError> {
        let fields = item::fields(count);
        let sums: Vec<String> = fields.iter().map(|(name, _)| format!("#{name} :{name}")).collect();
        let expression = format!("SET #expires_at = :expires_at ADD {}", sums.join(", "));
        let values = [(":expires_at", expiry(now.plus(COUNTS_KEPT)))];
        let update = self.table.update(key.item(), expression, values);
        let update = fields.into_iter().fold(update, |update, (name, count)| {
            update.expression_attribute_values(format!(":{name}"), n(count))
        });
        self.table.send(update).await.map(|_| ())
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
        let values = [
            (":next", n(version.saturating_add(1))),
            (":state", s(item::text_of(&state))),
            (":expires_at", expiry(now.plus(STATE_KEPT))),
        ];
        let expression = "SET #version = :next, #state = :state, #expires_at = :expires_at";
        let update = self.table.update(Key::state(origin).item(), expression, values);
        let update = if is_first {
            // A version that is no number reads as 0: one written by hand must not stop all exchanges.
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
        let is_ours = self.table.send(update).await?.is_done();
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
