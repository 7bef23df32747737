//! Which subscriptions have a tag.
//!
//! A row is written and removed in the same transaction as the subscription's tags, so there is never a row without its
//! subscription or a tag without its row. The shard follows from the subscription's id, so that an audience of a million has
//! sixteen partitions to write to and to read.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
pub use redial_core::audience::shard_of;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::tag::Tag;

use crate::table::attributes::{Item, key as item_key};

/// The partition key of one shard of an audience.
pub fn partition(tenant: &Tenant, tag: &Tag, shard: u8) -> String {
    format!("{tenant}#{tag}#{shard:02}")
}

/// The writes that turn one set of tags into another: rows to remove, and rows to add.
pub(crate) fn changes(
    table: &str,
    key: &SubscriptionKey,
    before: &BTreeSet<Tag>,
    after: &BTreeSet<Tag>,
) -> Vec<TransactWriteItem> {
    let leaving = before.difference(after).map(|tag| {
        let delete = Delete::builder().table_name(table).set_key(Some(row(key, tag))).build();
        TransactWriteItem::builder().delete(delete.expect("a delete has its table and its key")).build()
    });
    let joining = after.difference(before).map(|tag| {
        let put = Put::builder().table_name(table).set_item(Some(row(key, tag))).build();
        TransactWriteItem::builder().put(put.expect("a put has its table and its item")).build()
    });
    leaving.chain(joining).collect()
}

fn row(key: &SubscriptionKey, tag: &Tag) -> Item {
    item_key(partition(&key.tenant, tag, shard_of(&key.id)), key.id.as_str())
}

#[cfg(test)]
mod tests {
    use redial_core::identity::SubscriptionId;

    use super::*;
    use crate::table::attributes::Read as _;

    fn tags(texts: &[&str]) -> BTreeSet<Tag> {
        texts.iter().map(|text| Tag::parse(text).expect("a tag")).collect()
    }

    fn key(id: &str) -> SubscriptionKey {
        SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse(id).expect("valid"),
        }
    }

    #[test]
    fn only_changed_tags_are_written() {
        let written = changes("audiences", &key("s1"), &tags(&["news", "old"]), &tags(&["news", "new"]));
        let of = |item: &Item| format!("{} {}", item.text("pk").expect("pk"), item.text("sk").expect("sk"));
        let changed: Vec<String> = written
            .iter()
            .map(|write| match (write.put(), write.delete()) {
                (Some(put), None) => format!("+ {}", of(put.item())),
                (None, Some(delete)) => format!("- {}", of(delete.key())),
                _ => panic!("neither"),
            })
            .collect();
        let shard = shard_of(&key("s1").id);
        assert_eq!(changed, [format!("- acme#old#{shard:02} s1"), format!("+ acme#new#{shard:02} s1")]);
        assert!(changes("audiences", &key("s1"), &tags(&["a"]), &tags(&["a"])).is_empty());
    }
}
