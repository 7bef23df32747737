//! Cancelling deliveries on the `deliveries` table: an entry is read consistently, judged, and exchanged if it is still the one that was
//! judged ([`redial_core::ledger::cancel`]).
//!
//! A claim, a record and a cancellation all change the state, and each is conditional on the state that it found: one of them wins, and
//! the others are judged again by what it left. An attempt whose lease has run out may be listed as sent by its batch, so the batch is
//! closed before, as a claim that takes the attempt over closes it.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::batch;
use redial_core::ledger::cancel::{self, Decision};
use redial_core::ledger::{Cancellation, Entry};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use crate::delivery_item::{ATTEMPTS, DISPATCHED, GIVEN, entry, entry_key, found};
use crate::retries::{Patience, briefly};
use crate::table::Table;
use crate::table::attributes::{expiry, ms, n, s};
use crate::{acks_dynamo, aws_error, batches_dynamo};

/// How often a delivery is judged again while workers keep changing its item.
const ROUNDS: usize = 6;

pub(crate) async fn cancel(
    table: &Table,
    key: &DeliveryKey,
    now: Timestamp,
) -> Result<Cancellation, PortError> {
    for _ in 0..ROUNDS {
        let mut read = table.get_each(vec![entry_key(key)], Patience::brief()).await;
        let stored = match read.pop().expect("every key is answered")? {
            None => None,
            // Another release wrote it.
            Some(item) => Some(entry(&item).ok_or_else(|| aws_error::of_code("BatchGetItem", "Unreadable"))?),
        };
        let current = stored.as_ref().filter(|stored| !stored.is_forgotten(now));
        let cancelled = match current {
            None => cancel::unknown(key.clone(), now),
            Some(current) => match cancel::decide(resolved(table, current, now).await?, now) {
                Decision::Write(entry) => *entry,
                Decision::Answer(answer) => return Ok(answer),
            },
        };
        let is_done = match (&stored, current) {
            (Some(stored), Some(_)) => exchange(table, stored, &cancelled).await?,
            (stored, _) => put(table, stored.as_ref(), &cancelled).await?,
        };
        if is_done {
            return Ok(cancel::of(&cancelled));
        }
    }
    Err(aws_error::of_code("UpdateItem", "Contention"))
}

/// The entry as it is: sent, if its batch lists it.
async fn resolved(table: &Table, stored: &Entry, now: Timestamp) -> Result<Entry, PortError> {
    if !batch::may_be_listed(stored) {
        return Ok(stored.clone());
    }
    let token = stored.lease_token.clone();
    let (mut to_read, mut to_close) = (BTreeSet::new(), BTreeSet::new());
    if cancel::to_close(stored, now) { &mut to_close } else { &mut to_read }.insert(token.clone());
    let mut batches = batches_dynamo::of_tokens(table, to_read, to_close, now, Patience::brief()).await;
    let batch = batches.remove(&token).expect("every token is answered")?;
    Ok(batch.resolve(stored.clone()))
}

/// Ends a delivery, if its entry is the one that was judged.
async fn exchange(table: &Table, judged: &Entry, cancelled: &Entry) -> Result<bool, PortError> {
    let reason = cancelled.reason.map_or("", |reason| reason.label());
    let expression = "SET #state = :cancelled, reason = :reason, source_message = :none, in_doubt = :doubt, \
                      updated_at = :now, expires_at = :end, found_by = :by, found_at = :at REMOVE not_before";
    let condition = "#state = :state AND lineage = :lineage AND attempt = :attempt AND lease_token = :token \
                     AND lease_until = :until";
    let [by, at] = place(cancelled);
    let values = [
        (":cancelled", s(cancelled.state.label())),
        (":reason", s(reason)),
        (":none", s("")),
        (":doubt", AttributeValue::Bool(cancelled.in_doubt)),
        (":now", ms(cancelled.updated_at)),
        (":end", expiry(cancelled.expires_at)),
        (":by", by),
        (":at", at),
        (":state", s(judged.state.label())),
        (":lineage", n(judged.turn.lineage.0)),
        (":attempt", n(judged.turn.attempt.0)),
        (":token", s(&judged.lease_token)),
        (":until", ms(judged.lease_until)),
    ];
    let update = table.update(entry_key(&judged.key), expression, values).condition_expression(condition);
    Ok(briefly("UpdateItem", table.send(update)).await?.is_done())
}

/// Makes an entry, where there is none or one that is forgotten.
async fn put(table: &Table, forgotten: Option<&Entry>, cancelled: &Entry) -> Result<bool, PortError> {
    let Entry { key, turn, lease_until, created_at, .. } = cancelled;
    let acks = AckEvent::ALL.map(acks_dynamo::attribute);
    let later = ["channel", "endpoint_hash", "subscription", "place", "status", "not_sent", "provider_word"];
    let rest = ["headers", "not_before", "held_by", "in_doubt"];
    let removed = ATTEMPTS.into_iter().chain(acks).chain(later).chain(rest).chain(GIVEN).chain([DISPATCHED]);
    let removed: Vec<&str> = removed.collect();
    let removed: Vec<String> = removed.into_iter().map(|name| format!("#{name}")).collect();
    let expression = format!(
        "SET tenant = :tenant, #id = :id, #state = :cancelled, reason = :reason, lineage = :lineage, attempt = :attempt, \
         fingerprint = :print, lease_token = :token, lease_until = :until, source_message = :none, created_at = :made, \
         updated_at = :made, expires_at = :end, found_by = :by, found_at = :at REMOVE {}",
        removed.join(", ")
    );
    let [by, at] = place(cancelled);
    let values = [
        (":tenant", s(key.tenant.as_str())),
        (":id", s(key.id.as_str())),
        (":cancelled", s(cancelled.state.label())),
        (":reason", s(cancelled.reason.map_or("", |reason| reason.label()))),
        (":lineage", n(turn.lineage.0)),
        (":attempt", n(turn.attempt.0)),
        (":print", s(cancelled.fingerprint.as_str())),
        (":token", s(&cancelled.lease_token)),
        (":until", ms(*lease_until)),
        (":none", s("")),
        (":made", ms(*created_at)),
        (":end", expiry(cancelled.expires_at)),
        (":by", by),
        (":at", at),
    ];
    let update = table.update(entry_key(key), expression, values);
    let update = match forgotten {
        None => update.condition_expression("attribute_not_exists(pk)"),
        Some(forgotten) => update
            .condition_expression("lease_token = :former AND expires_at = :was")
            .expression_attribute_values(":former", s(&forgotten.lease_token))
            .expression_attribute_values(":was", expiry(forgotten.expires_at)),
    };
    Ok(briefly("UpdateItem", table.send(update)).await?.is_done())
}

/// Its place in the index by state, as [`found`] writes it.
fn place(cancelled: &Entry) -> [AttributeValue; 2] {
    found(&cancelled.key, cancelled.state, cancelled.updated_at)
        .expect("invariant: what is cancelled is listed")
        .map(|(_, value)| value)
}

#[cfg(test)]
#[path = "cancel_dynamo_tests.rs"]
mod tests;
