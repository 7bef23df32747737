//! Dead letters: the reference that goes through the dead-letter queue, and the body that waits in its store.
//!
//! The queue carries references only. The worker that gives a message up stores its body before it sends the reference; cleanup stores
//! the description, from the reference. A body counts as absent from the moment its message's TTL ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{DeliveryId, Lineage, Tenant};
use crate::lane::Lane;
use crate::reason::Reason;
use crate::time::{Deadline, Timestamp};

/// How long the description of a dead letter is kept where no policy says so, in days.
pub const DEFAULT_RETENTION_DAYS: u16 = 14;

pub const UNPARSED_BODY_KEPT: Duration = Duration::from_secs(24 * 3600);

/// A delivery has one dead letter for each lineage. The dead letters of a conflict, an unreadable body and a poison message are
/// identified by their SQS message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct DeadLetterKey {
    /// The tenant, or [`DeadLetterKey::NO_TENANT`] where none could be read.
    pub tenant: String,
    /// The delivery's id, or the SQS MessageId.
    pub id: String,
    /// Which of the id's letters: `lineage-N`, `conflict-MESSAGE`, `malformed` or `poison-MESSAGE`.
    pub letter: String,
}

impl DeadLetterKey {
    /// Stands for a tenant that could not be read; no tenant has such a name.
    pub const NO_TENANT: &str = "_unknown";

    fn new(tenant: Option<&Tenant>, id: &DeliveryId, letter: String) -> Self {
        let tenant = tenant.map_or(Self::NO_TENANT, Tenant::as_str).to_owned();
        Self { tenant, id: id.to_string(), letter }
    }

    pub fn of_delivery(tenant: &Tenant, id: &DeliveryId, lineage: Lineage) -> Self {
        Self::new(Some(tenant), id, format!("lineage-{}", lineage.0))
    }

    /// The letter of a message whose id was used for another content.
    pub fn of_conflict(tenant: &Tenant, id: &DeliveryId, message_id: &str) -> Self {
        Self::new(Some(tenant), id, format!("conflict-{}", DeliveryId::from_sqs_message_id(message_id)))
    }

    pub fn of_unparsed(tenant: Option<&Tenant>, message_id: &str) -> Self {
        Self::new(tenant, &DeliveryId::from_sqs_message_id(message_id), "malformed".to_owned())
    }

    pub fn of_poison(tenant: Option<&Tenant>, id: Option<&DeliveryId>, message_id: &str) -> Self {
        let message = DeliveryId::from_sqs_message_id(message_id);
        Self::new(tenant, id.unwrap_or(&message), format!("poison-{message}"))
    }

    pub fn partition(&self) -> String {
        format!("{}#{}", self.tenant, self.id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Failed,
    Gone,
    /// An endpoint is unknown (404): to be confirmed.
    NotFound,
}

/// The reference that travels through the dead-letter queue: no payload, no endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// Version of this format: 1.
    pub v: u32,
    pub kind: Kind,
    pub tenant: String,
    /// The delivery's id, or the SQS MessageId.
    pub id: String,
    pub letter: String,
    pub lineage: u32,
    pub channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_hash: Option<String>,
    /// The message's tags, with a space between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    /// The trace that the message belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Why: a [`Reason`]'s label.
    pub reason: String,
    /// Details: the invalid fields, a provider's own reason, or what failed before anything was sent (`not_sent: tls`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub attempts: u32,
    /// When the first message was sent, epoch ms.
    pub first_sent: i64,
    pub at: i64,
    pub retention_days: u16,
    /// Whether other recipients failed alike, so that it says nothing about its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_failure: bool,
}

impl Reference {
    pub const VERSION: u32 = 1;

    pub fn new(
        key: &DeadLetterKey,
        kind: Kind,
        reason: Reason,
        first_sent: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self {
            v: Self::VERSION,
            kind,
            tenant: key.tenant.clone(),
            id: key.id.clone(),
            letter: key.letter.clone(),
            lineage: 0,
            channel: "unknown".to_owned(),
            subscription: None,
            endpoint_hash: None,
            tags: None,
            trace_id: None,
            reason: reason.label().to_owned(),
            detail: None,
            status: None,
            attempts: 0,
            first_sent: first_sent.as_ms(),
            at: now.as_ms(),
            retention_days: DEFAULT_RETENTION_DAYS,
            shared_failure: false,
        }
    }

    pub fn key(&self) -> DeadLetterKey {
        DeadLetterKey { tenant: self.tenant.clone(), id: self.id.clone(), letter: self.letter.clone() }
    }

    pub fn reason(&self) -> Option<Reason> {
        Reason::from_label(&self.reason)
    }

    /// The message's tags, one by one.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().flat_map(|tags| tags.split(' '))
    }

    pub fn to_body(&self) -> String {
        serde_json::to_string(self).expect("a reference is plain strings and numbers")
    }

    /// Reads a body back; `None` if it is no reference of a known version.
    pub fn from_body(body: &str) -> Option<Self> {
        serde_json::from_str::<Self>(body).ok().filter(|reference| reference.v == Self::VERSION)
    }
}

/// When the body of a message becomes absent: at the end of its TTL, or with its description where it has none.
pub fn body_absent_from(deadline: Deadline, retention_days: u16, now: Timestamp) -> Timestamp {
    if deadline.is_limited() {
        return deadline.at();
    }
    now.plus(Duration::from_secs(u64::from(retention_days) * 86_400))
}

#[derive(Clone, PartialEq, Eq)]
pub struct DeadLetterBody {
    pub key: DeadLetterKey,
    /// The message as JSON, with what travels with it. Never log it.
    pub body: String,
    /// The lane of the message, where it is known: a replay uses it again. Not in the reference, because a replay needs the body
    /// anyway.
    pub lane: Option<Lane>,
    pub absent_from: Timestamp,
}

impl std::fmt::Debug for DeadLetterBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetterBody").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_back_and_other_bodies_are_refused() {
        let key =
            DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter: "lineage-0".to_owned() };
        let reference = Reference {
            subscription: Some("s1".to_owned()),
            tags: Some("eu order".to_owned()),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            status: Some(410),
            attempts: 1,
            ..Reference::new(&key, Kind::Gone, Reason::Gone, Timestamp::from_ms(1), Timestamp::from_ms(2))
        };
        assert_eq!(Reference::from_body(&reference.to_body()), Some(reference.clone()));
        assert_eq!(reference.reason(), Some(Reason::Gone));
        assert_eq!(reference.tags().collect::<Vec<_>>(), ["eu", "order"]);
        assert_eq!(Reference::from_body(&reference.to_body().replace("\"v\":1", "\"v\":2")), None);
        assert_eq!(Reference::from_body("{}"), None);
    }
}
