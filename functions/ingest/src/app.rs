use redial_engine::http_api::Settings;

use crate::limits::Limits;

/// A worker: its ports, its settings, and what it remembers of its callers' rates.
#[derive(Debug)]
pub struct App<E> {
    pub env: E,
    pub settings: Settings,
    pub(crate) limits: Limits,
}

impl<E> App<E> {
    pub fn new(env: E, settings: Settings) -> Self {
        let limits = Limits::new(settings.rate);
        Self { env, settings, limits }
    }
}
