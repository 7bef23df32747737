//! A delivery's past attempts, for operators to read. Nothing is decided by them.
//!
//! A delivery keeps [`KEPT`] attempts, each in a slot that follows from its number, so that a record writes its attempt without
//! reading the others. The latest replace the oldest.

use serde::{Deserialize, Serialize};

use crate::identity::{Attempt, Lineage, Turn};
use crate::ledger::Record;
use crate::time::Timestamp;

pub const KEPT: u32 = 16;

/// An attempt that was made. As text, in the ledger, its names are short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PastAttempt {
    #[serde(rename = "l")]
    lineage: u32,
    #[serde(rename = "n")]
    attempt: u32,
    #[serde(rename = "at")]
    pub at: Timestamp,
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(rename = "v")]
    pub verdict: String,
    /// Why: a [`Reason`](crate::reason::Reason)'s label.
    #[serde(rename = "w", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What failed, if nothing was sent: the label of a [`NotSent`](crate::outcome::NotSent).
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub not_sent: Option<String>,
    #[serde(rename = "next", skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// Whether it may have arrived without our knowing.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
}

impl PastAttempt {
    pub fn of(record: &Record) -> Option<Self> {
        Some(Self {
            lineage: record.turn.lineage.0,
            attempt: record.turn.attempt.0,
            at: record.now,
            status: record.status,
            verdict: record.verdict?.to_owned(),
            reason: record.reason.map(|reason| reason.label().to_owned()),
            not_sent: record.not_sent.map(|failure| failure.label().to_owned()),
            next: record.not_before,
            in_doubt: record.in_doubt,
        })
    }

    pub fn turn(&self) -> Turn {
        Turn { lineage: Lineage(self.lineage), attempt: Attempt(self.attempt) }
    }

    pub fn place(&self) -> u32 {
        self.attempt % KEPT
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("an attempt is plain strings and numbers")
    }

    /// Reads a text; `None` if it is not one that this version wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    use crate::outcome::NotSent;

    #[test]
    fn an_attempt_is_written_in_short_names_and_reads_back() {
        let failed = Record { status: None, not_sent: Some(NotSent::Tls), ..record(17) };
        for (record, written) in [
            (
                record(17),
                r#"{"l":0,"n":17,"at":1800000000000,"s":503,"v":"retry","w":"server_error","next":1800000004000}"#,
            ),
            (
                failed,
                r#"{"l":0,"n":17,"at":1800000000000,"v":"retry","w":"server_error","f":"tls","next":1800000004000}"#,
            ),
        ] {
            let past = PastAttempt::of(&record).expect("an attempt");
            assert_eq!((past.to_text().as_str(), past.place()), (written, 1));
            assert_eq!(PastAttempt::from_text(written), Some(past));
        }
        assert_eq!(PastAttempt::from_text("{}"), None);
        assert_eq!(PastAttempt::of(&Record { verdict: None, ..record(0) }), None, "no attempt was made");
    }
}
