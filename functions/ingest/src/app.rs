use redial_engine::http_api::Settings;

use crate::limits::Limits;

/// A worker: its ports, its settings, and what it remembers of its callers' rates.
#[derive(Debug)]
pub struct App<E> {
    env: E,
    settings: Settings,
    limits: Limits,
}

impl<E> App<E> {
    pub fn new(env: E, settings: Settings) -> Self {
        let limits = Limits::new(settings.rate);
        Self { env, settings, limits }
    }

    pub fn env(&self) -> &E {
        &self.env
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
