//! Tenants' quotas: what would be parked over one ends, and a dead letter over one is kept without its body.
//!
//! A message is judged when it is first to wait for a time, before its claim or its record, so that the ledger has its end. One that was
//! parked comes back early from a wait of hours or days and waits on: it has its place.

use super::dead_letters::DeadLetter;
use super::job::Job;
use super::worker::{Ports, Worker};
use redial_core::gate::Gate;
use redial_core::identity::Tenant;
use redial_core::plan::{self, Plan};
use redial_core::quota::Quota;
use redial_core::reason::Reason;
use redial_core::route::{Route, route};
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Ends those that would be parked over their tenants' quotas.
    pub(super) async fn keep_to_quotas(&self, gated: &mut [(Job, Gate)], now: Timestamp) {
        for (job, gate) in gated {
            if let Gate::Later(until) = *gate
                && job.travel.not_before != Some(until)
                && self.is_over_parking(job, until, now).await
            {
                *gate = Gate::End(plan::failed(Reason::QuotaExceeded, job.policy()));
            }
        }
    }

    /// The plan, or the end of a delivery whose retry would be parked over its tenant's quota.
    pub(super) async fn keep_to_quota(&self, job: &Job, plan: Plan, now: Timestamp) -> Plan {
        if let Plan::Retry { not_before, .. } = plan
            && self.is_over_parking(job, not_before, now).await
        {
            return plan::failed(Reason::QuotaExceeded, job.policy());
        }
        plan
    }

    async fn is_over_parking(&self, job: &Job, until: Timestamp, now: Timestamp) -> bool {
        matches!(route(job.lane, until, now, &self.settings.waits), Route::Park(_))
            && !self.takes(&job.message.tenant, Quota::Parked, now).await
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
