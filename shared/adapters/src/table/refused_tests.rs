//! What DynamoDB refuses and the embedded emulator accepts. One invalid write fails alone, and what is refused is not sent that way again.
//!
//! Beside a DynamoDB Local, each refusal is compared with its own.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use redial_core::endpoint::Endpoint;
use redial_core::time::Timestamp;
use redial_engine::ports::{SubscriptionUpdate, Subscriptions as _};

use super::attributes::{Item, item, s};
use super::{Change, Patience, Statement, Table};
use crate::control_dynamo::DynamoControl;
use crate::fixtures::subscription;
use crate::real_table::RealTables;
use crate::stub_dynamo::{Answer, StubDynamo, error};
use crate::subscriptions_dynamo::DynamoSubscriptions;

const TABLE: &str = "table";

/// Answers as DynamoDB does, and compares its refusals with DynamoDB Local's.
fn strict() -> (StubDynamo, Table) {
    let real = RealTables::find();
    let stub = StubDynamo::new(move |operation, call| {
        let answer = answer(operation, call);
        if let (Some(real), Err(refusal)) = (&real, &answer) {
            real.refuses(operation, call, refusal);
        }
        answer
    });
    let table = Table::new(stub.client(), TABLE.to_owned());
    (stub, table)
}

fn is_too_long(write: &Value) -> bool {
    write.to_string().len() > 400 * 1024
}

fn answer(operation: &str, call: &Value) -> Answer {
    let of = if operation == "BatchWriteItem" { &call["RequestItems"][TABLE] } else { &call["Statements"] };
    let writes = of.as_array().expect("writes");
    let key = |write: &Value| match operation {
        "BatchWriteItem" => write["PutRequest"]["Item"]["pk"].to_string(),
        _ => write["Parameters"][0].to_string(),
    };
    let keys: BTreeSet<String> = writes.iter().map(key).collect();
    let is_batch = operation == "BatchWriteItem";
    if writes.len() > 25 || keys.len() < writes.len() || is_batch && writes.iter().any(is_too_long) {
        return Err(error("ValidationException"));
    }
    let ended =
        |write| if is_too_long(write) { json!({"Error": {"Code": "ValidationError"}}) } else { json!({}) };
    let answer = writes.iter().map(ended).collect::<Vec<_>>();
    Ok(if is_batch { json!({}) } else { json!({"Responses": answer}) })
}

/// An item, and the statement that inserts it.
fn write(pk: &str, length: usize) -> (Item, Statement) {
    let body = AttributeValue::S("x".repeat(length));
    let statement = Statement::insert(TABLE, vec![("pk", s(pk)), ("body", body.clone())]);
    (item([("pk", s(pk)), ("body", body)]), statement)
}

/// The writes' positions that failed, as batches of items and as statements, and how many calls each took.
async fn failed(writes: Vec<(Item, Statement)>) -> [(Vec<usize>, usize); 2] {
    let (stub, table) = strict();
    let (items, statements): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
    let positions =
        |results: Vec<bool>| results.iter().enumerate().filter(|(_, ok)| !**ok).map(|(at, _)| at).collect();
    let put = table.put_all(items).await.iter().map(Result::is_ok).collect();
    let executed = table
        .execute(statements.len(), &|at| statements[at].clone(), Patience::brief())
        .await
        .iter()
        .map(Result::is_ok)
        .collect();
    [
        (positions(put), stub.calls("BatchWriteItem").len()),
        (positions(executed), stub.calls("BatchExecuteStatement").len()),
    ]
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_item_in_a_call_are_made_one_by_one() {
    let writes = ["a", "b", "a"].map(|pk| write(pk, 1)).to_vec();
    assert_eq!(failed(writes).await, [(vec![], 4), (vec![], 4)], "the call, and each by itself");
}

#[tokio::test(start_paused = true)]
async fn a_call_has_at_most_25_writes() {
    let writes = (0..60).map(|number| write(&number.to_string(), 1)).collect();
    assert_eq!(failed(writes).await, [(vec![], 3), (vec![], 3)]);
}

#[tokio::test(start_paused = true)]
async fn an_item_over_400_kb_fails_alone() {
    let writes = [("a", 1), ("b", 500_000), ("c", 1)].map(|(pk, length)| write(pk, length)).to_vec();
    assert_eq!(failed(writes).await, [(vec![1], 4), (vec![1], 1)], "statements end one by one");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_transaction_is_replaced() {
    let mut taken = true;
    let stub = StubDynamo::new(move |_, _| {
        if std::mem::take(&mut taken) {
            Err(error("IdempotentParameterMismatchException"))
        } else {
            Ok(json!({}))
        }
    });
    let table = Table::new(stub.client(), TABLE.to_owned());
    let put = |pk| table.write(Change::Put(item([("pk", s(pk))])), None, Item::new());
    assert_eq!(table.transact(&[put("a")]).await, Ok(true));
    let calls = stub.calls("TransactWriteItems");
    let tokens: BTreeSet<String> = calls.iter().map(|call| call["ClientRequestToken"].to_string()).collect();
    assert_eq!((calls.len(), tokens.len()), (2, 2), "each try has its own");

    if let Some(real) = RealTables::find() {
        let [first, mut other] = calls.try_into().expect("two tries");
        real.accepts("TransactWriteItems", &first, &json!({}));
        other["ClientRequestToken"] = first["ClientRequestToken"].clone();
        real.accepts("TransactWriteItems", &other, &json!({}));
        other["TransactItems"][0]["Put"]["Item"]["pk"] = json!({"S": "b"});
        real.refuses("TransactWriteItems", &other, &error("IdempotentParameterMismatchException"));
    }
}

#[tokio::test]
async fn an_index_key_is_removed_and_never_set_to_null() {
    let stub = StubDynamo::new(|_, _| Ok(json!({"Responses": [{}]})));
    let named = |name: &str| name.to_owned();
    let control = DynamoControl::new(stub.client(), named("control"));
    let (own, audiences) = (named("subscriptions"), named("audiences"));
    let subscriptions = DynamoSubscriptions::new(stub.client(), own, audiences, control, None);
    let update = SubscriptionUpdate {
        key: subscription("s1"),
        endpoint: Endpoint::parse("https://push.example/1").expect("an endpoint"),
        at: Timestamp::from_secs(1_800_000_000),
    };
    assert_eq!(subscriptions.recovered(vec![update]).await, [Ok(())]);
    let [call] = stub.calls("BatchExecuteStatement").try_into().expect("one call");
    let statement = call["Statements"][0]["Statement"].as_str().expect("a text");
    for key in ["failing_tenant", "failing_since"] {
        assert!(statement.contains(&format!("REMOVE \"{key}\"")), "{statement}");
    }

    if let Some(real) = RealTables::find() {
        let null = json!({"TableName": "subscriptions", "Item": {"pk": {"S": "a"}, "failing_tenant": {"NULL": true}}});
        real.refuses("PutItem", &null, &error("ValidationException"));
    }
}
