//! The two lanes: what a user waits for, and what may take its time.
//!
//! Each lane has its own ingest queue, retry queue and waits from end to end, so that a campaign cannot delay a
//! one-time code.

/// A lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Lane {
    /// One-time codes, alerts.
    Transactional,
    /// Campaigns.
    Bulk,
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Transactional, Self::Bulk];

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Transactional => "transactional",
            Self::Bulk => "bulk",
        }
    }

    /// The lane of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.label() == label)
    }
}
