//! Audiences in memory: who belongs to one follows from the subscriptions' tags.

use redial_core::audience::{Bounds, Progress, Run, RunKey, shard_of};
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::ledger::Given;
use redial_core::page::{PageKey, PageMessage, Sheet};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences, PageClaim, PageLease, PortError};

use super::Memory;
use super::items::fits;

impl Audiences for Memory {
    async fn open(&self, runs: Vec<Run>) -> Vec<Result<(), PortError>> {
        let opened = self.effect_on_each("audiences.open", runs, |state, run| {
            fits(run.body.expose().len())?;
            state.moves += 1;
            state.runs.entry(run.key.clone()).or_insert(run);
            Ok(())
        });
        opened.await.into_iter().map(|opened| opened.and_then(|opened| opened)).collect()
    }

    async fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> Vec<Result<Option<Run>, PortError>> {
        self.effect_on_each("audiences.load", keys, |state, key| {
            state.runs.get(&key).filter(|run| run.kept_until > now).cloned()
        })
        .await
    }

    async fn members(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        shard: u8,
        after: Option<&SubscriptionId>,
        most: u16,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        self.effect("audiences.members", |state| {
            let of_tenant = state.subscriptions.iter().filter(|(key, _)| key.tenant == *tenant);
            let bears = of_tenant.filter(|(_, it)| it.tags.contains(tag)).map(|(key, _)| &key.id);
            let ids = bears.filter(|id| after.is_none_or(|after| *id > after) && shard_of(id) == shard);
            ids.take(usize::from(most)).cloned().collect()
        })
        .await
    }

    async fn progress(&self, run: &RunKey, shard: u8) -> Result<Progress, PortError> {
        self.effect_at("audiences.progress", Some(run.to_string()), |state| {
            state.progress.get(&(run.clone(), shard)).cloned().unwrap_or_default()
        })
        .await
    }

    async fn bound(
        &self,
        run: &Run,
        shard: u8,
        after: Option<&SubscriptionId>,
        page: &Bounds,
    ) -> Result<Option<Bounds>, PortError> {
        self.effect_at("audiences.bound", Some(run.key.to_string()), |state| {
            let part = (run.key.clone(), shard);
            // The condition of DynamoDB's statement.
            match state.bounds.get(&part) {
                Some((from, _)) if from.as_ref() > after => None,
                Some((from, recorded)) if from.as_ref() == after => Some(recorded.clone()),
                Some(_) | None => {
                    state.bounds.insert(part, (after.cloned(), page.clone()));
                    Some(page.clone())
                }
            }
        })
        .await
    }

    async fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> Result<bool, PortError> {
        self.effect_at("audiences.advance", Some(run.key.to_string()), |state| {
            state.moves += 1;
            if let Some((part, progress)) =
                state.crossing.take_if(|(part, _)| *part == (run.key.clone(), shard))
            {
                state.progress.insert(part, progress);
            }
            let part = (run.key.clone(), shard);
            let stored = state.progress.get(&part);
            // The condition of DynamoDB's statement.
            let is_there = match &from.after {
                None => stored.is_none(),
                Some(after) => stored.is_some_and(|at| at.after.as_ref() == Some(after) && !at.done),
            };
            if is_there {
                state.progress.insert(part.clone(), to.clone());
                state.part_expiries.insert(part, run.kept_until);
            }
            is_there
        })
        .await
    }

    async fn record_page(
        &self,
        run: &Run,
        page: &PageKey,
        members: &[SubscriptionId],
        given: &Given,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        self.effect_at("audiences.record_page", Some(run.key.to_string()), |state| {
            state.record_page(page, members, given, run.kept_until)
        })
        .await
    }

    async fn claim_page(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        now: Timestamp,
    ) -> Result<PageClaim, PortError> {
        self.effect_at("audiences.claim_page", Some(page.key.run.to_string()), |state| {
            state.claim_page(page, lease, now)
        })
        .await
    }

    async fn write_sheet(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        sheet: &Sheet,
    ) -> Result<bool, PortError> {
        self.effect_at("audiences.write_sheet", Some(page.key.run.to_string()), |state| {
            state.write_sheet(page, lease, sheet)
        })
        .await
    }
}
