//! Taking over what another stack has under a subscription's key.
//!
//! The whole item is taken as it is, so that every attribute is kept, those of a later release included: consent, tags, state and health, and
//! also the mark of an erasure. Which of two copies is kept is [`Copy::replaces`]'s decision; it is written on the condition that nothing of the
//! item has changed since it was read. Count, audiences and the row of the endpoint follow in the same transaction.

use redial_core::identity::SubscriptionKey;
use redial_core::subscription::replica::Copy;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::erasures::ERASED_AT;
use super::holder::{endpoint_of, holds};
use super::listing::key_of;
use super::transaction::{After, Met};
use super::{DynamoSubscriptions, item, item_key};
use crate::aws_error;
use crate::retries::Patience;
use crate::table::attributes::{Item, Read as _, item as item_of, s};
use crate::table::scan_page;

/// The times at which a browser or a sender decided on a subscription.
const DECISIONS: [&str; 4] = ["created_at", "last_seen_at", "authorized_at", "moved_at"];

/// What became of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// There was nothing under its key.
    New,
    /// It has replaced an older one.
    Changed,
    /// What this stack has is the same, or newer.
    Kept,
    /// Another subscription of the tenant has its endpoint since later.
    EndpointKept,
    /// Its webhook's secrets are sealed with a key that this stack does not have.
    Sealed,
    /// This release cannot read it.
    Unreadable,
}

impl DynamoSubscriptions {
    /// DynamoDB counts the items of a table every six hours.
    pub(crate) async fn about_how_many(&self) -> Result<u64, PortError> {
        let described = self.table.client().describe_table().table_name(self.table.name()).send().await;
        let described = described.map_err(|error| aws_error::of_call("DescribeTable", &error))?;
        let count = described.table.and_then(|table| table.item_count).unwrap_or_default();
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Items of this table as they are, tombstones included, after the one of this key; and the key to continue after, `None` at the end.
    pub(crate) async fn copies(
        &self,
        after: Option<&str>,
        most: u16,
    ) -> Result<(Vec<Item>, Option<String>), PortError> {
        let after = after.map(|pk| item_of([("pk", s(pk))]));
        let scan = self.table.scan().limit(i32::from(most)).set_exclusive_start_key(after);
        let read = scan_page(scan).await?;
        let next = read.last_evaluated_key.and_then(|last| last.text("pk").map(str::to_owned));
        Ok((read.items.unwrap_or_default(), next))
    }

    /// Those of these copies, by their places, that are not the same as, or older than, what this stack has: two reads a hundred.
    pub(crate) async fn newer(&self, copies: &[&Item]) -> Result<Vec<bool>, PortError> {
        let keys: Vec<Option<Item>> =
            copies.iter().map(|copy| key_of(copy).map(|key| item_key(&key))).collect();
        let mut found = self
            .table
            .get_each(keys.iter().flatten().cloned().collect(), Patience::brief())
            .await
            .into_iter();
        let mut newer = Vec::with_capacity(copies.len());
        for (copy, key) in copies.iter().zip(&keys) {
            let ours = match key {
                Some(_) => found.next().expect("invariant: each key was read")?,
                None => None,
            };
            newer.push(of(copy).is_none_or(|theirs| theirs.replaces(ours.as_ref().and_then(of))));
        }
        Ok(newer)
    }

    /// Takes over the copy of another stack, unless this stack has a newer one.
    pub(crate) async fn take(&self, copy: &Item, now: Timestamp) -> Result<Taken, PortError> {
        let (Some(key), Some(theirs)) = (key_of(copy).filter(|key| names(copy, key)), of(copy)) else {
            return Ok(Taken::Unreadable);
        };
        if item::is_stored(copy) {
            match item::read(copy, self.keys.as_ref()) {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Ok(Taken::Sealed),
                None => return Ok(Taken::Unreadable),
            }
        }
        // One that lost its endpoint to another does not get it back.
        let endpoint = endpoint_of(copy).filter(|_| holds(copy));
        self.change(&key, endpoint.as_ref(), now, |Met { before, holder }| {
            if !theirs.replaces(before.and_then(of)) {
                return Ok((None, Taken::Kept));
            }
            let rival = holder.stored().and_then(|(rival, _)| of(rival));
            if rival.is_some() && !theirs.replaces(rival) {
                return Ok((None, Taken::EndpointKept));
            }
            let taken = if before.is_none() { Taken::New } else { Taken::Changed };
            Ok((Some(After::Copy(copy.clone())), taken))
        })
        .await
    }
}

/// Whether an item is that of this key: a line of a file may say anything.
fn names(copy: &Item, key: &SubscriptionKey) -> bool {
    copy.text("tenant") == Some(key.tenant.as_str()) && copy.text("id") == Some(key.id.as_str())
}

/// `None` if it is neither a subscription nor a tombstone.
fn of(item: &Item) -> Option<Copy> {
    if let Some(at) = item.time(ERASED_AT) {
        return Some(Copy::Erased(at));
    }
    if !item::is_stored(item) {
        return item::deleted_at(item).map(Copy::Deleted);
    }
    Some(Copy::Stored {
        created_at: item.time("created_at"),
        decided_at: DECISIONS.iter().filter_map(|name| item.time(name)).max(),
        updated_at: item.time("updated_at"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::attributes::n;

    #[test]
    fn an_item_says_when_it_was_stored_decided_on_and_changed() {
        let at = Timestamp::from_ms;
        let stored = item_of([
            ("endpoint", s("https://push.example/x")),
            ("created_at", n(1)),
            ("last_seen_at", n(3)),
            ("authorized_at", n(2)),
            ("updated_at", n(9)),
        ]);
        let times = (Some(at(1)), Some(at(3)), Some(at(9)));
        let (created_at, decided_at, updated_at) = times;
        assert_eq!(of(&stored), Some(Copy::Stored { created_at, decided_at, updated_at }));
        let deleted = item_of([("state", s("deleted")), ("deleted_at", n(4))]);
        assert_eq!(of(&deleted), Some(Copy::Deleted(at(4))));
        let erased = item_of([("state", s("deleted")), ("deleted_at", n(4)), ("erased_at", n(5))]);
        assert_eq!(of(&erased), Some(Copy::Erased(at(5))));
        assert_eq!(of(&item_of([("pk", s("acme#s1"))])), None);
    }
}
