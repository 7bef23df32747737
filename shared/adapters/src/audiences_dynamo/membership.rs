//! Which subscriptions a tenant's tags gather.
//!
//! A row is written and removed in the very transaction that gives a subscription its tags or takes them, so that at no
//! moment is there a row without its subscription, or a tag without its row. A part follows from the subscription's id, so
//! that an audience of a million is sixteen partitions to write to and to read.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
pub use redial_core::audience::shard_of;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::tag::Tag;

use crate::attributes::{Item, s};

/// The partition key of one shard of an audience.
pub fn partition(tenant: &Tenant, tag: &Tag, shard: u8) -> String {
    format!("{tenant}#{tag}#{shard:02}")
}

/// What turns one set of tags into another, each tag by itself: rows to remove, and rows to add.
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
    let partition = partition(&key.tenant, tag, shard_of(&key.id));
    HashMap::from([("pk".to_owned(), s(partition)), ("sk".to_owned(), s(key.id.as_str()))])
}

#[cfg(test)]
mod tests {
    use redial_core::identity::SubscriptionId;

    use super::*;
    use crate::attributes::Read as _;

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
    fn only_what_changes_is_written() {
        let written = changes("audiences", &key("s1"), &tags(&["news", "old"]), &tags(&["news", "new"]));
        let of = |item: &Item| format!("{} {}", item.text("pk").expect("pk"), item.text("sk").expect("sk"));
        let told: Vec<String> = written
            .iter()
            .map(|it| match (it.put(), it.delete()) {
                (Some(put), None) => format!("+ {}", of(put.item())),
                (None, Some(delete)) => format!("- {}", of(delete.key())),
                _ => panic!("neither"),
            })
            .collect();
        let shard = shard_of(&key("s1").id);
        assert_eq!(told, [format!("- acme#old#{shard:02} s1"), format!("+ acme#new#{shard:02} s1")]);
        assert!(changes("audiences", &key("s1"), &tags(&["a"]), &tags(&["a"])).is_empty());
    }
}
