//! What could not be recorded, on its way in the message that is sent again.
//!
//! An attempt was made and its record failed for a fault of ours; or a claim may have been written, and nothing was attempted.
//! Without it, the delivery would be sent twice, or an attempt that never left would count as in doubt. So the message that is sent again carries
//! the record with the token that it is fenced by, and its receiver writes it before anything else.

use serde::{Deserialize, Serialize};

use super::{Record, State};
use crate::endpoint::EndpointHash;
use crate::identity::{DeliveryKey, Turn};
use crate::outcome::NotSent;
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::verdict;

/// A record that was not written, less what its message says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrecorded {
    /// The record. Its state is `queued` where nothing was attempted.
    pub record: Record,
    /// Where the attempt went.
    pub endpoint_hash: Option<EndpointHash>,
}

/// How it travels; the names are short, as the ledger's are.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    token: String,
    state: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_sent: Option<String>,
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
    endpoint_hash: Option<String>,
}

impl Unrecorded {
    /// As JSON.
    pub fn to_json(&self) -> String {
        let Record {
            lease_token, state, status, verdict, reason, provider_word, headers, not_before, ..
        } = &self.record;
        let wire = Wire {
            token: lease_token.clone(),
            state: state.label().to_owned(),
            at: self.record.now,
            status: *status,
            verdict: verdict.map(str::to_owned),
            reason: reason.map(|reason| reason.label().to_owned()),
            not_sent: self.record.not_sent.map(|failure| failure.label().to_owned()),
            provider_word: provider_word.clone(),
            headers: headers.clone(),
            not_before: *not_before,
            in_doubt: self.record.in_doubt,
            kept_until: self.record.kept_until,
            endpoint_hash: self.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()),
        };
        serde_json::to_string(&wire).expect("invariant: strings and numbers are JSON")
    }

    /// Reads what [`Self::to_json`] wrote of this delivery's turn; `None` for anything else.
    pub fn from_json(text: &str, key: DeliveryKey, turn: Turn) -> Option<Self> {
        let wire: Wire = serde_json::from_str(text).ok()?;
        Some(Self {
            endpoint_hash: known(wire.endpoint_hash, |text| EndpointHash::parse(&text))?,
            record: Record {
                key,
                turn,
                lease_token: wire.token,
                state: State::from_label(&wire.state)?,
                status: wire.status,
                verdict: known(wire.verdict, |label| verdict::label_of(&label))?,
                reason: known(wire.reason, |label| Reason::from_label(&label))?,
                not_sent: known(wire.not_sent, |label| NotSent::from_label(&label))?,
                provider_word: wire.provider_word,
                headers: wire.headers,
                not_before: wire.not_before,
                in_doubt: wire.in_doubt,
                kept_until: wire.kept_until,
                now: wire.at,
            },
        })
    }

    /// Whether it has an outcome to hand off; else a claim is given back that was not used.
    pub fn has_an_outcome(&self) -> bool {
        self.record.state != State::Queued
    }
}

/// `Some(None)` for what is not there; `None` for what is there and not known.
fn known<T>(text: Option<String>, read: impl FnOnce(String) -> Option<T>) -> Option<Option<T>> {
    match text {
        None => Some(None),
        Some(text) => read(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::super::history;
    use super::*;

    #[test]
    fn an_unrecorded_outcome_reads_back() {
        let record = Record {
            not_sent: Some(NotSent::Tls),
            provider_word: Some("appthrottled".to_owned()),
            headers: vec![("retry-after".to_owned(), "60".to_owned())],
            in_doubt: true,
            kept_until: Some(Timestamp::from_secs(1_800_000_900)),
            ..history::tests::record(3)
        };
        let (key, turn) = (record.key.clone(), record.turn);
        for record in [record.clone(), Record { state: State::Queued, verdict: None, reason: None, ..record }]
        {
            let unrecorded = Unrecorded {
                record,
                endpoint_hash: EndpointHash::parse(&format!("hmac:k1:{}", "0f".repeat(32))),
            };
            let text = unrecorded.to_json();
            assert_eq!(Unrecorded::from_json(&text, key.clone(), turn), Some(unrecorded), "{text}");
        }
    }

    #[test]
    fn what_another_release_wrote_is_not_guessed_at() {
        let record = history::tests::record(3);
        let (key, turn) = (record.key.clone(), record.turn);
        let text = Unrecorded { record, endpoint_hash: None }.to_json();
        for other in [
            text.replacen("\"token\"", "\"surprise\":1,\"token\"", 1),
            text.replace("\"retrying\"", "\"levitating\""),
            text.replace("\"server_error\"", "\"unheard_of\""),
        ] {
            assert_ne!(other, text);
            assert_eq!(Unrecorded::from_json(&other, key.clone(), turn), None, "{other}");
        }
    }
}
