//! A record that could not be written, and travels in the message that is sent again.
//!
//! An attempt was made and its record failed through an error of our own; or a claim may have been written, and nothing was
//! attempted. Without the record, the delivery would be sent twice, or an attempt that never left would count as in doubt. So the
//! message that is sent again carries the record with its fencing token, and its receiver writes it before anything else.

use serde::{Deserialize, Serialize};

use super::{Record, State};
use crate::endpoint::EndpointHash;
use crate::identity::{DeliveryKey, Turn};
use crate::outcome::NotSent;
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::verdict;

/// A record that was not written, without what its message already says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrecorded {
    /// Its state is `queued` where nothing was attempted.
    pub record: Record,
    pub endpoint_hash: Option<EndpointHash>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    token: String,
    state: State,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_sent: Option<NotSent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_word: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_doubt: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint_hash: Option<EndpointHash>,
}

impl Unrecorded {
    pub fn to_json(&self) -> String {
        let record = self.record.clone();
        let wire = Wire {
            token: record.lease_token,
            state: record.state,
            at: record.now,
            status: record.status,
            verdict: record.verdict.map(str::to_owned),
            reason: record.reason,
            not_sent: record.not_sent,
            provider_word: record.provider_word,
            headers: record.headers,
            not_before: record.not_before,
            in_doubt: record.in_doubt,
            kept_until: record.kept_until,
            endpoint_hash: self.endpoint_hash.clone(),
        };
        serde_json::to_string(&wire).expect("invariant: strings and numbers are JSON")
    }

    /// Reads what [`Self::to_json`] wrote of this delivery's turn; `None` for anything else.
    pub fn from_json(text: &str, key: DeliveryKey, turn: Turn) -> Option<Self> {
        let wire: Wire = serde_json::from_str(text).ok()?;
        Some(Self {
            endpoint_hash: wire.endpoint_hash,
            record: Record {
                key,
                turn,
                lease_token: wire.token,
                place: None,
                state: wire.state,
                status: wire.status,
                verdict: match wire.verdict {
                    Some(label) => Some(verdict::label_of(&label)?),
                    None => None,
                },
                reason: wire.reason,
                not_sent: wire.not_sent,
                provider_word: wire.provider_word,
                headers: wire.headers,
                not_before: wire.not_before,
                in_doubt: wire.in_doubt,
                kept_until: wire.kept_until,
                now: wire.at,
            },
        })
    }

    /// Whether it has an outcome to hand off; else it gives back a claim that was not used.
    pub fn has_an_outcome(&self) -> bool {
        self.record.state != State::Queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;

    fn unrecorded(record: Record) -> Unrecorded {
        Unrecorded { record, endpoint_hash: EndpointHash::parse(&format!("hmac:k1:{}", "0f".repeat(32))) }
    }

    #[test]
    fn an_unrecorded_outcome_reads_back() {
        let full = Record {
            not_sent: Some(NotSent::Tls),
            provider_word: Some("appthrottled".to_owned()),
            headers: vec![("retry-after".to_owned(), "60".to_owned())],
            in_doubt: true,
            kept_until: Some(Timestamp::from_secs(1_800_000_900)),
            ..record(3)
        };
        let queued = Record { state: State::Queued, verdict: None, reason: None, ..full.clone() };
        for record in [full, queued] {
            let (key, turn) = (record.key.clone(), record.turn);
            let unrecorded = unrecorded(record);
            let text = unrecorded.to_json();
            assert_eq!(Unrecorded::from_json(&text, key, turn), Some(unrecorded), "{text}");
        }
    }

    #[test]
    fn a_record_of_another_release_is_not_guessed_at() {
        let text = unrecorded(record(3)).to_json();
        for (ours, theirs) in [
            ("\"token\"", "\"surprise\":1,\"token\""),
            ("\"retrying\"", "\"levitating\""),
            ("\"server_error\"", "\"unheard_of\""),
            ("\"retry\"", "\"unheard_of\""),
            ("hmac:", "sha256:"),
        ] {
            let other = text.replacen(ours, theirs, 1);
            assert_ne!(other, text);
            assert_eq!(Unrecorded::from_json(&other, record(3).key, record(3).turn), None, "{other}");
        }
    }
}
