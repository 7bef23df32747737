//! Tenants' quotas: a message that would be parked over one for its schedule or for its hours ends, and a dead letter over one is kept
//! without its body. What a retry, a breaker or a limit makes wait is never ended by a quota: its tenant did not ask for the wait.
//!
//! A message is judged when it is first to wait for a time, before its claim, so that the ledger has its end. One that was
//! parked comes back early from a wait of hours or days and waits on: it has its place.

use super::dead_letters::DeadLetter;
use super::job::Job;
use super::worker::{Ports, Worker};
use redial_core::gate::Gate;
use redial_core::identity::{Attempt, Tenant};
use redial_core::plan;
use redial_core::quota::Quota;
use redial_core::reason::Reason;
use redial_core::route::{Route, route};
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Ends those that would be parked over their tenants' quotas because they ask to wait.
    pub(super) async fn keep_to_quotas(&self, gated: &mut [(Job, Gate)], now: Timestamp) {
        for (job, gate) in gated {
            if let Gate::Later(until) = *gate
                && asks_to_wait(job, now)
                && job.travel.not_before != Some(until)
                && matches!(route(job.lane, until, now, &self.settings.waits), Route::Park(_))
                && !self.takes(&job.message.tenant, Quota::Parked, now).await
            {
                *gate = Gate::End(plan::failed(Reason::QuotaExceeded, job.policy()));
            }
        }
    }

    /// Takes the bodies from those that are over their tenants' quotas. A body that names no tenant is kept for a day, and counts for none.
    pub(super) async fn keep_bodies_to_quotas(&self, dead_letters: &mut [DeadLetter], now: Timestamp) {
        for dead_letter in dead_letters {
            if let Some(tenant) = dead_letter.tenant()
                && !self.takes(&tenant, Quota::DeadLetters, now).await
            {
                dead_letter.drop_body();
            }
        }
    }

    /// Whether there was room for one more.
    async fn takes(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> bool {
        let Self { quota_guard, quotas, telemetry, .. } = self;
        let taken = quota_guard.take(quotas, telemetry, tenant, quota, now).await;
        taken.inspect_err(|exceeded| quota_guard.report(telemetry, tenant, exceeded, now)).is_ok()
    }
}

/// Whether its schedule or its hours are what makes it wait, before its first attempt. What waited before may have missed its hours by that.
fn asks_to_wait(job: &Job, now: Timestamp) -> bool {
    let is_scheduled = job.message.deliver_at.is_some_and(|at| now < at);
    let is_first = job.travel.turn.attempt == Attempt::FIRST && job.held_by.is_none();
    let is_fresh = is_first && job.travel.not_before.is_none();
    is_scheduled || (is_fresh && job.message.deliver_between.is_some())
}
