//! Listing subscriptions for operators, a page at a time: of one tenant, of all, or of a tenant's audience.
//!
//! The table has no index by tenant, because only operators ask, and an index would cost every renewal a write. So a tenant's
//! subscriptions are found by reading the table, whose cost the caller states. Those with a tag are found by the rows of the audience.
//! Nothing is opened: a webhook is read without its secrets and headers, so that no key is needed.

use redial_core::audience::{SHARDS, shard_of};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::subscription::Subscription;
use redial_core::tag::Tag;
use redial_engine::ports::{Audiences, PortError};

use super::{DynamoSubscriptions, item, item_key};
use crate::audiences_dynamo::DynamoAudiences;
use crate::retries::Patience;
use crate::table::attributes::{Item, Read as _, s};
use crate::table::scan_page;

/// Members of an audience that are read at once.
const MEMBERS: u16 = 100;

/// Whose subscriptions are listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    All,
    Tenant(Tenant),
    Audience(Tenant, Tag),
}

/// A page of a listing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    pub subscriptions: Vec<Subscription>,
    /// Keys of items that this version cannot read.
    pub unreadable: Vec<String>,
    /// The key that the next page comes after; `None` at the end.
    pub next: Option<SubscriptionKey>,
}

impl DynamoSubscriptions {
    /// The page after `after`, which need not be stored any more. A page may be empty and not the last. The order is that of the table,
    /// or, of an audience, that of its parts and ids.
    pub async fn page(&self, scope: &Scope, after: Option<&SubscriptionKey>) -> Result<Page, PortError> {
        match scope {
            Scope::All => self.scanned(None, after).await,
            Scope::Tenant(tenant) => self.scanned(Some(tenant), after).await,
            Scope::Audience(tenant, tag) => self.of_audience(tenant, tag, after).await,
        }
    }

    async fn scanned(
        &self,
        tenant: Option<&Tenant>,
        after: Option<&SubscriptionKey>,
    ) -> Result<Page, PortError> {
        let scan = self.table.scan().set_exclusive_start_key(after.map(item_key));
        // A tombstone is no subscription.
        let scan = match tenant {
            None => scan.filter_expression("attribute_exists(endpoint)"),
            Some(tenant) => scan
                .filter_expression("attribute_exists(endpoint) AND tenant = :tenant")
                .expression_attribute_values(":tenant", s(tenant.as_str())),
        };
        let read = scan_page(scan).await?;
        let mut page = Page::default();
        read.items.unwrap_or_default().iter().for_each(|item| page.read(item));
        page.next = read.last_evaluated_key.as_ref().and_then(key_of);
        Ok(page)
    }

    async fn of_audience(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        after: Option<&SubscriptionKey>,
    ) -> Result<Page, PortError> {
        let audiences = DynamoAudiences::on(self.audiences.clone());
        let mut after: Option<&SubscriptionId> = after.map(|key| &key.id);
        let mut page = Page::default();
        for shard in after.map_or(0, shard_of)..SHARDS {
            let members = audiences.members(tenant, tag, shard, after.take(), MEMBERS).await?;
            let key = |id: SubscriptionId| SubscriptionKey { tenant: tenant.clone(), id };
            let keys: Vec<SubscriptionKey> = members.into_iter().map(key).collect();
            let items = self.table.get_each(keys.iter().map(item_key).collect(), Patience::brief()).await;
            for item in items {
                // One that was removed meanwhile is none.
                item?.filter(item::is_stored).iter().for_each(|item| page.read(item));
            }
            if keys.len() == usize::from(MEMBERS) {
                page.next = keys.last().cloned();
                break;
            }
        }
        Ok(page)
    }
}

impl Page {
    fn read(&mut self, item: &Item) {
        match item::read(item, None) {
            Some(Ok(subscription)) => self.subscriptions.push(subscription),
            Some(Err(_)) | None => self.unreadable.push(item.text("pk").unwrap_or_default().to_owned()),
        }
    }
}

pub(super) fn key_of(item: &Item) -> Option<SubscriptionKey> {
    let (tenant, id) = item.text("pk")?.split_once('#')?;
    Some(SubscriptionKey { tenant: Tenant::parse(tenant)?, id: SubscriptionId::parse(id)? })
}
