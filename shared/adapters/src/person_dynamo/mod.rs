//! Everything that the tables hold about a person: about a subscription, or about deliveries whose messages have a `ref`.
//!
//! No key leads from a person to what is kept of it, because no success pays for one. So every table is read whole, a page at a time, and
//! each item is judged by itself ([`redial_core::erasure::Person`]). What follows from a body, the entry of its delivery, is found by its key.
//!
//! | file | concept |
//! |---|---|
//! | `items` | items as JSON, and bodies that are stored in parts |
//! | `tables` | of each table what is looked at, and what is removed with it |

mod items;
mod tables;

use redial_core::erasure::{At, Counts, Kind, Person, Place, Searched};
use redial_core::identity::SubscriptionKey;
use redial_engine::ports::{PersonSearch, PortError};
use serde_json::Value;

use crate::aws_error;
use crate::config::Tables;
use crate::table::attributes::{self, Item, Read as _, key, s};
use crate::table::{self, Table, scan_page};
use crate::write_units::MeteredClient;

/// Something that is kept about the person.
#[derive(Clone, Debug)]
pub struct Found {
    pub place: Place,
    pub kind: Kind,
    /// Its attributes, as JSON; a body as text. Never log it.
    pub shown: Value,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Delete(Vec<Item>),
    /// This row of this tag, unless the subscription is stored again with the tag: then the row is the later subscription's, and without it
    /// messages to the tag's audience would pass it over for good.
    DeleteTag {
        row: Item,
        subscription: SubscriptionKey,
        tag: String,
    },
    /// Its body is replaced by this.
    Redact(Item, String),
    /// This is put in its place.
    Put(Item),
}

/// A page of a search.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub found: Vec<Found>,
    /// How many items were read.
    pub read: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<At>,
}

impl Page {
    /// What was found, counted.
    pub fn counted(self) -> Searched {
        let mut counts = Counts::default();
        self.found.iter().for_each(|found| counts.add(found.kind));
        Searched { found: counts, read: self.read, next: self.next }
    }
}

/// The tables of a stack, searched for a person.
#[derive(Clone, Debug)]
pub struct DynamoPersons {
    tables: [Table; 6],
}

impl DynamoPersons {
    pub fn new(client: impl Into<MeteredClient>, names: &Tables) -> Self {
        let client = client.into();
        let table = |name: &String| Table::new(client.clone(), name.clone());
        let Tables { deliveries, subscriptions, audiences, parked, dead_letters, control } = names;
        Self { tables: [subscriptions, deliveries, dead_letters, parked, audiences, control].map(table) }
    }

    fn table(&self, place: Place) -> &Table {
        &self.tables[place as usize]
    }

    /// About how many items the tables have: DynamoDB counts them every six hours.
    pub async fn items(&self) -> Result<u64, PortError> {
        let mut sum = 0;
        for table in &self.tables {
            let described = table.client().describe_table().table_name(table.name()).send().await;
            let described = described.map_err(|error| aws_error::of_call("DescribeTable", &error))?;
            let count = described.table.and_then(|table| table.item_count).unwrap_or_default();
            sum += u64::try_from(count).unwrap_or_default();
        }
        Ok(sum)
    }

    /// The next page of a search, of `limit` items at most. A position in a table of a later release is an error: the search goes on once
    /// that release does.
    pub async fn page(&self, person: &Person, at: &At, limit: u16) -> Result<Page, PortError> {
        let place = at.place().ok_or_else(|| aws_error::of_code("Scan", "AnotherRelease"))?;
        let after = at.key().map(|(pk, sk)| match sk {
            Some(sk) => key(pk, sk),
            None => attributes::item([("pk", s(pk))]),
        });
        let scan = self.table(place).scan().limit(i32::from(limit)).set_exclusive_start_key(after);
        let read = scan_page(scan).await?;
        let items = read.items.unwrap_or_default();
        let mut page = Page { read: items.len() as u64, ..Page::default() };
        for item in items {
            self.look(person, place, item, &mut page.found).await?;
        }
        page.next = match read.last_evaluated_key {
            Some(last) => {
                let pk = last.text("pk").unwrap_or_default().to_owned();
                let after = (pk, last.text("sk").map(str::to_owned));
                Some(At::after(place, after))
            }
            None => Place::ALL.get(place as usize + 1).copied().map(At::of),
        };
        Ok(page)
    }

    /// Removes what was found on a page, where an erasure removes it. Removing it twice is no error.
    pub async fn remove_all(&self, page: &Page) -> Result<(), PortError> {
        for found in &page.found {
            self.remove(found).await?;
        }
        Ok(())
    }

    async fn remove(&self, found: &Found) -> Result<(), PortError> {
        let table = self.table(found.place);
        match &found.change {
            Change::Delete(keys) => table.delete_all(keys.clone()).await,
            Change::DeleteTag { row, subscription, tag } => {
                // The row is written and removed in one transaction with the item, so this one meets no state between.
                let is_stray = "attribute_not_exists(endpoint) OR NOT contains(#tags, :tag)";
                let own = attributes::item([("pk", s(subscription.to_string()))]);
                let own = self.table(Place::Subscriptions).write(
                    table::Change::Check(own),
                    Some(is_stray),
                    attributes::item([(":tag", s(tag))]),
                );
                let row = table.write(table::Change::Delete(row.clone()), None, Item::new());
                table.transact(&[own, row]).await.map(|_| ())
            }
            Change::Put(item) => table.put(item.clone()).await,
            Change::Redact(key, body) => {
                let values = [(":body", attributes::b(body.as_bytes()))];
                let expression = "SET body = :body";
                table.update_if(key.clone(), expression, "attribute_exists(pk)", values).await.map(|_| ())
            }
        }
    }
}

impl PersonSearch for DynamoPersons {
    async fn erase_page(&self, person: &Person, at: &At, most: u16) -> Result<Searched, PortError> {
        let page = self.page(person, at, most).await?;
        self.remove_all(&page).await?;
        Ok(page.counted())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{subscription, tenant};
    use crate::stub_dynamo::{StubDynamo, error};

    fn persons(stub: &StubDynamo) -> DynamoPersons {
        let [deliveries, subscriptions, audiences, parked, dead_letters, control] =
            ["deliveries", "subscriptions", "audiences", "parked", "dead_letters", "control"]
                .map(str::to_owned);
        let tables = Tables { deliveries, subscriptions, audiences, parked, dead_letters, control };
        DynamoPersons::new(stub.client(), &tables)
    }

    fn person() -> Person {
        Person {
            tenant: tenant("acme"),
            subscription: Some(subscription("s1").id),
            producer_ref: None,
            hashes: Vec::new(),
            endpoint: None,
            hash_keys: None,
        }
    }

    /// A search of audiences that finds the row of a tag, and the row's deletion.
    async fn erase_tag(tenant: &'static str, is_stored_again: bool) -> (Searched, StubDynamo) {
        let stub = StubDynamo::new(move |operation, _| match operation {
            "Scan" => {
                let pk = if tenant == "run" { "run##news#03" } else { "acme#news#03" };
                Ok(json!({"Items": [{"pk": {"S": pk}, "sk": {"S": "s1"}}]}))
            }
            "TransactWriteItems" if is_stored_again => {
                let mut cancelled = error("TransactionCanceledException");
                cancelled["CancellationReasons"] =
                    json!([{"Code": "ConditionalCheckFailed"}, {"Code": "None"}]);
                Err(cancelled)
            }
            "TransactWriteItems" => Ok(json!({})),
            other => panic!("{other}"),
        });
        let person = Person { tenant: crate::fixtures::tenant(tenant), ..person() };
        let searched = persons(&stub).erase_page(&person, &At::of(Place::Audiences), 5).await;
        (searched.expect("no call fails"), stub)
    }

    #[tokio::test]
    async fn the_row_of_a_tag_is_deleted_unless_the_subscription_is_stored_with_it() {
        for (tenant, pk) in [("acme", "acme#news#03"), ("run", "run##news#03")] {
            let (searched, stub) = erase_tag(tenant, false).await;
            assert_eq!(searched.found.iter().collect::<Vec<_>>(), [("tag", 1)]);
            let [call] = stub.calls("TransactWriteItems").try_into().expect("one call");
            let expected = json!([
                {"ConditionCheck": {
                    "TableName": "subscriptions",
                    "Key": {"pk": {"S": format!("{tenant}#s1")}},
                    "ConditionExpression": "attribute_not_exists(endpoint) OR NOT contains(#tags, :tag)",
                    "ExpressionAttributeNames": {"#tags": "tags"},
                    "ExpressionAttributeValues": {":tag": {"S": "news"}},
                }},
                {"Delete": {"TableName": "audiences", "Key": {"pk": {"S": pk}, "sk": {"S": "s1"}}}},
            ]);
            assert_eq!(call["TransactItems"], expected);
        }
    }

    #[tokio::test]
    async fn the_row_of_a_subscription_that_is_stored_again_stays_and_the_search_goes_on() {
        let (searched, stub) = erase_tag("acme", true).await;
        assert_eq!(stub.calls("TransactWriteItems").len(), 1, "it is no contention");
        assert_eq!(searched.next, Some(At::of(Place::Control)));
    }

    #[tokio::test]
    async fn a_table_of_a_later_release_is_an_error_and_not_the_end() {
        let stub = StubDynamo::new(|operation, _| panic!("{operation}"));
        let at: At = serde_json::from_value(json!({"place": "moons", "after": null})).expect("a position");
        let error = persons(&stub).erase_page(&person(), &at, 5).await;
        assert_eq!(error.expect_err("it is not read").code, "AnotherRelease");
    }
}
