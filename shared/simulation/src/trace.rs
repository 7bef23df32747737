//! What happened, as text: a line for each event, byte for byte the same for the same seed.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use redial_core::time::Timestamp;

/// Shared by all parts of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// `None` unless the trace is kept, for a replay: most seeds are run for their verdict alone.
    text: Option<Arc<Mutex<String>>>,
}

impl Trace {
    pub fn new(is_kept: bool) -> Self {
        Self { text: is_kept.then(Arc::default) }
    }

    /// Adds a line: virtual time, who, what.
    pub fn add(&self, now: Timestamp, who: &str, what: std::fmt::Arguments<'_>) {
        if let Some(text) = &self.text {
            let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = writeln!(text, "{} {who:<8} {what}", now.to_rfc3339());
        }
    }

    pub fn text(&self) -> String {
        let text = self.text.as_ref();
        text.map(|it| it.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}
