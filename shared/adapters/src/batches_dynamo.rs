//! Batches of successes on the `deliveries` table: one item for what an invocation sent ([`redial_core::ledger::batch`]).
//!
//! | attribute | |
//! |---|---|
//! | `pk` | `batch#<lease token>` |
//! | `p<place>` | the success of that place, as text |
//! | `closed` | when another worker took over an attempt of it: nothing is added after that |
//! | `expires_at` | a week or more after its deliveries |
//!
//! A lease token is random, so no delivery has such a key, whatever its tenant is called.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use futures_util::future::join_all;
use redial_core::distinct::one_by_one;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::Entry;
use redial_core::ledger::batch::{self, Batch, Success, Together};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use crate::aws_error;
use crate::delivery_item::{entry, entry_key, recorded};
use crate::retries::{Patience, briefly};
use crate::table::attributes::{Item, Read, expiry, item, ms, s};
use crate::table::{Table, Update};

/// How often an item is read again while other workers keep changing it.
const ROUNDS: usize = 4;

/// Adds successes to the batch of their token. `false` if it is closed.
pub(crate) async fn add(table: &Table, together: &Together) -> Result<bool, PortError> {
    let Together { lease_token, successes, latest } = together;
    let mut expires_at = batch::expires_at(*latest);
    let sets: Vec<String> = successes.values().map(|(place, _)| format!("p{place} = :p{place}")).collect();
    let expression = format!("SET {}, expires_at = :e", sets.join(", "));
    // A part that was added before may have to be kept for longer.
    for _ in 0..2 {
        let update = table
            .update(key(lease_token), &expression, [(":e", expiry(expires_at))])
            .condition_expression(
                "attribute_not_exists(closed) AND (attribute_not_exists(pk) OR expires_at <= :e)",
            )
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let update = successes.values().fold(update, |update, (place, success)| {
            update.expression_attribute_values(format!(":p{place}"), s(success.to_text()))
        });
        match briefly("UpdateItem", table.send(update)).await? {
            Update::Done(_) => return Ok(true),
            Update::Refused(old) if old.contains_key("closed") => return Ok(false),
            Update::Refused(old) => expires_at = old.expires_at().unwrap_or(expires_at),
        }
    }
    Err(aws_error::of_code("UpdateItem", "Contention"))
}

/// Closes the batch of a token, which need not exist, and returns what it lists.
async fn close(table: &Table, lease_token: &str, now: Timestamp) -> Result<Batch, PortError> {
    let expires_at = expiry(batch::expires_at(redial_core::ledger::expires_at(now, None)));
    let expression = "SET closed = if_not_exists(closed, :now), expires_at = if_not_exists(expires_at, :e)";
    let update = table
        .update(key(lease_token), expression, [(":now", ms(now)), (":e", expires_at)])
        .return_values(ReturnValue::AllNew);
    let closed = briefly("UpdateItem", table.send(update)).await?.attributes();
    Ok(closed.as_ref().map(of_item).unwrap_or_default())
}

/// The batches of these tokens, read consistently, and those of `to_close` closed before.
pub(crate) async fn of_tokens(
    table: &Table,
    to_read: BTreeSet<String>,
    to_close: BTreeSet<String>,
    now: Timestamp,
    patience: Patience,
) -> HashMap<String, Result<Batch, PortError>> {
    let to_read: Vec<String> = to_read.difference(&to_close).cloned().collect();
    let reading = table.get_each(to_read.iter().map(|token| key(token)).collect(), patience);
    let closing = join_all(to_close.iter().map(|token| close(table, token, now)));
    let (read, closed) = futures_util::join!(reading, closing);
    let read = read.into_iter().map(|item| Ok(item?.as_ref().map(of_item).unwrap_or_default()));
    to_read.into_iter().zip(read).chain(to_close.into_iter().zip(closed)).collect()
}

/// The items of these deliveries as they are, read consistently: one that its batch lists is as it would be had it been recorded by itself.
pub(crate) async fn resolved(
    table: &Table,
    keys: Vec<Item>,
    patience: Patience,
) -> Vec<Result<Option<Item>, PortError>> {
    let mut items = table.get_each(keys.clone(), patience).await;
    for _ in 0..ROUNDS {
        let listed = listed(table, &items, patience).await;
        if listed.is_empty() {
            return items;
        }
        // A claim may have gone on from the success in between: what is read now and still the same is as listed.
        let again = table.get_each(listed.iter().map(|(at, ..)| keys[*at].clone()).collect(), patience).await;
        for ((at, before, success), again) in listed.into_iter().zip(again) {
            items[at] = success.and_then(|success| {
                let mut again = again?;
                let now = again.as_ref().and_then(entry).filter(|now| is_same_attempt(&before, now));
                if let (Some(item), Some(now)) = (&mut again, now) {
                    let fields = recorded(&success.record(&now)).into_iter();
                    let fields = fields.filter(|(name, _)| *name != "expires_at");
                    item.extend(fields.map(|(name, value)| (name.to_owned(), value)));
                }
                Ok(again)
            });
        }
    }
    items
}

/// The entries of these keys, as the batches of their attempts have them; without those that are forgotten.
pub(crate) async fn entries<'a>(
    table: &Table,
    keys: impl Iterator<Item = &'a DeliveryKey>,
    now: Timestamp,
) -> Vec<Result<Option<Entry>, PortError>> {
    let read = resolved(table, keys.map(entry_key).collect(), Patience::brief()).await;
    let of_item = |item: Option<Item>| item.as_ref().and_then(entry).filter(|entry| !entry.is_forgotten(now));
    read.into_iter().map(|read| read.map(of_item)).collect()
}

fn is_same_attempt(one: &Entry, other: &Entry) -> bool {
    batch::may_be_listed(other) && (&one.lease_token, one.place) == (&other.lease_token, other.place)
}

/// Of these items, those that batches list, or of which that cannot be known: where they stand here, and their successes.
async fn listed(
    table: &Table,
    items: &[Result<Option<Item>, PortError>],
    patience: Patience,
) -> Vec<(usize, Entry, Result<Success, PortError>)> {
    let entries =
        items.iter().enumerate().filter_map(|(at, item)| Some((at, entry(item.as_ref().ok()?.as_ref()?)?)));
    let entries: Vec<(usize, Entry)> = entries.filter(|(_, entry)| batch::may_be_listed(entry)).collect();
    let tokens = entries.iter().map(|(_, entry)| entry.lease_token.clone()).collect();
    if entries.is_empty() {
        return Vec::new();
    }
    let batches = of_tokens(table, tokens, BTreeSet::new(), Timestamp::default(), patience).await;
    let success = |(at, entry): (usize, Entry)| {
        let success = match &batches[&entry.lease_token] {
            Ok(batch) => Ok(batch.success_of(&entry)?.clone()),
            Err(error) => Err(error.clone()),
        };
        Some((at, entry, success))
    };
    entries.into_iter().filter_map(success).collect()
}

fn key(lease_token: &str) -> Item {
    item([("pk", s(format!("batch#{lease_token}")))])
}

fn of_item(item: &Item) -> Batch {
    let success = |(name, value): (&String, &_)| {
        let place = name.strip_prefix('p')?.parse().ok()?;
        let text = aws_sdk_dynamodb::types::AttributeValue::as_s(value).ok()?;
        Some((place, Success::from_text(text)?))
    };
    Batch { sent: one_by_one(item.iter().filter_map(success)), is_closed: item.contains_key("closed") }
}

#[cfg(test)]
#[path = "batches_dynamo_tests.rs"]
mod tests;
