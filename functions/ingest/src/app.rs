//! What every request needs.

use redial_engine::intake::Settings;

use crate::limits::Limits;

/// A worker: its world, what is set, and what it remembers of its callers.
#[derive(Debug)]
pub struct App<E> {
    env: E,
    settings: Settings,
    limits: Limits,
}

impl<E> App<E> {
    /// A worker that remembers nothing yet.
    pub fn new(env: E, settings: Settings) -> Self {
        let limits = Limits::new(settings.rate);
        Self { env, settings, limits }
    }

    /// Its world.
    pub fn env(&self) -> &E {
        &self.env
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many requests it lets in.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
