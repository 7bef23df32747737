//! Parking on a fake table: items of at most 400 KB, calls that one invalid item fails, pages of a mebibyte.

use redial_core::identity::{Attempt, DeliveryId, DeliveryKey, Turn};
use redial_core::lane::Lane;
use redial_core::wait::{Shard, WaitBucket};
use serde_json::json;

use super::*;
use crate::fake_table::FakeTable;
use crate::fixtures;

fn new() -> (FakeTable, DynamoParking) {
    let table = FakeTable::default();
    let parking = DynamoParking::new(table.client(), "parked".to_owned());
    (table, parking)
}

fn is_empty(table: &FakeTable) -> bool {
    table.state().items.is_empty()
}

/// Lets a quarter of an hour pass for the stored parts.
fn age(table: &FakeTable) {
    for item in table.state().items.values_mut() {
        if let Some(at) = item.get("put_at").and_then(|at| at["N"].as_str()?.parse::<i64>().ok()) {
            item["put_at"] = json!({"N": (at - 901_000).to_string()});
        }
    }
}

fn shard() -> Shard {
    let now = Timestamp::from_secs(1_800_000_000);
    let begin = now.plus(Duration::from_secs(3_600));
    let bucket = WaitBucket::of(Lane::Transactional, begin, 60, now).expect("ahead of now");
    bucket.shards(1).next().expect("a shard")
}

fn item(tenant: &str, id: &str, body: String) -> ParkedItem {
    let tenant = fixtures::tenant(tenant);
    let delivery = DeliveryKey { tenant: tenant.clone(), id: DeliveryId::parse(id).expect("valid") };
    let turn = Turn { attempt: Attempt(1), ..Turn::default() };
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
        let page = parking.page(shard().into(), limit).await.expect("readable");
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
    for bytes in [100_000, 379_999, 380_001, 1_048_576] {
        let ((table, parking), body) = (new(), escaped(bytes));
        assert_eq!(parking.put(vec![item("acme", "long", body.clone())]).await, [Ok(())], "{bytes}");
        // An earlier release, which reads `body`, would release a part for the whole.
        let has_body = table.state().items.values().any(|item| item.contains_key("body"));
        assert_eq!(has_body, body.len() <= WHOLE_BYTES, "{bytes}");
        assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), body)], "{bytes}");
        assert!(is_empty(&table), "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_bodies_and_short_ones_share_a_shard() {
    for limit in [1, 100] {
        let (table, parking) = new();
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
        assert!(is_empty(&table));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_body_that_is_put_again_is_found_once() {
    let (table, parking) = new();
    for letter in ["a", "b"] {
        let body = letter.repeat(700_000);
        assert_eq!(parking.put(vec![item("acme", "long", body)]).await, [Ok(())]);
    }
    assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), "b".repeat(700_000))]);
    // The parts of the first put are left over.
    assert!(!is_empty(&table));
    age(&table);
    assert_eq!(drained(&parking, 100).await, []);
    assert!(is_empty(&table));
}

#[tokio::test(start_paused = true)]
async fn a_body_with_an_unstored_part_is_not_parked() {
    let (table, parking) = new();
    let items = vec![item("acme", "long", escaped(900_000)), item("bolt", "d1", "{}".to_owned())];
    table.state().throttled = Some(".002");
    let put = parking.put(items.clone()).await;
    assert!(put[0].as_ref().expect_err("a part is missing").throttled);
    assert_eq!(put[1], Ok(()));
    assert_eq!(drained(&parking, 100).await, [("bolt".to_owned(), "{}".to_owned())]);
    assert!(!is_empty(&table), "another worker may be about to store the rest");

    table.state().throttled = None;
    assert_eq!(parking.put(items[..1].to_vec()).await, [Ok(())]);
    age(&table);
    assert_eq!(drained(&parking, 1).await, [("acme".to_owned(), items[0].body.clone())]);
    assert!(is_empty(&table), "the parts that a dead worker left are removed");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_deleted_keeps_its_parts() {
    let (table, parking) = new();
    let items = ["a", "b"].map(|id| item("acme", id, escaped(500_000)));
    assert_eq!(parking.put(items.to_vec()).await, vec![Ok(()); 2]);
    let page = parking.page(shard().into(), 100).await.expect("readable");
    table.state().throttled = Some("acme#a#0#1");
    let deleted = parking.delete(page.into_iter().map(|item| item.key).collect()).await;
    assert!(deleted.expect_err("one of the two").throttled);
    table.state().throttled = None;
    assert_eq!(table.state().items.len(), 2, "the other is deleted whole");
    assert_eq!(drained(&parking, 100).await, [("acme".to_owned(), items[0].body.clone())]);
}

/// Another release of the program may have written it, or a part of it is gone.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_stays_and_keeps_nothing_else() {
    let breaks: [fn(&mut FakeTable); 2] = [
        |table| table.state().items.retain(|(_, sort), _| !sort.ends_with(".002")),
        |table| {
            let mut state = table.state();
            let first = state.items.values_mut().find(|item| item.contains_key("first_part")).expect("put");
            first.remove("not_before");
        },
    ];
    for break_it in breaks {
        let (mut table, parking) = new();
        let long = item("acme", "long", escaped(1_000_000));
        let others = ["a", "z"].map(|id| item("acme", id, format!("{{\"id\":\"{id}\"}}")));
        let bodies = others.clone().map(|item| ("acme".to_owned(), item.body));
        assert_eq!(parking.put([&[long], &others[..]].concat()).await, vec![Ok(()); 3]);
        break_it(&mut table);
        age(&table);
        let left = table.state().items.len() - 2;
        let page = parking.page(shard().into(), 1).await.expect("the others can be read");
        assert_eq!(page[0].body, others[0].body);
        let page = parking.page(shard().into(), 100).await.expect("the others can be read");
        assert_eq!(
            page.iter().map(|item| ("acme".to_owned(), item.body.clone())).collect::<Vec<_>>(),
            bodies
        );
        parking.delete(page.into_iter().map(|item| item.key).collect()).await.expect("deleted");
        let error = parking.page(shard().into(), 100).await.expect_err("it would never be released");
        assert_eq!(error.code, "UnreadableParkedItem");
        assert_eq!(table.state().items.len(), left, "nothing of it is removed");
        assert_eq!(parking.holds_any(shard().into()).await, Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn parts_without_a_message_are_no_message_and_keep_their_shard_from_being_forgotten() {
    let (table, parking) = new();
    assert_eq!(parking.holds_any(shard().into()).await, Ok(false));
    parking.put(vec![item("acme", "long", escaped(900_000))]).await.remove(0).expect("parked");
    // Its worker died before the first part was put.
    table.state().items.retain(|(_, sort), _| sort.contains('!'));
    assert_eq!(drained(&parking, 100).await, []);
    assert_eq!(parking.holds_any(shard().into()).await, Ok(true));
    age(&table);
    assert_eq!(drained(&parking, 100).await, []);
    assert_eq!(parking.holds_any(shard().into()).await, Ok(false));
}
