//! The two lanes. Each has its own ingest queue, retry queue and waits, so that a campaign cannot delay a one-time code.

use crate::label::labels;

labels! {
    pub enum Lane {
        /// One-time codes, alerts.
        Transactional = "transactional",
        /// Campaigns.
        Bulk = "bulk",
    }
}
