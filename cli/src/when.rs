//! A point in time on the command line: an age, or the time itself.

use std::time::Duration;

use redial_core::time::Timestamp;

use crate::duration;

/// A point in time, as it was given.
#[derive(Clone, Debug)]
pub(crate) enum When {
    Back(Duration, String),
    At(Timestamp),
}

impl When {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let back = duration::parse(text).map(|back| Self::Back(back, text.to_owned()));
        back.or_else(|| Timestamp::parse_rfc3339(text).map(Self::At))
            .ok_or("a time ago, 90s, 30m, 2h, 7d; or a point in time, 2026-11-21T10:05:00Z")
    }

    pub(crate) fn resolve(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Back(back, _) => now.minus(*back),
            Self::At(at) => *at,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Back(_, text) => text.clone(),
            Self::At(at) => at.to_rfc3339(),
        }
    }
}
