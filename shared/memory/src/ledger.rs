//! The ledger in memory: the same judgement, a map to write in; and tenants' stored policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::ledger::batch::{self, Together};
use redial_core::ledger::hold::Hold;
use redial_core::ledger::{self, Ask, Entry, Fence, Judgement, PastAttempt, Record, expires_at, judge};
use redial_core::policy::TenantPolicies;
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, ClaimAnswer, KnownPolicies, Ledger, LedgerReader, Policies, PortError};

use super::effects::assert_distinct;
use super::state::Takeover;
use super::{Memory, Row, State};

impl Ledger for Memory {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        assert_distinct(claims.iter().map(|claim| &claim.ask.key));
        let mut answers: Vec<Option<Result<ClaimAnswer, PortError>>> = vec![None; claims.len()];
        let mut open: Vec<(usize, Claim)> = claims.into_iter().enumerate().collect();
        while !open.is_empty() {
            let key = |(_, claim): &(usize, Claim)| Some(claim.ask.key.to_string());
            let step = |state: &mut State, (_, claim): (usize, Claim)| claim_one(state, &claim, now);
            let steps = self.effect_on_each_at("claim", open.clone(), key, step).await;
            let mut waiting = Vec::new();
            for ((at, claim), step) in open.into_iter().zip(steps) {
                match step {
                    Ok(Step::Answer(answer)) => answers[at] = Some(Ok(answer)),
                    Ok(Step::Close(token)) => waiting.push((at, claim, token)),
                    Err(error) => answers[at] = Some(Err(error)),
                }
            }
            let closed = self.close(waiting.iter().map(|(_, _, token)| token.clone()).collect(), now).await;
            open = Vec::new();
            for (at, claim, token) in waiting {
                match closed[&token].clone() {
                    Ok(()) => open.push((at, claim)),
                    Err(error) => answers[at] = Some(Err(error)),
                }
            }
        }
        answers.into_iter().map(|answer| answer.expect("each is answered")).collect()
    }

    async fn hold(&self, holds: Vec<Hold>, now: Timestamp) -> Vec<Result<Option<Entry>, PortError>> {
        assert_distinct(holds.iter().map(|hold| &hold.key));
        let key = |hold: &Hold| Some(hold.key.to_string());
        self.effect_on_each_at("hold", holds, key, |state, hold| {
            let stored = state.ledger.own(&hold.key).cloned();
            let is_forgotten = stored.as_ref().is_none_or(|stored| stored.is_forgotten(now));
            // What has expired and waits may be noted on: it waits again.
            let noted = stored.and_then(|stored| hold.noted(stored, now)).or_else(|| {
                (is_forgotten && hold.makes_an_entry()).then(|| {
                    state.delete(&Row::Entry(hold.key.clone()));
                    hold.entry(now)
                })
            });
            match noted {
                Some(noted) => {
                    state.ledger.insert(hold.key, noted);
                    None
                }
                None => state.ledger.get(&hold.key).filter(|stored| !stored.is_forgotten(now)),
            }
        })
        .await
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        assert_distinct(records.iter().map(|record| &record.key));
        self.record_each(records).await
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        assert_distinct(records.iter().map(|record| &record.key));
        let together = match Together::of(&records) {
            Some(together) if self.record_together(&records, &together).await == Ok(true) => {
                together.successes
            }
            Some(_) | None => BTreeMap::new(),
        };
        let is_recorded = |at: usize| together.contains_key(&at);
        let rest = records.iter().enumerate().filter(|(at, _)| !is_recorded(*at));
        let rest: Vec<Record> = rest.map(|(_, record)| record.clone()).collect();
        let mut rest = match rest.is_empty() {
            true => Vec::new(),
            false => self.record_each(rest).await,
        }
        .into_iter();
        let fence = |at| if is_recorded(at) { Some(Ok(Fence::Held)) } else { rest.next() };
        (0..records.len()).map(fence).map(|fence| fence.expect("each is answered")).collect()
    }
}

impl Memory {
    /// Closes the batches of these tokens.
    pub(crate) async fn close(
        &self,
        tokens: BTreeSet<String>,
        now: Timestamp,
    ) -> BTreeMap<String, Result<(), PortError>> {
        if tokens.is_empty() {
            return BTreeMap::new();
        }
        let all: Vec<String> = tokens.into_iter().collect();
        let key = |token: &String| Some(format!("batch#{token}"));
        let close = |state: &mut State, token: String| state.ledger.close(&token, expires_at(now, None));
        let closed = self.effect_on_each_at("close_batch", all.clone(), key, close).await;
        all.into_iter().zip(closed).collect()
    }

    async fn record_together(&self, records: &[Record], together: &Together) -> Result<bool, PortError> {
        let Together { lease_token: token, successes, latest } = together;
        let key = Some(format!("batch#{token}"));
        self.effect_at("record_batch", key, |state| {
            let is_open = state.ledger.add(token, successes.values().cloned().collect(), *latest);
            for record in successes.keys().map(|at| &records[*at]).filter(|_| is_open) {
                let is_its = |own: &Entry| own.lease_token == *token && own.state == ledger::State::Sending;
                if state.ledger.own(&record.key).is_some_and(is_its) {
                    let past = PastAttempt::of(record);
                    state.attempts.entry(record.key.clone()).or_default().extend(past);
                }
            }
            is_open
        })
        .await
    }

    async fn record_each(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let key = |record: &Record| Some(record.key.to_string());
        self.effect_on_each_at("record", records, key, |state, record| {
            let Some(entry) = state.ledger.get_mut(&record.key) else { return Fence::Lost };
            let held = entry.lease_token == record.lease_token
                && entry.turn == record.turn
                && entry.state == ledger::State::Sending;
            if !held {
                return if record.is_written(entry) { Fence::Held } else { Fence::Lost };
            }
            assert!(entry.state.may_become(record.state), "{:?} to {:?}", entry.state, record.state);
            let past = PastAttempt::of(&record);
            entry.take(&record);
            entry.expires_at = record.expires_at();
            state.attempts.entry(record.key.clone()).or_default().extend(past);
            Fence::Held
        })
        .await
    }
}

impl LedgerReader for Memory {
    async fn get(&self, key: &DeliveryKey) -> Result<Option<Entry>, PortError> {
        self.effect_at("ledger.get", Some(key.to_string()), |state| {
            let now = state.now;
            state.ledger.get(key).filter(|entry| !entry.is_forgotten(now))
        })
        .await
    }
}

impl Policies for Memory {
    async fn of(&self, tenants: Vec<Tenant>, _now: Timestamp) -> Vec<Result<KnownPolicies, PortError>> {
        self.effect_on_each("policies", tenants, |state, tenant| {
            let before = state.followed.get(&tenant).cloned().unwrap_or_default();
            let stored = state.policies.get(&tenant).cloned().unwrap_or_default();
            let (policies, ignored) = TenantPolicies::read(stored, &before);
            state.followed.insert(tenant, policies.clone());
            KnownPolicies { policies: Arc::new(policies), ignored, stale: None }
        })
        .await
    }
}

/// What a claim comes to.
enum Step {
    Answer(ClaimAnswer),
    /// The batch of that token is closed first.
    Close(String),
}

/// What this claim takes over, in the moment that it does.
fn note_takeover(state: &mut State, ask: &Ask, in_doubt: bool) {
    let former = state.ledger.own(&ask.key).filter(|own| in_doubt && batch::may_be_listed(own));
    let Some(lease_token) = former.map(|own| own.lease_token.clone()) else { return };
    let is_closed = state.ledger.is_closed(&lease_token);
    state.takeovers.push(Takeover { key: ask.key.clone(), lease_token, is_closed });
}

fn claim_one(state: &mut State, claim: &Claim, now: Timestamp) -> Step {
    let ask = &claim.ask;
    if state.ledger.own(&ask.key).is_some_and(|stored| stored.is_forgotten(now)) {
        state.delete(&Row::Entry(ask.key.clone()));
    }
    let own = state.ledger.own(&ask.key);
    let is_open = |own: &&Entry| batch::to_close(own, ask, now) && !state.ledger.is_closed(&own.lease_token);
    if let Some(own) = own.filter(is_open) {
        return Step::Close(own.lease_token.clone());
    }
    let stored = state.ledger.get(&ask.key);
    let in_doubt = match stored.as_ref().map(|stored| (stored, judge(stored, ask, now))) {
        None => false,
        Some((_, Judgement::Claim { in_doubt })) => in_doubt,
        Some((stored, Judgement::Mine)) => {
            return Step::Answer(ClaimAnswer::Granted { in_doubt: stored.in_doubt, at: stored.updated_at });
        }
        Some((stored, Judgement::HandOffAgain)) => {
            return Step::Answer(ClaimAnswer::HandOffAgain(Box::new(stored.clone())));
        }
        Some((_, Judgement::Leased { until })) => return Step::Answer(ClaimAnswer::Leased { until }),
        Some((_, Judgement::Done)) => return Step::Answer(ClaimAnswer::Done),
        Some((_, Judgement::Conflict)) => return Step::Answer(ClaimAnswer::Conflict),
        Some((stored, Judgement::Cancelled)) => {
            let met = claim.meets(stored.clone());
            state.ledger.insert(ask.key.clone(), met.clone());
            return Step::Answer(ClaimAnswer::HandOffAgain(Box::new(met)));
        }
    };
    let entry = claim.entry(stored.as_ref(), in_doubt, now);
    note_takeover(state, ask, in_doubt);
    state.ledger.insert(ask.key.clone(), entry);
    Step::Answer(ClaimAnswer::Granted { in_doubt, at: now })
}
