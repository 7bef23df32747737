//! The ledger on DynamoDB.
//!
//! [`judge`] decides what may be claimed; this adapter compares and swaps. The usual claim is tried at once: a first attempt inserts,
//! a retry swaps the entry that its predecessor left. A statement whose condition fails is followed by a consistent read of that
//! item, a judgement, and a swap of exactly the version that was judged. All claims of a batch go together: one call in the usual case.
//!
//! DynamoDB deletes expired items days late. An entry past its expiry counts as absent: a claim overwrites all of it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::ack::AckEvent;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionId, Tenant, Turn};
use redial_core::ledger::history::KEPT;
use redial_core::ledger::{Entry, Fence, Judgement, PastAttempt, Record, State, expires_at, judge};
use redial_core::outcome::NotSent;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, ClaimAnswer, Clock as _, Ledger, LedgerReader, PortError};

use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, expiry, item, ms, n, or_null, s};
use crate::table::{Reading, Statement, Table, Written, on_a_table};
use crate::{acks_dynamo, aws_error};

/// How often a claim is judged again while other workers keep changing its item; after that the message returns to its queue.
const ROUNDS: usize = 4;

/// The attributes that an entry has only after an event, besides its history and its acknowledgements.
const LATER: [&str; 9] = [
    "endpoint_hash",
    "subscription",
    "reason",
    "status",
    "not_sent",
    "provider_word",
    "headers",
    "not_before",
    "in_doubt",
];

/// The `deliveries` table: partition key `pk` (string), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    table: Table,
}

on_a_table!(DynamoLedger);

/// The version of an entry that a swap expects.
struct Version {
    turn: Turn,
    state: State,
    /// `None` where the usual predecessor is expected without having been read.
    lease_token: Option<String>,
}

impl DynamoLedger {
    /// The state that a claim writes, and its reason.
    fn written_state(claim: &Claim) -> (State, Option<Reason>) {
        claim.settlement.map_or((State::Sending, None), |end| (end.state, end.reason))
    }

    fn insert(&self, claim: &Claim, now: Timestamp) -> Statement {
        Statement::insert(self.table.name(), Self::fresh(claim, now))
    }

    /// Replaces every attribute of an expired entry.
    fn overwrite(&self, claim: &Claim, stored: &Entry, now: Timestamp) -> Statement {
        let mut sets = Self::fresh(claim, now);
        sets.retain(|(name, _)| *name != "pk");
        let history: Vec<String> = (0..KEPT).map(attribute).collect();
        let acks = AckEvent::ALL.map(acks_dynamo::attribute);
        let mut removes: Vec<&str> = history.iter().map(String::as_str).chain(acks).chain(LATER).collect();
        removes.retain(|name| sets.iter().all(|(set, _)| set != name));
        let conditions = vec![
            ("pk", s(stored.key.to_string())),
            ("lineage", n(stored.turn.lineage.0)),
            ("attempt", n(stored.turn.attempt.0)),
            ("state", s(stored.state.label())),
            ("lease_token", s(&stored.lease_token)),
            ("expires_at", expiry(stored.expires_at)),
        ];
        Statement::update_and_remove(self.table.name(), sets, &removes, conditions)
    }

    /// The attributes of a new entry.
    fn fresh(claim: &Claim, now: Timestamp) -> Vec<(&'static str, AttributeValue)> {
        let (state, reason) = Self::written_state(claim);
        let ask = &claim.ask;
        let mut fields: Vec<(&'static str, AttributeValue)> = vec![
            ("pk", s(ask.key.to_string())),
            ("tenant", s(ask.key.tenant.as_str())),
            ("id", s(ask.key.id.as_str())),
            ("channel", s(claim.channel.label())),
            ("state", s(state.label())),
            ("lineage", n(ask.turn.lineage.0)),
            ("attempt", n(ask.turn.attempt.0)),
            ("fingerprint", s(ask.fingerprint.as_str())),
            ("lease_token", s(&ask.lease_token)),
            ("lease_until", ms(ask.lease_until)),
            ("source_message", s(&ask.source_message)),
            ("created_at", ms(now)),
            ("updated_at", ms(now)),
            ("expires_at", expiry(expires_at(now, None))),
        ];
        fields.extend(claim.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        fields.extend(claim.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
        fields.extend(reason.map(|reason| ("reason", s(reason.label()))));
        fields
    }

    fn swap(&self, claim: &Claim, expected: &Version, in_doubt: bool, now: Timestamp) -> Statement {
        let (state, reason) = Self::written_state(claim);
        let ask = &claim.ask;
        let mut sets = vec![
            ("state", s(state.label())),
            ("lineage", n(ask.turn.lineage.0)),
            ("attempt", n(ask.turn.attempt.0)),
            ("channel", s(claim.channel.label())),
            ("fingerprint", s(ask.fingerprint.as_str())),
            ("lease_token", s(&ask.lease_token)),
            ("lease_until", ms(ask.lease_until)),
            ("source_message", s(&ask.source_message)),
            ("updated_at", ms(now)),
            ("expires_at", expiry(expires_at(now, None))),
            ("not_before", AttributeValue::Null(true)),
            ("not_sent", AttributeValue::Null(true)),
            ("provider_word", AttributeValue::Null(true)),
        ];
        sets.extend(claim.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        sets.extend(reason.map(|reason| ("reason", s(reason.label()))));
        // A doubt of an earlier lineage does not apply to a replay.
        if in_doubt || expected.turn.lineage < ask.turn.lineage {
            sets.push(("in_doubt", AttributeValue::Bool(in_doubt)));
        }
        let mut conditions = vec![
            ("pk", s(ask.key.to_string())),
            ("lineage", n(expected.turn.lineage.0)),
            ("attempt", n(expected.turn.attempt.0)),
            ("state", s(expected.state.label())),
        ];
        conditions.extend(expected.lease_token.as_ref().map(|token| ("lease_token", s(token))));
        Statement::update(self.table.name(), sets, conditions)
    }

    /// The statement that succeeds in the usual case.
    fn usual(&self, claim: &Claim, now: Timestamp) -> Statement {
        let Turn { lineage, attempt } = claim.ask.turn;
        if let Some(previous) = attempt.0.checked_sub(1) {
            let turn = Turn { lineage, attempt: Attempt(previous) };
            let expected = Version { turn, state: State::Retrying, lease_token: None };
            self.swap(claim, &expected, false, now)
        } else {
            self.insert(claim, now)
        }
    }

    /// Reads these entries consistently; a key without an entry is missing from the result.
    async fn read(
        &self,
        keys: Vec<DeliveryKey>,
        patience: Patience,
    ) -> Result<HashMap<DeliveryKey, Entry>, PortError> {
        let keys = keys.iter().map(entry_key).collect();
        let items = self.table.read_all(keys, Reading::Consistent, patience).await?;
        Ok(items.iter().filter_map(entry).map(|entry| (entry.key.clone(), entry)).collect())
    }
}

impl Ledger for DynamoLedger {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        let mut answers: Vec<Option<Result<ClaimAnswer, PortError>>> = vec![None; claims.len()];
        let mut tries: Vec<(usize, Statement, bool)> =
            claims.iter().enumerate().map(|(at, claim)| (at, self.usual(claim, now), false)).collect();
        let patience = Patience::brief();
        for _ in 0..ROUNDS {
            let statements = tries.iter().map(|(_, statement, _)| statement.clone()).collect();
            let written = self.table.execute(statements, patience).await;
            let mut unusual = Vec::new();
            for ((at, _, in_doubt), written) in tries.into_iter().zip(written) {
                match written {
                    Written::Yes => answers[at] = Some(Ok(ClaimAnswer::Granted { in_doubt, at: now })),
                    Written::Failed(error) => answers[at] = Some(Err(error)),
                    Written::ConditionFailed => unusual.push(at),
                }
            }
            if unusual.is_empty() {
                break;
            }
            let keys = unusual.iter().map(|at| claims[*at].ask.key.clone()).collect();
            tries = match self.read(keys, patience).await {
                Ok(entries) => self.judge_all(&claims, unusual, &entries, now, &mut answers),
                Err(error) => {
                    for at in unusual {
                        answers[at] = Some(Err(error.clone()));
                    }
                    Vec::new()
                }
            };
            if tries.is_empty() {
                break;
            }
        }
        let contended = || Err(aws_error::of_code("BatchExecuteStatement", "Contention"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(contended)).collect()
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        self.write(records, Patience::of_a_record()).await
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        self.write(records, Patience::brief()).await
    }
}

impl DynamoLedger {
    async fn write(&self, records: Vec<Record>, patience: Patience) -> Vec<Result<Fence, PortError>> {
        let statements = records.iter().map(|record| self.fenced(record)).collect();
        let written = self.table.execute(statements, patience).await;
        let refused =
            records.iter().zip(&written).filter(|(_, written)| **written == Written::ConditionFailed);
        let refused: Vec<DeliveryKey> = refused.map(|(record, _)| record.key.clone()).collect();
        let found = if refused.is_empty() { Ok(HashMap::new()) } else { self.read(refused, patience).await };
        records
            .iter()
            .zip(written)
            .map(|(record, written)| match written {
                Written::Yes => Ok(Fence::Held),
                Written::ConditionFailed => match &found {
                    Ok(entries)
                        if entries.get(&record.key).is_some_and(|entry| is_written(entry, record)) =>
                    {
                        Ok(Fence::Held)
                    }
                    // Also where it cannot be read: the message comes back, and is judged by the entry of that time.
                    Ok(_) | Err(_) => Ok(Fence::Lost),
                },
                Written::Failed(error) => Err(error),
            })
            .collect()
    }
}

/// Whether the entry is this record's outcome: the statement was carried out, the answer was lost, and it was tried again.
fn is_written(entry: &Entry, record: &Record) -> bool {
    entry.lease_token == record.lease_token && entry.turn == record.turn && entry.state == record.state
}

impl DynamoLedger {
    /// Answers the claims whose judgement is final, and returns the statements to try for the others.
    fn judge_all(
        &self,
        claims: &[Claim],
        unusual: Vec<usize>,
        entries: &HashMap<DeliveryKey, Entry>,
        now: Timestamp,
        answers: &mut [Option<Result<ClaimAnswer, PortError>>],
    ) -> Vec<(usize, Statement, bool)> {
        let mut tries = Vec::new();
        for at in unusual {
            let claim = &claims[at];
            let Some(stored) = entries.get(&claim.ask.key) else {
                tries.push((at, self.insert(claim, now), false));
                continue;
            };
            if stored.is_forgotten(now) {
                tries.push((at, self.overwrite(claim, stored, now), false));
                continue;
            }
            let answer = match judge(stored, &claim.ask, now) {
                Judgement::Claim { in_doubt } => {
                    let expected = Version {
                        turn: stored.turn,
                        state: stored.state,
                        lease_token: Some(stored.lease_token.clone()),
                    };
                    tries.push((at, self.swap(claim, &expected, in_doubt, now), in_doubt));
                    continue;
                }
                Judgement::Mine => ClaimAnswer::Granted { in_doubt: stored.in_doubt, at: stored.updated_at },
                Judgement::HandOffAgain => ClaimAnswer::HandOffAgain(Box::new(stored.clone())),
                Judgement::Leased { until } => ClaimAnswer::Leased { until },
                Judgement::Done => ClaimAnswer::Done,
                Judgement::Conflict => ClaimAnswer::Conflict,
            };
            answers[at] = Some(Ok(answer));
        }
        tries
    }

    fn fenced(&self, record: &Record) -> Statement {
        let mut sets = vec![
            ("state", s(record.state.label())),
            ("status", or_null(record.status.map(n))),
            ("reason", or_null(record.reason.map(|reason| s(reason.label())))),
            ("not_sent", or_null(record.not_sent.map(|failure| s(failure.label())))),
            ("provider_word", or_null(record.provider_word.as_ref().map(s))),
            ("headers", headers(&record.headers)),
            ("not_before", or_null(record.not_before.map(ms))),
            ("updated_at", ms(record.now)),
            ("expires_at", expiry(record.expires_at())),
        ];
        if record.in_doubt {
            sets.push(("in_doubt", AttributeValue::Bool(true)));
        }
        let past = PastAttempt::of(record);
        let place = past.as_ref().map(|past| attribute(past.place()));
        sets.extend(place.as_deref().zip(past.as_ref()).map(|(name, past)| (name, s(past.to_text()))));
        let conditions = vec![
            ("pk", s(record.key.to_string())),
            ("lease_token", s(&record.lease_token)),
            ("lineage", n(record.turn.lineage.0)),
            ("attempt", n(record.turn.attempt.0)),
            ("state", s(State::Sending.label())),
        ];
        Statement::update(self.table.name(), sets, conditions)
    }
}

impl LedgerReader for DynamoLedger {
    async fn get(&self, key: &DeliveryKey) -> Result<Option<Entry>, PortError> {
        let now = System.now();
        let read = self.read(vec![key.clone()], Patience::brief()).await?.remove(key);
        Ok(read.filter(|entry| !entry.is_forgotten(now)))
    }
}

pub(crate) fn entry_key(key: &DeliveryKey) -> Item {
    item([("pk", s(key.to_string()))])
}

/// The attribute of a place in a delivery's history: `attempt_00` to `attempt_15`.
pub fn attribute(place: u32) -> String {
    format!("attempt_{place:02}")
}

/// A map, or NULL for no headers.
fn headers(kept: &[(String, String)]) -> AttributeValue {
    let map: Item = kept.iter().map(|(name, value)| (name.clone(), s(value))).collect();
    or_null((!map.is_empty()).then_some(AttributeValue::M(map)))
}

/// Reads an item of the `deliveries` table; `None` if it is not one that this version wrote.
pub fn entry(item: &HashMap<String, AttributeValue>) -> Option<Entry> {
    Some(Entry {
        key: DeliveryKey {
            tenant: Tenant::parse(item.text("tenant")?)?,
            id: DeliveryId::parse(item.text("id")?)?,
        },
        state: State::from_label(item.text("state")?)?,
        turn: Turn { lineage: Lineage(item.number("lineage")?), attempt: Attempt(item.number("attempt")?) },
        fingerprint: EndpointHash::parse(item.text("fingerprint")?)?,
        lease_token: item.text("lease_token")?.to_owned(),
        lease_until: item.time("lease_until")?,
        source_message: item.text("source_message")?.to_owned(),
        endpoint_hash: item.text("endpoint_hash").and_then(EndpointHash::parse),
        subscription: item.text("subscription").and_then(SubscriptionId::parse),
        status: item.number("status"),
        reason: item.text("reason").and_then(Reason::from_label),
        not_sent: item.text("not_sent").and_then(NotSent::from_label),
        provider_word: item.text("provider_word").map(str::to_owned),
        not_before: item.time("not_before"),
        in_doubt: item.truth("in_doubt"),
        created_at: item.time("created_at")?,
        updated_at: item.time("updated_at")?,
        expires_at: Timestamp::from_secs(item.number("expires_at")?),
    })
}

#[cfg(test)]
#[path = "ledger_dynamo_tests.rs"]
mod tests;
