//! The ledger in memory: the same judgement, a map to write in; and tenants' stored policies.

use std::sync::Arc;

use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::ledger::{self, Entry, Fence, Judgement, PastAttempt, Record, expires_at, judge};
use redial_core::policy::TenantPolicies;
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, ClaimAnswer, KnownPolicies, Ledger, LedgerReader, Policies, PortError};

use super::effects::assert_distinct;
use super::{Memory, Row, State};

impl Ledger for Memory {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        assert_distinct(claims.iter().map(|claim| &claim.ask.key));
        let key = |claim: &Claim| Some(claim.ask.key.to_string());
        self.effect_on_each_at("claim", claims, key, |state, claim| claim_one(state, &claim, now)).await
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        self.record(records).await
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        assert_distinct(records.iter().map(|record| &record.key));
        let key = |record: &Record| Some(record.key.to_string());
        self.effect_on_each_at("record", records, key, |state, record| {
            let Some(entry) = state.ledger.get_mut(&record.key) else { return Fence::Lost };
            let held = entry.lease_token == record.lease_token
                && entry.turn == record.turn
                && entry.state == ledger::State::Sending;
            if !held {
                return Fence::Lost;
            }
            assert!(entry.state.may_become(record.state), "{:?} to {:?}", entry.state, record.state);
            let past = PastAttempt::of(&record);
            state.attempts.entry(record.key.clone()).or_default().extend(past);
            entry.state = record.state;
            entry.expires_at = record.expires_at();
            entry.status = record.status;
            entry.reason = record.reason;
            entry.not_sent = record.not_sent;
            entry.provider_word = record.provider_word;
            entry.not_before = record.not_before;
            entry.in_doubt |= record.in_doubt;
            entry.updated_at = record.now;
            Fence::Held
        })
        .await
    }
}

impl LedgerReader for Memory {
    async fn get(&self, key: &DeliveryKey) -> Result<Option<Entry>, PortError> {
        self.effect_at("ledger.get", Some(key.to_string()), |state| {
            let now = state.now;
            state.ledger.get(key).filter(|entry| !entry.is_forgotten(now)).cloned()
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

fn claim_one(state: &mut State, claim: &Claim, now: Timestamp) -> ClaimAnswer {
    let ask = &claim.ask;
    if state.ledger.get(&ask.key).is_some_and(|stored| stored.is_forgotten(now)) {
        state.delete(&Row::Entry(ask.key.clone()));
    }
    let stored = state.ledger.get(&ask.key);
    let in_doubt = match stored.map(|stored| (stored, judge(stored, ask, now))) {
        None => false,
        Some((_, Judgement::Claim { in_doubt })) => in_doubt,
        Some((stored, Judgement::Mine)) => {
            return ClaimAnswer::Granted { in_doubt: stored.in_doubt, at: stored.updated_at };
        }
        Some((stored, Judgement::HandOffAgain)) => {
            return ClaimAnswer::HandOffAgain(Box::new(stored.clone()));
        }
        Some((_, Judgement::Leased { until })) => return ClaimAnswer::Leased { until },
        Some((_, Judgement::Done)) => return ClaimAnswer::Done,
        Some((_, Judgement::Conflict)) => return ClaimAnswer::Conflict,
    };
    let entry = Entry {
        key: ask.key.clone(),
        state: claim.settlement.map_or(ledger::State::Sending, |end| end.state),
        turn: ask.turn,
        fingerprint: ask.fingerprint.clone(),
        lease_token: ask.lease_token.clone(),
        lease_until: ask.lease_until,
        source_message: ask.source_message.clone(),
        endpoint_hash: claim.endpoint_hash.clone(),
        subscription: claim.subscription.clone(),
        status: stored.and_then(|entry| entry.status),
        reason: claim.settlement.and_then(|end| end.reason),
        not_sent: None,
        provider_word: None,
        not_before: None,
        in_doubt: in_doubt
            || stored.is_some_and(|entry| entry.in_doubt && entry.turn.lineage == ask.turn.lineage),
        created_at: stored.map_or(now, |entry| entry.created_at),
        updated_at: now,
        expires_at: expires_at(now, None),
    };
    state.ledger.insert(ask.key.clone(), entry);
    ClaimAnswer::Granted { in_doubt, at: now }
}
