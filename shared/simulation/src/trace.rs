//! What happened, as text: a line for each event, byte for byte the same for the same seed.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use redial_core::time::Timestamp;

/// Shared by all parts of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    /// Kept only for a replay: most seeds are run for their verdict alone.
    text: Option<String>,
    /// A hash of all lines, kept always: 64-bit FNV-1a.
    hash: u64,
    line: String,
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl Trace {
    pub fn new(is_kept: bool) -> Self {
        let lines = Lines { text: is_kept.then(String::new), hash: FNV_OFFSET, line: String::new() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Adds a line: virtual time, who, what.
    pub fn add(&self, now: Timestamp, who: &str, what: std::fmt::Arguments<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { text, hash, line } = &mut *lines;
        line.clear();
        let _ = writeln!(line, "{} {who:<8} {what}", now.to_rfc3339());
        for byte in line.bytes() {
            *hash = (*hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if let Some(text) = text {
            text.push_str(line);
        }
    }

    pub fn hash(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hash
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).text.clone().unwrap_or_default()
    }
}
