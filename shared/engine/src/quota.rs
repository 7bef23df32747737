//! One worker's part in keeping tenants to their quotas.
//!
//! It asks before something is stored and adds afterwards. A count that cannot be read holds nothing back, and one that cannot be
//! written is lost: a quota protects the store from a flood, and must not lose a message. Nothing is asked or counted for a delivery that
//! is neither parked nor a dead letter.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ports::{Added, PortError, Quotas, Telemetry};
use redial_core::identity::Tenant;
use redial_core::metric::Metric;
use redial_core::quota::{Exceeded, Limit, Limits, Quota, Reading};
use redial_core::time::Timestamp;

/// Of how many tenants' quotas a worker knows something; beyond it, it forgets all.
const MOST: usize = 4096;

/// A worker logs a tenant's exceeded quota at most once in this time.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The room that a worker assumes for the second after a count could not be read.
const WHILE_UNKNOWN: u64 = 9_999;

#[derive(Debug)]
pub struct QuotaGuard {
    limits: Limits,
    known: Mutex<HashMap<(Tenant, Quota), Known>>,
    /// Held while a count is read: a batch over a quota reads it once.
    reading: futures_util::lock::Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    reading: Reading,
    logged_at: Option<Timestamp>,
}

impl QuotaGuard {
    /// `limits`: of each tenant that has none of its own.
    pub fn new(limits: Limits) -> Self {
        Self { limits, known: Mutex::default(), reading: futures_util::lock::Mutex::default() }
    }

    /// Whether there is room for one more, which is then taken.
    pub async fn take(
        &self,
        quotas: &impl Quotas,
        telemetry: &impl Telemetry,
        tenant: &Tenant,
        quota: Quota,
        now: Timestamp,
    ) -> Result<(), Exceeded> {
        self.ask(quotas, telemetry, tenant, quota, now).await?;
        self.took(tenant, quota);
        Ok(())
    }

    /// Whether there is room for one more.
    pub async fn ask(
        &self,
        quotas: &impl Quotas,
        telemetry: &impl Telemetry,
        tenant: &Tenant,
        quota: Quota,
        now: Timestamp,
    ) -> Result<(), Exceeded> {
        if !self.counts(quota) {
            return Ok(());
        }
        if let Some(reading) = self.relied_on(tenant, quota, now) {
            return reading.ask(quota);
        }
        let _reading = self.reading.lock().await;
        // Another message of this worker may have read it meanwhile.
        let reading = match self.relied_on(tenant, quota, now) {
            Some(reading) => reading,
            None => self.read(quotas, telemetry, tenant, quota, now).await,
        };
        reading.ask(quota)
    }

    /// One more was stored, and others will read it.
    pub fn took(&self, tenant: &Tenant, quota: Quota) {
        if let Some(known) = self.known().get_mut(&(tenant.clone(), quota)) {
            known.reading.used = known.reading.used.saturating_add(1);
        }
    }

    /// Counts what was over a quota and, once in a while, logs it.
    pub fn report(&self, telemetry: &impl Telemetry, tenant: &Tenant, exceeded: &Exceeded, now: Timestamp) {
        telemetry.count(Metric::QuotaExceeded, 1);
        let is_due = self.known().get_mut(&(tenant.clone(), exceeded.quota)).is_none_or(|known| {
            let is_due = known.logged_at.is_none_or(|at| now.since(at) >= LOGGED_EVERY);
            if is_due {
                known.logged_at = Some(now);
            }
            is_due
        });
        if is_due {
            telemetry.quota_exceeded(tenant, exceeded);
        }
    }

    /// Adds what was stored: of each, when it will be gone. Returns after the counts are written, or lost.
    pub async fn add(
        &self,
        quotas: &impl Quotas,
        telemetry: &impl Telemetry,
        quota: Quota,
        stored: impl IntoIterator<Item = (Tenant, Timestamp)>,
    ) {
        if !self.counts(quota) {
            return;
        }
        let mut counts: BTreeMap<Added, u64> = BTreeMap::new();
        for (tenant, gone) in stored {
            *counts.entry(Added { tenant, quota, until: quota.window_end(gone) }).or_default() += 1;
        }
        if counts.is_empty() {
            return;
        }
        for error in quotas.add(counts.into_iter().collect()).await.into_iter().filter_map(Result::err) {
            telemetry.infrastructure(&error);
        }
    }

    fn counts(&self, quota: Quota) -> bool {
        self.limits.of(quota) != Limit::Off
    }

    /// What is known, if it is good enough.
    fn relied_on(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> Option<Reading> {
        let reading = self.known().get(&(tenant.clone(), quota))?.reading;
        reading.is_relied_on(now).then_some(reading)
    }

    async fn read(
        &self,
        quotas: &impl Quotas,
        telemetry: &impl Telemetry,
        tenant: &Tenant,
        quota: Quota,
        now: Timestamp,
    ) -> Reading {
        let read: Result<_, PortError> = quotas.usage(tenant, quota, now).await;
        let reading = match read {
            Ok(usage) => {
                let limit = usage.limit.unwrap_or(self.limits.of(quota));
                Reading { used: usage.used, limit, at: now }
            }
            Err(error) => {
                telemetry.infrastructure(&error);
                // With so little room it is read again in a second.
                Reading { used: 0, limit: Limit::Most(WHILE_UNKNOWN), at: now }
            }
        };
        let mut known = self.known();
        let key = (tenant.clone(), quota);
        if known.len() >= MOST && !known.contains_key(&key) {
            known.clear();
        }
        let logged_at = known.get(&key).and_then(|known| known.logged_at);
        known.insert(key, Known { reading, logged_at });
        reading
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(Tenant, Quota), Known>> {
        // No change under this lock can be left half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for QuotaGuard {
    /// Without quotas.
    fn default() -> Self {
        Self::new(Limits::OFF)
    }
}
