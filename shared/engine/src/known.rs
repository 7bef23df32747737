//! What is known of a delivery: its entry in the ledger, or what its page says of it.
//!
//! A recipient of a page has no entry while nothing but a plain success is known of it. Its delivery's id names its place
//! ([`redial_core::page::Position`]), so it is found by the id alone, for as long as its run is kept.
//!
//! Acknowledgements of a recipient of a page lie under a key of their own, also if it has an entry: an acknowledgement may arrive before
//! the recipient leaves its page, and with one key, one conditional write decides which of two is the first.

use crate::ports::{Acks, Deliveries, DeliveryRecord, HttpApi, OnPage, Pages, PortError};
use redial_core::ack::AckEvent;
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::Given;
use redial_core::page::Position;
use redial_core::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// It has an entry.
    Entry(Box<DeliveryRecord>),
    /// Its page alone knows it.
    OnPage { on_page: OnPage, acknowledged: Vec<(AckEvent, Timestamp)> },
}

impl Known {
    pub fn subscription(&self) -> Option<&SubscriptionId> {
        match self {
            Self::Entry(record) => record.entry.subscription.as_ref(),
            Self::OnPage { on_page, .. } => Some(&on_page.subscription),
        }
    }

    /// What its message says of itself.
    pub fn given(&self) -> &Given {
        match self {
            Self::Entry(record) => &record.entry.given,
            Self::OnPage { on_page, .. } => &on_page.given,
        }
    }

    /// The first acknowledgement of each kind.
    pub fn acknowledged(&self) -> &[(AckEvent, Timestamp)] {
        match self {
            Self::Entry(record) => &record.acknowledged,
            Self::OnPage { acknowledged, .. } => acknowledged,
        }
    }
}

/// What is known of a delivery at `now`; `None` if it was never heard of, or is forgotten.
pub async fn find(env: &impl HttpApi, key: &DeliveryKey, now: Timestamp) -> Result<Option<Known>, PortError> {
    let entry = env.ledger().find(key).await?;
    let Some(position) = Position::of(key) else { return Ok(entry.map(|it| Known::Entry(Box::new(it)))) };
    let Some(acknowledged) = env.acks().acknowledged(key, now).await? else { return Ok(None) };
    let with = |record: DeliveryRecord| {
        let acknowledged = record.acknowledged.iter().chain(&acknowledged).copied().collect();
        Known::Entry(Box::new(DeliveryRecord { acknowledged, ..record }))
    };
    if let Some(record) = entry {
        return Ok(Some(with(record)));
    }
    let Some(on_page) = env.pages().on_page(&position, now).await? else { return Ok(None) };
    // It may have got an entry since that was looked up.
    let entry = if on_page.is_apart() { env.ledger().find(key).await? } else { None };
    Ok(Some(entry.map_or_else(|| Known::OnPage { on_page, acknowledged: acknowledged.clone() }, with)))
}
