//! Parking on a table that behaves as DynamoDB's do: items of at most 400 KB, calls that one bad item fails, pages of a mebibyte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redial_core::identity::{Attempt, DeliveryId, DeliveryKey, Lineage, Tenant, Turn};
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use serde_json::{Value, json};

use super::*;
use crate::stub_dynamo::{Answer, StubDynamo, error};

const MOST_ITEM_BYTES: usize = 400 * 1024;
const MOST_PAGE_BYTES: usize = 1024 * 1024;

/// A table's items by partition key and sort key.
#[derive(Clone, Default)]
struct Table {
    items: Arc<Mutex<BTreeMap<(String, String), Value>>>,
    /// Sort keys with this in them are never written.
    throttled: Arc<Mutex<Option<&'static str>>>,
}

fn name(item: &Value) -> (String, String) {
    let text = |name: &str| item[name]["S"].as_str().expect("a key").to_owned();
    (text("pk"), text("sk"))
}

/// An item's size as DynamoDB counts it: names and values, binary ones as they are.
fn size(item: &Value) -> usize {
    let of = |(name, value): (&String, &Value)| {
        let (kind, value) = value.as_object().and_then(|value| value.iter().next()).expect("a value");
        let text = value.as_str().expect("a text").len();
        name.len() + if kind == "B" { text / 4 * 3 } else { text }
    };
    item.as_object().expect("an item").iter().map(of).sum()
}

impl Table {
    fn items(&self) -> MutexGuard<'_, BTreeMap<(String, String), Value>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throttle(&self, sort: Option<&'static str>) {
        *self.throttled.lock().unwrap_or_else(PoisonError::into_inner) = sort;
    }

    fn write(&self, call: &Value) -> Answer {
        let requests = call["RequestItems"]["parked"].as_array().expect("requests");
        if requests.iter().any(|it| {
            it["PutRequest"]["Item"].is_object() && size(&it["PutRequest"]["Item"]) > MOST_ITEM_BYTES
        }) {
            return Err(error("ValidationException"));
        }
        let throttled = *self.throttled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::new();
        for request in requests {
            let (put, delete) = (&request["PutRequest"]["Item"], &request["DeleteRequest"]["Key"]);
            let key = name(if put.is_object() { put } else { delete });
            if throttled.is_some_and(|sort| key.1.contains(sort)) {
                left.push(request);
            } else if put.is_object() {
                self.items().insert(key, put.clone());
            } else {
                self.items().remove(&key);
            }
        }
        Ok(json!({"UnprocessedItems": if left.is_empty() { json!({}) } else { json!({"parked": left}) }}))
    }

    fn query(&self, call: &Value) -> Answer {
        let shard = call["ExpressionAttributeValues"][":pk"]["S"].as_str().expect("a partition").to_owned();
        let after = &call["ExclusiveStartKey"];
        let after = if after.is_object() { name(after) } else { (shard.clone(), String::new()) };
        let limit = call["Limit"].as_u64().map_or(usize::MAX, |limit| usize::try_from(limit).expect("fits"));
        let (mut page, mut bytes, mut last) = (Vec::new(), 0, None);
        for (key, item) in self.items().iter().filter(|(key, _)| key.0 == shard && **key > after) {
            page.push(item.clone());
            bytes += size(item);
            if page.len() >= limit || bytes > MOST_PAGE_BYTES {
                last = Some(json!({"pk": {"S": key.0}, "sk": {"S": key.1}}));
                break;
            }
        }
        Ok(match last {
            Some(last) => json!({"Items": page, "LastEvaluatedKey": last}),
            None => json!({"Items": page}),
        })
    }

    fn parking(&self) -> DynamoParking {
        let table = self.clone();
        let stub = StubDynamo::new(move |operation, call| match operation {
            "BatchWriteItem" => table.write(call),
            "Query" => table.query(call),
            other => panic!("{other} is not among the rights on this table"),
        });
        DynamoParking::new(stub.client(), "parked".to_owned())
    }

    /// Lets a quarter of an hour pass for the parts that are stored.
    fn age(&self) {
        for item in self.items().values_mut() {
            if let Some(at) = item.get("put_at").and_then(|at| at["N"].as_str()?.parse::<i64>().ok()) {
                item["put_at"] = json!({"N": (at - 901_000).to_string()});
            }
        }
    }
}

fn shard() -> Shard {
    let now = Timestamp::from_secs(1_800_000_000);
    let begin = now.plus(std::time::Duration::from_secs(3_600));
    let bucket = WaitBucket::of(Lane::Transactional, begin, 60, now).expect("ahead of now");
    bucket.shards(1).next().expect("a shard")
}

fn item(tenant: &str, id: &str, body: String) -> ParkedItem {
    let tenant = Tenant::parse(tenant).expect("valid");
    let delivery = DeliveryKey { tenant: tenant.clone(), id: DeliveryId::parse(id).expect("valid") };
    let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
    let key = ParkedKey::new(shard(), &delivery, turn, None);
    ParkedItem { key, tenant, not_before: Timestamp::from_secs(1_800_003_600), body }
}

/// As Python's `json.dumps` writes Japanese text: six bytes where there were three.
fn escaped(bytes: usize) -> String {
    format!("{{\"payload\":\"{}\"}}", "\\u3042".repeat(bytes / 6))
}

/// Releases the shard: all that it holds, page by page, each deleted after it was read.
async fn drained(parking: &DynamoParking, limit: u16) -> Vec<(String, String)> {
    let mut found = Vec::new();
    loop {
        let page = parking.page(shard(), limit).await.expect("readable");
        if page.is_empty() {
            return found;
        }
        let keys = page.iter().map(|item| item.key.clone()).collect();
        found.extend(page.into_iter().map(|item| (item.tenant.to_string(), item.body)));
        parking.delete(keys).await.expect("deleted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_over_400_kb_is_parked_and_released_whole() {
    for bytes in [379_999, 380_001, 1_048_576] {
        let (table, body) = (Table::default(), escaped(bytes));
        let parking = table.parking();
        assert_eq!(parking.put(vec![item("acme", "long", body.clone())]).await, [Ok(())], "{bytes}");
        assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), body)], "{bytes}");
        assert!(table.items().is_empty(), "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_bodies_and_short_ones_share_a_shard() {
    for limit in [1, 100] {
        let table = Table::default();
        let parking = table.parking();
        let body = |n: usize| {
            if n.is_multiple_of(4) { escaped(300_000 + n * 90_000) } else { format!("{{\"n\":{n}}}") }
        };
        let items: Vec<ParkedItem> =
            (0..12).map(|n| item(["acme", "bolt"][n % 2], &format!("d{n}"), body(n))).collect();
        let mut expected: Vec<_> =
            items.iter().map(|item| (item.tenant.to_string(), item.body.clone())).collect();
        assert_eq!(parking.put(items).await, vec![Ok(()); 12]);
        let mut found = drained(&parking, limit).await;
        found.sort();
        expected.sort();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        assert!(table.items().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_body_that_is_put_again_is_found_once() {
    let table = Table::default();
    let parking = table.parking();
    for letter in ["a", "b"] {
        let body = letter.repeat(700_000);
        assert_eq!(parking.put(vec![item("acme", "long", body)]).await, [Ok(())]);
    }
    assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), "b".repeat(700_000))]);
    // The parts of the first are nobody's now.
    assert!(!table.items().is_empty());
    table.age();
    assert_eq!(drained(&parking, 100).await, []);
    assert!(table.items().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_parts_are_not_all_stored_is_not_parked() {
    let table = Table::default();
    let parking = table.parking();
    let items = vec![item("acme", "long", escaped(900_000)), item("bolt", "d1", "{}".to_owned())];
    table.throttle(Some(".002"));
    let put = parking.put(items.clone()).await;
    assert!(put[0].as_ref().expect_err("a part is missing").throttled);
    assert_eq!(put[1], Ok(()));
    assert_eq!(drained(&parking, 100).await, [("bolt".to_owned(), "{}".to_owned())]);
    assert!(!table.items().is_empty(), "another worker may be about to store the rest");

    table.throttle(None);
    assert_eq!(parking.put(items[..1].to_vec()).await, [Ok(())]);
    table.age();
    assert_eq!(drained(&parking, 1).await, [("acme".to_owned(), items[0].body.clone())]);
    assert!(table.items().is_empty(), "what a dead worker left is removed");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_deleted_keeps_its_parts() {
    let table = Table::default();
    let parking = table.parking();
    let items = ["a", "b"].map(|id| item("acme", id, escaped(500_000)));
    assert_eq!(parking.put(items.to_vec()).await, vec![Ok(()); 2]);
    let page = parking.page(shard(), 100).await.expect("readable");
    table.throttle(Some("acme#a#0#1"));
    let deleted = parking.delete(page.into_iter().map(|item| item.key).collect()).await;
    assert!(deleted.expect_err("one of the two").throttled);
    table.throttle(None);
    assert_eq!(table.items().len(), 2, "the other is deleted whole");
    assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), items[0].body.clone())]);
}

#[tokio::test(start_paused = true)]
async fn a_long_body_is_no_item_to_an_earlier_release() {
    let table = Table::default();
    table.parking().put(vec![item("acme", "long", escaped(500_000))]).await.remove(0).expect("parked");
    for item in table.items().values() {
        assert!(item.get("body").is_none(), "it would release a part for the whole");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_part_is_never_passed_over() {
    let table = Table::default();
    let parking = table.parking();
    parking.put(vec![item("acme", "long", escaped(900_000))]).await.remove(0).expect("parked");
    table.items().retain(|(_, sort), _| !sort.ends_with(".002"));
    let error = parking.page(shard(), 100).await.expect_err("it cannot be read");
    assert_eq!(error.code, "UnreadableParkedItem");
}
