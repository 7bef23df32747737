//! What workers share to protect origins: small items in the `control` table.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `origin#<origin>` | `state` | `version`, `state`: JSON of an [`OriginState`], `own`: by which a writer knows what it wrote, and `listed_at`: when it was last put on the list |
//! | `origin#<origin>#<counter>` | `counts` | `attempts`, `failures`, `limited`, `retries`, `held`, `older`, `refused`, and those by place (`t0a` to `r7l`), which only grow |
//! | `origins` | `<origin>` | none: the list of origins that have a state |
//! | the same three | with `<origin>#<tenant>#<hash of the address>` in the origin's place | of one recipient that is, or was lately, in trouble |
//! | `limits` | `origin#<origin>`, `tenant#<tenant>` | `rate`: a limit that an operator has set; a tenant's `weight` and `concurrency` |
//! | `bucket#<part of a bucket>` | `slots` | `free_from`: when its next slot is free, in epoch ms |
//!
//! All but limits expire some time after their last write: a recipient's after a day, because it has a state only while something is
//! wrong. Origins are in plain text here, where operators need them, and nowhere else.
//!
//! No worker holds a lock: a state is exchanged on the condition that its version is unchanged, counters and slots are added to. A worker
//! that dies between two of its writes leaves one origin too many in the list, or slots that stay unused. An attribute that this version
//! did not write (an older version or an operator did) reads as if it were absent: protection never prevents sending.

mod limit_item;
mod limits;
mod slots;

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use futures_util::future::join_all;
use rand::RngExt as _;
use redial_core::endpoint::Origin;
use redial_core::protection::token_bucket::{Answer, Request};
use redial_core::protection::{Circuit, Count, Counted, OriginState};
use redial_core::time::Timestamp;
use redial_engine::ports::{Allowed, Limited, PortError, Protection, Randomness as _, StoredOrigin};
use redial_engine::protection::COUNTERS;

use self::limit_item::{limit_key, read_and_log};
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read as _, expiry, key, ms, n, s};
use crate::table::{Reading, Table, Update, on_a_table};
use crate::telemetry;

/// The partition of the list of origins.
const LIST: &str = "origins";

/// How long a state is kept after it was last written.
const STATE_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The same of a recipient. It is longer than any cooldown.
const RECIPIENT_KEPT: Duration = Duration::from_secs(86_400);

/// The part of the time for which a state is kept after which a circuit is put on the list again, if its state is still written.
const LISTED_AGAIN_AFTER: u32 = 8;

/// How long a counter is kept after it was last added to.
const COUNTS_KEPT: Duration = Duration::from_secs(86_400);

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoProtection {
    table: Table,
}

on_a_table!(DynamoProtection);

impl DynamoProtection {
    /// Moves an item's expiry, or makes the item. Nothing depends on it: a failure is logged, and the next write of its kind makes up for
    /// it. Answers whether it was written.
    async fn keep_until(&self, key: Item, end: Timestamp) -> bool {
        let values = [(":expires_at", expiry(end))];
        let update = self.table.update(key, "SET #expires_at = :expires_at", values);
        match self.table.send(update).await {
            Ok(_) => true,
            Err(error) => {
                telemetry::infrastructure(&error);
                false
            }
        }
    }

    /// Puts a circuit on the list of those that have a state, for longer than that lasts which is written before it is put there again.
    /// Answers whether it is on it.
    async fn list(&self, circuit: &Circuit, now: Timestamp) -> bool {
        let end = now.plus(kept(circuit)).plus(listed_again_after(circuit));
        self.keep_until(key(LIST, circuit.to_string()), end).await
    }

    /// Puts a circuit on the list again, once in a while: two writes a day of an origin, however often its state is exchanged.
    async fn list_again(&self, circuit: &Circuit, listed_at: Option<Timestamp>, now: Timestamp) {
        let is_recent = listed_at.is_some_and(|at| now.since(at) < listed_again_after(circuit));
        if is_recent || !self.list(circuit, now).await {
            return;
        }
        let values = [(":at", ms(now))];
        let noted = self.table.update_if(
            state_key(circuit),
            "SET listed_at = :at",
            "attribute_exists(#version)",
            values,
        );
        if let Err(error) = noted.await {
            telemetry::infrastructure(&error);
        }
    }

    async fn add_to(&self, key: Item, counted: Counted, now: Timestamp) -> Result<(), PortError> {
        let Counted { mut count, mut spread } = counted;
        let counts = counters(&mut count).map(|(name, count)| (name.to_owned(), *count));
        let spread = spread.named().filter(|(_, count)| **count > 0).map(|(name, count)| (name, *count));
        let fields: Vec<(String, u64)> = counts.into_iter().chain(spread).collect();
        let sums: Vec<String> = fields.iter().map(|(name, _)| format!("#{name} :{name}")).collect();
        let expression = format!("SET #expires_at = :expires_at ADD {}", sums.join(", "));
        let values = [(":expires_at", expiry(now.plus(COUNTS_KEPT)))];
        let update = self.table.update(key, expression, values);
        let update = fields.into_iter().fold(update, |update, (name, count)| {
            update.expression_attribute_values(format!(":{name}"), n(count))
        });
        self.table.send(update).await.map(|_| ())
    }
}

/// What an operator reads and sets. No delivery uses it.
impl DynamoProtection {
    /// The origins and recipients that have a state, with it, in alphabetical order: those whose state was written within a week, or
    /// within a day if it is a recipient's.
    pub async fn circuits(&self) -> Result<Vec<(Circuit, StoredOrigin)>, PortError> {
        let listed = self.table.partition(LIST).await?;
        let circuits: Vec<Circuit> =
            listed.iter().filter_map(|item| Circuit::parse(item.text("sk")?)).collect();
        let keys = circuits.iter().map(state_key).collect();
        let found = self.table.read_all(keys, Reading::Consistent, Patience::brief()).await?;
        // One is on the list a moment before it has a state.
        let of = |(circuit, item): (Circuit, Option<Item>)| Some((circuit, stored(&item?)));
        Ok(circuits.into_iter().zip(found).filter_map(of).collect())
    }

    /// The origins among them.
    pub async fn origins(&self) -> Result<Vec<(Origin, StoredOrigin)>, PortError> {
        let origin = |(circuit, stored)| match circuit {
            Circuit::Origin(origin) => Some((origin, stored)),
            Circuit::Recipient(_) => None,
        };
        Ok(self.circuits().await?.into_iter().filter_map(origin).collect())
    }

    /// A circuit's state as it is now; the default one, of version 0, if it has none.
    pub async fn stored(&self, circuit: &Circuit) -> Result<StoredOrigin, PortError> {
        Ok(self.table.get(state_key(circuit)).await?.as_ref().map(stored).unwrap_or_default())
    }
}

impl Protection for DynamoProtection {
    async fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Allowed>), PortError> {
        let keys = circuits.iter().map(state_key).chain(limits.iter().map(limit_key)).collect();
        let mut found = self.table.read_all(keys, Reading::Eventual, Patience::brief()).await?.into_iter();
        let states =
            found.by_ref().take(circuits.len()).map(|item| item.as_ref().map(stored).unwrap_or_default());
        let states = states.collect();
        let allowed = |(limited, item): (&Limited, Option<Item>)| {
            item.map(|item| read_and_log(limited, &item)).unwrap_or_default()
        };
        Ok((states, limits.iter().zip(found).map(allowed).collect()))
    }

    async fn look(&self, circuit: &Circuit) -> Result<(StoredOrigin, Counted), PortError> {
        let counters = (0..COUNTERS).map(|counter| counts_key(circuit, counter));
        let keys = [state_key(circuit)].into_iter().chain(counters).collect();
        let mut found = self.table.read_all(keys, Reading::Consistent, Patience::brief()).await?.into_iter();
        let state = found.next().flatten().as_ref().map(stored).unwrap_or_default();
        let counted = found.flatten().map(|item| counted(&item));
        Ok((state, counted.fold(Counted::default(), |sum, counted| sum.plus(&counted))))
    }

    async fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let is_first = version == 0;
        let is_listed = is_first && self.list(circuit, now).await;
        let text = serde_json::to_string(&state).expect("a state has string keys and plain numbers");
        // The SDK makes a call again whose answer is lost, and meets its own write then.
        let own = format!("{:016x}", System.rng().random::<u64>());
        let values = [
            (":next", n(version.saturating_add(1))),
            (":state", s(text)),
            (":expires_at", expiry(now.plus(kept(circuit)))),
            (":own", s(&own)),
        ];
        let mut expression =
            "SET #version = :next, #state = :state, #expires_at = :expires_at, #own = :own".to_owned();
        if is_listed {
            expression.push_str(", listed_at = :now");
        }
        let update = self.table.update(state_key(circuit), expression, values);
        let update = if is_listed { update.expression_attribute_values(":now", ms(now)) } else { update };
        let update = update.return_values_on_condition_check_failure(AllOld);
        let update = if is_first {
            // A version that is no number reads as 0: one written by hand must not stop all exchanges.
            update
                .condition_expression(
                    "attribute_not_exists(#version) OR #version < :next OR NOT attribute_type(#version, :number)",
                )
                .expression_attribute_values(":number", s("N"))
        } else {
            update
                .return_values(ReturnValue::AllOld)
                .condition_expression("#version = :version")
                .expression_attribute_values(":version", n(version))
        };
        let (is_ours, before) = match self.table.send(update).await? {
            Update::Done(before) => (true, before),
            Update::Refused(item) => (item.text("own") == Some(&own), item),
        };
        if is_ours && !is_first {
            self.list_again(circuit, before.time("listed_at"), now).await;
        }
        Ok(is_ours)
    }

    async fn add(
        &self,
        counter: u16,
        counts: Vec<(Circuit, Counted)>,
        now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        let counts = counts.into_iter().map(|(circuit, counted)| (counts_key(&circuit, counter), counted));
        join_all(counts.map(|(key, counted)| self.add_to(key, counted, now))).await
    }

    async fn lease(&self, request: Request) -> Result<Answer, PortError> {
        self.lease_block(&request).await
    }
}

const fn kept(circuit: &Circuit) -> Duration {
    match circuit {
        Circuit::Origin(_) => STATE_KEPT,
        Circuit::Recipient(_) => RECIPIENT_KEPT,
    }
}

fn listed_again_after(circuit: &Circuit) -> Duration {
    kept(circuit) / LISTED_AGAIN_AFTER
}

fn state_key(circuit: &Circuit) -> Item {
    key(format!("origin#{circuit}"), "state")
}

fn counts_key(circuit: &Circuit, counter: u16) -> Item {
    key(format!("origin#{circuit}#{counter}"), "counts")
}

/// An origin's state. One that cannot be read counts as new, at its stored version: the next exchange replaces it.
fn stored(item: &Item) -> StoredOrigin {
    let state = item.text("state").and_then(|text| serde_json::from_str(text).ok());
    StoredOrigin { state: state.unwrap_or_default(), version: item.number("version").unwrap_or(0) }
}

/// The counters by the names of their attributes.
fn counters(count: &mut Count) -> [(&'static str, &mut u64); 7] {
    let Count { attempts, failures, limited, retries, held, older, refused } = count;
    [
        ("attempts", attempts),
        ("failures", failures),
        ("limited", limited),
        ("retries", retries),
        ("held", held),
        ("older", older),
        ("refused", refused),
    ]
}

fn counted(item: &Item) -> Counted {
    let mut counted = Counted::default();
    for (name, counter) in counters(&mut counted.count) {
        *counter = item.number(name).unwrap_or(0);
    }
    for (name, counter) in counted.spread.named() {
        *counter = item.number(&name).unwrap_or(0);
    }
    counted
}

#[cfg(test)]
mod tests;
