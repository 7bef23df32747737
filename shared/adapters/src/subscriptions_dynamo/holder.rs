//! Who has an endpoint: one row of `audiences` for each endpoint of a browser, by tenant and digest.
//!
//! | attribute | what |
//! |---|---|
//! | `pk`, `sk` | `endpoint#<tenant>#<digest>` and `holder` |
//! | `id` | the subscription that has the endpoint, or had it last |
//! | `version` | another with each write: what a concurrent decision is conditional on |
//! | `released_at`, `expires_at` | once no subscription has it: since when, and until when that is remembered |
//!
//! The row is written in the transaction that stores, moves or removes the subscription. An item whose row says that it has its endpoint
//! has the attribute `holds`, so that a renewal reads and writes no row. A release that knows none of this writes items without it, and
//! leaves rows that are not true any more: a row counts only as far as the item that it names agrees.

use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey};
use redial_core::subscription::same_endpoint::{FORMER_KEPT, digest};
use redial_core::subscription::{Rival, Subscription};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item, item_key};
use crate::table::attributes::{Item, Read as _, expiry, item as item_of, key, ms, s};
use crate::table::{Change, request_token};

/// The sort key of such a row.
pub(crate) const HOLDER: &str = "holder";

/// Of an item: its row says that it has its endpoint.
pub(super) const HOLDS: &str = "holds";

/// What was read of an endpoint's row.
#[derive(Clone, Debug, Default)]
pub(super) struct Holder {
    /// The version of the row, if there is one.
    version: Option<String>,
    /// What the row names, if that is another subscription.
    other: Option<Other>,
}

#[derive(Clone, Debug)]
enum Other {
    /// A subscription with this endpoint, and its item.
    Stored(Item, Box<Subscription>),
    Former,
}

impl Holder {
    pub(super) fn rival(&self) -> Option<Rival> {
        Some(match self.other.as_ref()? {
            Other::Stored(_, stored) => Rival::Stored(stored.clone()),
            Other::Former => Rival::Former,
        })
    }

    /// The subscription that has the endpoint now, and its item.
    pub(super) fn stored(&self) -> Option<(&Item, &Subscription)> {
        match self.other.as_ref()? {
            Other::Stored(item, stored) => Some((item, stored)),
            Other::Former => None,
        }
    }
}

impl DynamoSubscriptions {
    /// Who has this endpoint besides this subscription: one read, and another one if there is a row.
    pub(super) async fn holder_of(
        &self,
        own: &SubscriptionKey,
        endpoint: &Endpoint,
        now: Timestamp,
    ) -> Result<Holder, PortError> {
        let Some(row) = self.audiences.get_one(row_key(own, endpoint)).await? else {
            return Ok(Holder::default());
        };
        let version = row.text("version").map(str::to_owned);
        let id = row.text("id").and_then(SubscriptionId::parse).filter(|id| *id != own.id);
        let Some(id) = id else { return Ok(Holder { version, other: None }) };
        let key = SubscriptionKey { tenant: own.tenant.clone(), id };
        let item = self.table.get_one(item_key(&key)).await?;
        let subscription = self.read(item.as_ref())?;
        let stored = item.zip(subscription).filter(|(_, it)| *it.recipient.endpoint() == *endpoint);
        // DynamoDB deletes rows late.
        let is_forgotten = row.time("released_at").is_some_and(|at| at.plus(FORMER_KEPT) <= now);
        let stored = stored.map(|(item, subscription)| Other::Stored(item, Box::new(subscription)));
        let other = stored.or_else(|| (!is_forgotten).then_some(Other::Former));
        Ok(Holder { version, other })
    }

    /// Gives the endpoint to this subscription, if its row is as it was read.
    pub(super) fn gives(
        &self,
        to: &SubscriptionKey,
        endpoint: &Endpoint,
        read: &Holder,
    ) -> TransactWriteItem {
        let mut row = row_key(to, endpoint);
        row.extend(item_of([("id", s(to.id.as_str())), ("version", s(request_token()))]));
        let (condition, values) = match &read.version {
            Some(version) => ("#version = :version", item_of([(":version", s(version))])),
            None => ("attribute_not_exists(pk)", Item::new()),
        };
        self.audiences.write(Change::Put(row), Some(condition), values)
    }

    /// Notes that this subscription has its endpoint no more.
    pub(super) fn releases(
        &self,
        from: &SubscriptionKey,
        endpoint: &Endpoint,
        now: Timestamp,
    ) -> TransactWriteItem {
        let mut row = row_key(from, endpoint);
        row.extend(item_of([
            ("id", s(from.id.as_str())),
            ("version", s(request_token())),
            ("released_at", ms(now)),
            ("expires_at", expiry(now.plus(FORMER_KEPT))),
        ]));
        let condition = "attribute_not_exists(pk) OR #id = :id";
        self.audiences.write(Change::Put(row), Some(condition), item_of([(":id", s(from.id.as_str()))]))
    }
}

/// The endpoint of an item that is a browser's subscription.
pub(super) fn endpoint_of(item: &Item) -> Option<Endpoint> {
    let is_browser = item::is_stored(item) && item.contains_key("p256dh");
    is_browser.then(|| Endpoint::parse(item.text("endpoint")?).ok()).flatten()
}

/// Whether the row of the item's endpoint names it.
pub(super) fn holds(item: &Item) -> bool {
    endpoint_of(item).is_some() && item.truth(HOLDS)
}

fn row_key(of: &SubscriptionKey, endpoint: &Endpoint) -> Item {
    key(format!("endpoint#{}#{}", of.tenant, digest(&of.tenant, endpoint)), HOLDER)
}
