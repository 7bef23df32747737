use redial_engine::http_api::Settings;
use redial_engine::quota::QuotaGuard;

use crate::limits::Limits;

/// A worker: its ports, its settings, and what it remembers of its callers' rates and tenants' quotas.
#[derive(Debug)]
pub struct App<E> {
    pub env: E,
    pub settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) quota_guard: QuotaGuard,
}

impl<E> App<E> {
    pub fn new(env: E, settings: Settings) -> Self {
        let limits = Limits::new(settings.rate);
        let quota_guard = QuotaGuard::new(settings.quotas);
        Self { env, settings, limits, quota_guard }
    }
}
