//! The `audiences` table: which subscriptions have a tag, and the messages to them that are under way.
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `<tenant>#<tag>#<part>` | subscription's id | the subscription has the tag | never |
//! | `run#<tenant>#<run>` | `run` | a message to an audience: its id, lane and body, when it was opened, when it was cancelled | when its last recipient's delivery is over |
//! | `run#<tenant>#<run>` | `part#<part>` | the progress of a part of its audience, and which call moved it last | with it |
//! | `run#<tenant>#<message's id>` | `current` | which run of the message was opened last, and when | with that run |
//!
//! A run of the previous release has the message's id as its own, and no `current`. DynamoDB deletes expired rows late and one by one:
//! a row past its expiry counts as absent.
//!
//! The row of a tag is written and removed in the same transaction as the subscription's tags, so there is never a row without its
//! subscription or a tag without its row. Its part follows from the subscription's id, so that an audience of a million has
//! sixteen partitions to write to and to read.

mod runs;

use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_core::audience::shard_of;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::tag::{Tag, Tags};

use crate::table::attributes::{Item, key as item_key};
use crate::table::{Change, Table, on_a_table};

pub use runs::Standing;

/// The `audiences` table: partition key `pk` and sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoAudiences {
    table: Table,
}

on_a_table!(DynamoAudiences);

fn partition(tenant: &Tenant, tag: &Tag, shard: u8) -> String {
    format!("{tenant}#{tag}#{shard:02}")
}

/// The writes that turn one set of tags into another: rows to remove, and rows to add.
pub(crate) fn changes(
    table: &Table,
    key: &SubscriptionKey,
    before: &Tags,
    after: &Tags,
) -> Vec<TransactWriteItem> {
    let row = |tag| item_key(partition(&key.tenant, tag, shard_of(&key.id)), key.id.as_str());
    let leaving = before.iter().filter(|tag| !after.contains(tag)).map(|tag| Change::Delete(row(tag)));
    let joining = after.iter().filter(|tag| !before.contains(tag)).map(|tag| Change::Put(row(tag)));
    leaving.chain(joining).map(|change| table.write(change, None, Item::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::subscription;
    use crate::table::attributes::Read as _;

    #[test]
    fn only_changed_tags_are_written() {
        let table = Table::new(FakeTable::default().client(), "audiences".to_owned());
        let key = subscription("s1");
        let tags = |texts: [&str; 2]| {
            Tags::new(texts.map(|text| Tag::parse(text).expect("a tag")).to_vec()).expect("two")
        };
        let of = |item: &Item| [item.text("pk"), item.text("sk")].map(|text| text.expect("a key").to_owned());
        let written = changes(&table, &key, &tags(["news", "old"]), &tags(["news", "new"]));
        let [leaving, joining] = written.as_slice() else { panic!("{written:?}") };
        let shard = shard_of(&key.id);
        let row = |tag| [format!("acme#{tag}#{shard:02}"), "s1".to_owned()];
        assert_eq!(leaving.delete().map(|delete| of(delete.key())), Some(row("old")));
        assert_eq!(joining.put().map(|put| of(put.item())), Some(row("new")));
        assert!(changes(&table, &key, &tags(["a", "b"]), &tags(["a", "b"])).is_empty());
    }
}
