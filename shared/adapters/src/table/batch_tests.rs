//! Batches of reads and of writes that DynamoDB carries out in part, or refuses for one item of them.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_engine::ports::PortError;
use serde_json::{Value, json};

use super::Table;
use super::attributes::{Item, s};
use crate::stub_dynamo::{StubDynamo, error, now};

fn item(name: &str) -> Item {
    super::attributes::item([("pk", s(name))])
}

fn table(stub: &StubDynamo) -> Table {
    Table::new(stub.client(), "table".to_owned())
}

fn names(list: &Value, of: impl Fn(&Value) -> &Value) -> Vec<String> {
    let all = list.as_array().expect("a list");
    all.iter().map(|it| of(it)["pk"]["S"].as_str().expect("a key").to_owned()).collect()
}

/// Leaves `b` unprocessed the first `times` times.
fn reading(mut times: usize) -> StubDynamo {
    StubDynamo::new(move |_, call| {
        let keys = &call["RequestItems"]["table"]["Keys"];
        let left_out = times > 0;
        times = times.saturating_sub(1);
        let is_left = |key: &&Value| left_out && key["pk"]["S"] == "b";
        let (left, read): (Vec<_>, Vec<_>) = keys.as_array().expect("keys").iter().partition(is_left);
        let rest = if left.is_empty() { json!({}) } else { json!({"table": {"Keys": left}}) };
        Ok(json!({"Responses": {"table": read}, "UnprocessedKeys": rest}))
    })
}

/// Leaves `b` unprocessed the first `times` times.
fn writing(mut times: usize) -> StubDynamo {
    StubDynamo::new(move |_, call| {
        let left_out = times > 0;
        times = times.saturating_sub(1);
        let requests = call["RequestItems"]["table"].as_array().expect("requests").iter();
        let left: Vec<&Value> =
            requests.filter(|it| left_out && it["PutRequest"]["Item"]["pk"]["S"] == "b").collect();
        Ok(json!({"UnprocessedItems": if left.is_empty() { json!({}) } else { json!({"table": left}) }}))
    })
}

async fn put(stub: &StubDynamo, items: &[&str]) -> Vec<Result<(), PortError>> {
    let items = items.iter().map(|name| item(name)).collect();
    table(stub).put_all(items).await
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_left_out_are_read_again_with_pauses() {
    let (stub, began) = (reading(6), now());
    let keys = ["a", "b", "c"].map(item).to_vec();
    let found = table(&stub).get_all(keys).await.expect("all of them");
    let mut found: Vec<String> = found.iter().filter_map(|item| item["pk"].as_s().ok().cloned()).collect();
    found.sort();
    assert_eq!(found, ["a", "b", "c"]);
    let asked: Vec<_> = stub
        .calls("BatchGetItem")
        .iter()
        .map(|call| names(&call["RequestItems"]["table"]["Keys"], |it| it).len())
        .collect();
    assert_eq!(asked, [3, 1, 1, 1, 1, 1, 1]);
    assert!(now() > began);
}

#[tokio::test(start_paused = true)]
async fn items_that_were_left_out_are_written_again_with_pauses() {
    let (stub, began) = (writing(6), now());
    assert_eq!(put(&stub, &["a", "b", "c"]).await, vec![Ok(()); 3]);
    let put = |call: &Value| names(&call["RequestItems"]["table"], |it| &it["PutRequest"]["Item"]);
    let written: Vec<_> = stub.calls("BatchWriteItem").iter().map(put).map(|names| names.len()).collect();
    assert_eq!(written, [3, 1, 1, 1, 1, 1, 1]);
    assert!(now() > began);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_never_written_fails_alone_as_throttled() {
    let stub = writing(usize::MAX);
    let put = put(&stub, &["a", "b", "c"]).await;
    assert_eq!((&put[0], &put[2]), (&Ok(()), &Ok(())));
    assert!(put[1].as_ref().expect_err("never written").throttled);
}

/// Refuses every call with an item of more than 400 KB, as DynamoDB does.
fn strict() -> StubDynamo {
    StubDynamo::new(|_, call| {
        let requests = call["RequestItems"]["table"].as_array().expect("requests").iter();
        let is_too_long = |it: &Value| it.to_string().len() > 400 * 1024;
        if requests.into_iter().any(is_too_long) { Err(error("ValidationException")) } else { Ok(json!({})) }
    })
}

#[tokio::test(start_paused = true)]
async fn an_invalid_item_fails_alone_and_the_rest_of_its_chunk_is_written() {
    let stub = strict();
    let mut items: Vec<Item> = (0..25).map(|n| item(&format!("item-{n}"))).collect();
    items[7].insert("body".to_owned(), AttributeValue::S("x".repeat(500_000)));
    let put = table(&stub).put_all(items).await;
    let failed: Vec<usize> = (0..25).filter(|at| put[*at].is_err()).collect();
    assert_eq!(failed, [7]);
    let error = put[7].as_ref().expect_err("too long");
    assert_eq!((error.code.as_str(), error.throttled), ("ValidationException", false));
}
