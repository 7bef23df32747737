//! Batches of reads and of writes that DynamoDB carries out in part, or refuses for one item of them.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::attributes::{Item, Read as _, item, s};
use super::{Patience, Table};
use crate::stub_dynamo::{StubDynamo, error, now};

fn items(names: &[&str]) -> Vec<Item> {
    names.iter().map(|name| item([("pk", s(*name))])).collect()
}

fn table(stub: &StubDynamo) -> Table {
    Table::new(stub.client(), "table".to_owned())
}

/// The keys or the requests of a call.
fn parts(call: &Value) -> &Vec<Value> {
    let of = &call["RequestItems"]["table"];
    of.as_array().or_else(|| of["Keys"].as_array()).expect("a list")
}

/// Leaves `b` unprocessed the first `times` times.
fn leaving(mut times: usize) -> StubDynamo {
    StubDynamo::new(move |operation, call| {
        let is_left = |part: &&Value| times > 0 && part.to_string().contains(r#"{"S":"b"}"#);
        let (left, done): (Vec<_>, Vec<_>) = parts(call).iter().partition(is_left);
        times = times.saturating_sub(1);
        let rest = match operation {
            _ if left.is_empty() => json!({}),
            "BatchGetItem" => json!({"table": {"Keys": left}}),
            _ => json!({"table": left}),
        };
        Ok(json!({"Responses": {"table": done}, "UnprocessedKeys": &rest, "UnprocessedItems": &rest}))
    })
}

fn sizes(stub: &StubDynamo, operation: &str) -> Vec<usize> {
    stub.calls(operation).iter().map(|call| parts(call).len()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_left_out_is_read_or_written_again_with_pauses() {
    let (stub, began) = (leaving(6), now());
    let found = table(&stub).get_each(items(&["c", "b", "a", "b"]), Patience::brief()).await;
    let found: Vec<_> = found.into_iter().map(|it| it.expect("read").expect("there")).collect();
    let names: Vec<_> = found.iter().map(|item| item.text("pk").expect("a key")).collect();
    assert_eq!(names, ["c", "b", "a", "b"], "in the order of the keys");
    assert_eq!(sizes(&stub, "BatchGetItem"), [3, 1, 1, 1, 1, 1, 1]);
    assert!(now() > began);

    let (stub, began) = (leaving(6), now());
    assert_eq!(table(&stub).put_all(items(&["a", "b", "c"])).await, vec![Ok(()); 3]);
    assert_eq!(sizes(&stub, "BatchWriteItem"), [3, 1, 1, 1, 1, 1, 1]);
    assert!(now() > began);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_never_read_fails_alone_as_throttled() {
    let read = table(&leaving(usize::MAX)).get_each(items(&["a", "b", "c"]), Patience::brief()).await;
    assert_eq!(
        (read[0].as_ref().map(Option::is_some), read[2].as_ref().map(Option::is_some)),
        (Ok(true), Ok(true))
    );
    assert!(read[1].as_ref().expect_err("never read").throttled);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_never_written_fails_alone_as_throttled() {
    let put = table(&leaving(usize::MAX)).put_all(items(&["a", "b", "c"])).await;
    assert_eq!((&put[0], &put[2]), (&Ok(()), &Ok(())));
    assert!(put[1].as_ref().expect_err("never written").throttled);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_item_fails_alone_and_the_rest_of_its_chunk_is_written() {
    let stub = StubDynamo::new(|_, call| {
        let is_too_long = |part: &Value| part.to_string().len() > 400 * 1024;
        if parts(call).iter().any(is_too_long) { Err(error("ValidationException")) } else { Ok(json!({})) }
    });
    let mut items: Vec<Item> = (0..25).map(|n| item([("pk", s(format!("item-{n}")))])).collect();
    items[7].insert("body".to_owned(), AttributeValue::S("x".repeat(500_000)));
    let put = table(&stub).put_all(items).await;
    let failed: Vec<usize> = (0..25).filter(|at| put[*at].is_err()).collect();
    assert_eq!(failed, [7]);
    let error = put[7].as_ref().expect_err("too long");
    assert_eq!((error.code.as_str(), error.throttled), ("ValidationException", false));
}
