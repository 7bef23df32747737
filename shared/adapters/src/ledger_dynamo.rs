//! The ledger on DynamoDB.
//!
//! [`judge`] decides what may be claimed; this adapter compares and swaps. The usual claim is tried at once: a first attempt inserts,
//! a retry swaps the entry that its predecessor left. A statement whose condition fails is followed by a consistent read of that
//! item, a judgement, and a swap of exactly the version that was judged. All claims of a batch go together: one call in the usual case.
//!
//! Successes of an invocation are recorded together (`batches_dynamo`); what a worker reads of a delivery is resolved by that.
//!
//! DynamoDB deletes expired items days late. An entry past its expiry counts as absent: a claim overwrites all of it.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::{Attempt, DeliveryKey, Turn};
use redial_core::ledger::batch::{self, Batch, Together};
use redial_core::ledger::hold::Hold;
use redial_core::ledger::{Entry, Fence, Judgement, Record, State, claim, judge};
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, ClaimAnswer, Clock as _, Ledger, LedgerReader, PortError};

use crate::delivery_item::{
    DISPATCHED, FOUND, Fields, as_it_was, asked, entry, entry_key, found, given, identity, is_set, not_given,
    past_attempt, recorded,
};
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{ms, n, or_null, s};
use crate::table::{Statement, Table, on_a_table};
use crate::{aws_error, batches_dynamo, expired_entry, holds_dynamo};

/// How often a claim is judged again while other workers keep changing its item; after that the message returns to its queue.
const ROUNDS: usize = 4;

/// What is kept of the answer to an attempt until the next one is recorded.
const OF_AN_ANSWER: [&str; 3] = ["status", "headers", "reason"];

/// The `deliveries` table: partition key `pk` (string), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    table: Table,
    /// Whether each success is recorded by itself.
    is_single: bool,
}

on_a_table!(DynamoLedger, is_single);

/// The batches of lease tokens, as far as they could be read.
type Batches = HashMap<String, Result<Batch, PortError>>;

/// What follows from the entry that a claim met.
enum Next {
    /// With what is answered once the statement is carried out.
    Try(Statement, ClaimAnswer),
    Answer(ClaimAnswer),
}

impl DynamoLedger {
    /// That records each success by itself, unless `together`: a release that knows no batches may be at work beside this one.
    #[must_use]
    pub fn recording(self, together: bool) -> Self {
        Self { is_single: !together, ..self }
    }

    /// The statement that succeeds in the usual case.
    fn usual(&self, claim: &Claim, now: Timestamp) -> Statement {
        let Turn { lineage, attempt } = claim.ask.turn;
        match attempt.0.checked_sub(1) {
            Some(previous) => {
                let before = Turn { lineage, attempt: Attempt(previous) };
                self.swap(claim, (before, State::Retrying), None, false, None, now)
            }
            None => self.insert(claim, now),
        }
    }

    fn insert(&self, claim: &Claim, now: Timestamp) -> Statement {
        Statement::insert(self.table.name(), fresh(claim, now))
    }

    /// Without a `stored` entry, the usual predecessor is expected without having been read. `folded`: a success that only a batch has, and that
    /// the entry has from now on.
    fn swap(
        &self,
        claim: &Claim,
        (turn, state): (Turn, State),
        stored: Option<&Entry>,
        in_doubt: bool,
        folded: Option<&Record>,
        now: Timestamp,
    ) -> Statement {
        let mut sets = claimed(claim, stored, now);
        sets.extend(["not_before", "held_by", "not_sent", "provider_word"].map(|name| (name, or_null(None))));
        if claim.settlement.is_some() {
            // An end without an attempt has no answer, and no reason but its own.
            let none = OF_AN_ANSWER.into_iter().filter(|name| !is_set(&sets, name));
            sets.extend(none.map(|name| (name, or_null(None))).collect::<Vec<_>>());
        }
        if let Some(success) = folded {
            sets.extend(past_attempt(success));
            if claim.settlement.is_none() {
                sets.extend(recorded(success).into_iter().filter(|(name, _)| OF_AN_ANSWER.contains(name)));
            }
        }
        // A doubt of an earlier lineage does not apply to a replay.
        if in_doubt || turn.lineage < claim.ask.turn.lineage {
            sets.push(("in_doubt", AttributeValue::Bool(in_doubt)));
        }
        let mut conditions = as_it_was(&claim.ask.key, turn, state);
        conditions.extend(stored.map(|stored| ("lease_token", s(&stored.lease_token))));
        let mut removes = stored.map_or_else(Vec::new, |stored| not_given(&stored.given, &claim.given));
        if stored.is_some_and(|stored| stored.dispatched_at.is_some()) && !is_set(&sets, DISPATCHED) {
            removes.push(DISPATCHED);
        }
        // A place belongs to the token that was written with it.
        removes.extend(claim.place.is_none().then_some("place"));
        // An attribute of an index is removed, and never set to NULL.
        if state.is_listed() && !claim.ask.state.is_listed() {
            removes.extend(FOUND);
        }
        Statement::update(self.table.name(), sets, &removes, conditions)
    }

    /// Writes down which message has met a cancellation, and what is known of the delivery by it.
    fn meet(&self, met: &Entry, stored: &Entry) -> Statement {
        let mut sets = vec![
            ("source_message", s(&met.source_message)),
            ("lineage", n(met.turn.lineage.0)),
            ("attempt", n(met.turn.attempt.0)),
            ("fingerprint", s(met.fingerprint.as_str())),
        ];
        sets.extend(met.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
        sets.extend(met.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
        sets.extend(given(&met.given));
        let removes = not_given(&stored.given, &met.given);
        let mut conditions = as_it_was(&stored.key, stored.turn, stored.state);
        conditions.push(("source_message", s(&stored.source_message)));
        Statement::update(self.table.name(), sets, &removes, conditions)
    }

    /// What follows from the entry that a claim met, whose batch is closed or read where it may be listed.
    fn judged(
        &self,
        claim: &Claim,
        stored: Option<Entry>,
        batches: &Batches,
        now: Timestamp,
    ) -> Result<Next, PortError> {
        let Some(stored) = stored else {
            return Ok(Next::Try(self.insert(claim, now), granted(false, now)));
        };
        if stored.is_forgotten(now) {
            return Ok(Next::Try(
                expired_entry::replace(&self.table, fresh(claim, now), &stored),
                granted(false, now),
            ));
        }
        let batch = batches.get(&stored.lease_token).cloned().transpose()?.unwrap_or_default();
        let success = batch.success_of(&stored).map(|success| success.record(&stored));
        let entry = batch.resolve(stored.clone());
        Ok(Next::Answer(match judge(&entry, &claim.ask, now) {
            Judgement::Claim { in_doubt } => {
                let version = (stored.turn, stored.state);
                let statement = self.swap(claim, version, Some(&stored), in_doubt, success.as_ref(), now);
                return Ok(Next::Try(statement, granted(in_doubt, now)));
            }
            Judgement::Cancelled => {
                let met = claim.meets(entry);
                return Ok(Next::Try(self.meet(&met, &stored), ClaimAnswer::HandOffAgain(Box::new(met))));
            }
            Judgement::Mine => ClaimAnswer::Granted { in_doubt: entry.in_doubt, at: entry.updated_at },
            Judgement::HandOffAgain => ClaimAnswer::HandOffAgain(Box::new(entry)),
            Judgement::Leased { until } => ClaimAnswer::Leased { until },
            Judgement::Done => ClaimAnswer::Done,
            Judgement::Conflict => ClaimAnswer::Conflict,
        }))
    }

    /// The batches that may list the entries which these claims met. Those of attempts that are taken over are closed.
    async fn batches<'a>(
        &self,
        met: impl Iterator<Item = (&'a Claim, &'a Entry)>,
        now: Timestamp,
        patience: Patience,
    ) -> Batches {
        let (mut to_read, mut to_close) = (BTreeSet::new(), BTreeSet::new());
        for (claim, stored) in
            met.filter(|(_, stored)| batch::may_be_listed(stored) && !stored.is_forgotten(now))
        {
            let is_taken_over = batch::to_close(stored, &claim.ask, now);
            let tokens = if is_taken_over { &mut to_close } else { &mut to_read };
            tokens.insert(stored.lease_token.clone());
        }
        batches_dynamo::of_tokens(&self.table, to_read, to_close, now, patience).await
    }

    fn fenced(&self, record: &Record) -> Statement {
        let mut conditions = as_it_was(&record.key, record.turn, State::Sending);
        conditions.push(("lease_token", s(&record.lease_token)));
        Statement::update(self.table.name(), recorded(record), &[], conditions)
    }

    /// Reads the entries of these keys consistently, in their order.
    async fn read<'a>(
        &self,
        keys: impl Iterator<Item = &'a DeliveryKey>,
        patience: Patience,
    ) -> Vec<Result<Option<Entry>, PortError>> {
        let items = self.table.get_each(keys.map(entry_key).collect(), patience).await;
        items.into_iter().map(|item| Ok(item?.as_ref().and_then(entry))).collect()
    }

    /// Writes these records by themselves; with their places in the wave.
    async fn write_each(
        &self,
        records: Vec<(usize, Record)>,
        patience: Patience,
    ) -> Vec<(usize, Result<Fence, PortError>)> {
        let (places, records): (Vec<usize>, Vec<Record>) = records.into_iter().unzip();
        places.into_iter().zip(self.write(records, patience).await).collect()
    }

    async fn write(&self, records: Vec<Record>, patience: Patience) -> Vec<Result<Fence, PortError>> {
        let statement = |at: usize| self.fenced(&records[at]);
        let written = self.table.execute(records.len(), &statement, patience).await;
        let refused = records.iter().zip(&written).filter(|(_, written)| **written == Ok(false));
        let mut found = self.read(refused.map(|(record, _)| &record.key), patience).await.into_iter();
        let fence = |(record, written): (&Record, _)| match written {
            Ok(true) => Ok(Fence::Held),
            Ok(false) => match found.next() {
                Some(Ok(Some(entry))) if record.is_written(&entry) => Ok(Fence::Held),
                // Also where it cannot be read: the message comes back, and is judged by the entry of that time.
                Some(Ok(_) | Err(_)) | None => Ok(Fence::Lost),
            },
            Err(error) => Err(error),
        };
        records.iter().zip(written).map(fence).collect()
    }
}

impl Ledger for DynamoLedger {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        let mut answers: Vec<Option<Result<ClaimAnswer, PortError>>> = vec![None; claims.len()];
        // Without a statement, the usual one is tried.
        let mut tries: Vec<(usize, Option<Statement>, ClaimAnswer)> =
            (0..claims.len()).map(|at| (at, None, granted(false, now))).collect();
        let patience = Patience::brief();
        for _ in 0..ROUNDS {
            let statement = |place: usize| {
                let (at, statement, _) = &tries[place];
                statement.clone().unwrap_or_else(|| self.usual(&claims[*at], now))
            };
            let written = self.table.execute(tries.len(), &statement, patience).await;
            let mut unusual = Vec::new();
            for ((at, _, answer), written) in tries.drain(..).zip(written) {
                match written {
                    Ok(true) => answers[at] = Some(Ok(answer)),
                    Err(error) => answers[at] = Some(Err(error)),
                    Ok(false) => unusual.push(at),
                }
            }
            if unusual.is_empty() {
                break;
            }
            let found = self.read(unusual.iter().map(|at| &claims[*at].ask.key), patience).await;
            let met = unusual.iter().zip(&found);
            let met = met.filter_map(|(at, stored)| Some((&claims[*at], stored.as_ref().ok()?.as_ref()?)));
            let batches = self.batches(met, now, patience).await;
            for (at, stored) in unusual.iter().copied().zip(found) {
                match stored.and_then(|stored| self.judged(&claims[at], stored, &batches, now)) {
                    Ok(Next::Try(statement, answer)) => tries.push((at, Some(statement), answer)),
                    Ok(Next::Answer(answer)) => answers[at] = Some(Ok(answer)),
                    Err(error) => answers[at] = Some(Err(error)),
                }
            }
            if tries.is_empty() {
                break;
            }
        }
        let contended = || Err(aws_error::of_code("BatchExecuteStatement", "Contention"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(contended)).collect()
    }

    async fn hold(&self, holds: Vec<Hold>, now: Timestamp) -> Vec<Result<Option<Entry>, PortError>> {
        holds_dynamo::note(&self.table, &holds, now).await
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let together = Together::of(&records).filter(|_| !self.is_single);
        let is_listed = |at| together.as_ref().is_some_and(|it| it.successes.contains_key(&at));
        let (some, others): (Vec<_>, Vec<_>) =
            records.into_iter().enumerate().partition(|(at, _)| is_listed(*at));
        let others = self.write_each(others, Patience::of_a_record());
        let some = async {
            match &together {
                None => Vec::new(),
                Some(together) if batches_dynamo::add(&self.table, together).await == Ok(true) => {
                    some.into_iter().map(|(at, _)| (at, Ok(Fence::Held))).collect()
                }
                // The batch is closed, or it may not be written: before anything comes back, each is tried by itself.
                Some(_) => self.write_each(some, Patience::of_a_record()).await,
            }
        };
        let (some, others) = futures_util::join!(some, others);
        let mut written: Vec<(usize, Result<Fence, PortError>)> = some.into_iter().chain(others).collect();
        written.sort_unstable_by_key(|(at, _)| *at);
        written.into_iter().map(|(_, fence)| fence).collect()
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        self.write(records, Patience::brief()).await
    }
}

impl LedgerReader for DynamoLedger {
    async fn get(&self, key: &DeliveryKey) -> Result<Option<Entry>, PortError> {
        let mut read = batches_dynamo::entries(&self.table, std::iter::once(key), System.now()).await;
        read.pop().expect("every key is answered")
    }
}

fn granted(in_doubt: bool, now: Timestamp) -> ClaimAnswer {
    ClaimAnswer::Granted { in_doubt, at: now }
}

/// The attributes that a claim writes in place of what is there, if that counts and was read.
fn claimed(claim: &Claim, stored: Option<&Entry>, now: Timestamp) -> Fields {
    let dispatched = claim::dispatched_at(stored, &claim.ask, now);
    let reason = claim.settlement.and_then(|end| end.reason);
    let mut fields = asked(&claim.ask, claim.expires_at(now), now);
    fields.extend(claim.place.map(|place| ("place", n(place))));
    fields.push(("channel", s(claim.channel.label())));
    fields.extend(claim.endpoint_hash.as_ref().map(|hash| ("endpoint_hash", s(hash.as_str()))));
    fields.extend(reason.map(|reason| ("reason", s(reason.label()))));
    fields.extend(given(&claim.given));
    fields.extend(dispatched.map(|at| (DISPATCHED, ms(at))));
    fields.extend(found(&claim.ask.key, claim.ask.state, now).into_iter().flatten());
    fields
}

/// The attributes of a claim's new entry.
fn fresh(claim: &Claim, now: Timestamp) -> Fields {
    let mut fields = claimed(claim, None, now);
    fields.extend(identity(&claim.ask.key, now));
    fields.extend(claim.subscription.as_ref().map(|id| ("subscription", s(id.as_str()))));
    fields
}

#[cfg(test)]
#[path = "ledger_dynamo_memory_tests.rs"]
mod memory_tests;
#[cfg(test)]
#[path = "ledger_dynamo_tests.rs"]
pub(crate) mod tests;
