//! The adapter against a table behind HTTP, through the SDK, as it runs.

use std::io;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use serde_json::{Value, json};

use super::*;
use crate::receiver::{Receiver, dynamodb_at};
use crate::vapid::key::tests::scalar;

/// A table of one row, and the bodies of the calls to it.
#[derive(Default)]
struct Table {
    row: Option<Value>,
    calls: Vec<String>,
}

impl Table {
    fn answer(&mut self, operation: &str, body: &Value) -> Value {
        self.calls.push(body.to_string());
        assert_eq!(body["Key"], json!({"pk": {"S": "vapid"}, "sk": {"S": "public"}}));
        match operation {
            "DynamoDB_20120810.UpdateItem" => {
                let values = &body["ExpressionAttributeValues"];
                self.row = Some(json!({"current": values[":current"], "keys": values[":keys"]}));
                json!({})
            }
            "DynamoDB_20120810.GetItem" => self.row.as_ref().map_or(json!({}), |row| json!({"Item": row})),
            other => panic!("{other} is not used here"),
        }
    }
}

async fn published_in(table: &Arc<Mutex<Table>>) -> (DynamoPublicKeys, Receiver) {
    let answering = table.clone();
    let receiver = Receiver::plain_http(move |request| {
        let operation = request.headers()["x-amz-target"].to_str().expect("text").to_owned();
        let body: Value = serde_json::from_slice(request.body()).expect("JSON");
        let answer = answering.lock().expect("no panic").answer(&operation, &body);
        async move { io::Result::Ok(http::Response::new(Full::from(answer.to_string()))) }
    })
    .await;
    (DynamoPublicKeys::new(dynamodb_at(receiver.port), "control".to_owned()), receiver)
}

#[tokio::test]
async fn published_keys_are_public_halves_and_are_read_back_in_order() {
    let table = Arc::default();
    let (public, _receiver) = published_in(&table).await;
    assert_eq!(public.published().await, Ok(None));
    let absent = public.load().await.expect_err("nothing is published");
    assert_eq!((absent.operation, absent.code.as_str()), ("GetItem", "VapidKeysNotPublished"));

    let set =
        format!(r#"{{"default":"a","current":"b","keys":{{"b":"{}","a":"{}"}}}}"#, scalar(2), scalar(1));
    let keys = VapidKeys::parse(&set).expect("a set");
    assert_eq!(public.publish(&keys).await, Ok(()));
    let expected: Vec<PublicKey> = keys
        .published()
        .map(|key| PublicKey {
            id: key.id.clone(),
            public_base64url: key.public_base64url.to_owned(),
            is_current: key.is_current,
        })
        .collect();
    assert_eq!(public.load().await, Ok(expected));
    let sent = table.lock().expect("no panic").calls.concat();
    assert!(!sent.contains(&scalar(1)) && !sent.contains(&scalar(2)), "a private key was written");
}

#[tokio::test]
async fn a_retired_key_is_no_longer_published() {
    let table = Arc::default();
    let (public, _receiver) = published_in(&table).await;
    let set =
        format!(r#"{{"default":"a","current":"b","keys":{{"b":"{}","a":"{}"}}}}"#, scalar(2), scalar(1));
    for text in [set, format!(r#"{{"default":"b","keys":{{"b":"{}"}}}}"#, scalar(2))] {
        public.publish(&VapidKeys::parse(&text).expect("keys")).await.expect("published");
    }
    let ids: Vec<_> = public.load().await.expect("published").into_iter().map(|key| key.id).collect();
    assert_eq!(ids, [VapidKeyId::parse("b").expect("an id")]);
}
