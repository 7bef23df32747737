//! The `control` table as far as keys use it: it reads no expression but those that it knows, and counts its calls.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Map, Value, json};

/// An item as DynamoDB writes it in JSON.
pub(super) type Attributes = Map<String, Value>;

/// The table, and what it was asked.
#[derive(Default)]
pub(super) struct Table {
    pub(super) items: BTreeMap<(String, String), Attributes>,
    /// Each call's operation, with the partition keys that it named.
    pub(super) calls: Vec<String>,
    pub(super) refusing: bool,
    /// How long it takes to answer.
    pub(super) slow: Duration,
}

type Refusal = (&'static str, Value);

impl Table {
    pub(super) fn answer(&mut self, request: &http::Request<Bytes>) -> http::Response<Full<Bytes>> {
        let target = request.headers()["x-amz-target"].to_str().expect("text");
        let operation = target.strip_prefix("DynamoDB_20120810.").expect("its version").to_owned();
        let body: Value = serde_json::from_slice(request.body()).expect("JSON");
        match self.carry_out(&operation, &body) {
            Ok(answer) => http::Response::new(Full::from(answer.to_string())),
            Err((code, mut refusal)) => {
                refusal["__type"] = format!("com.amazonaws.dynamodb.v20120810#{code}").into();
                let mut response = http::Response::new(Full::from(refusal.to_string()));
                *response.status_mut() = http::StatusCode::BAD_REQUEST;
                response
            }
        }
    }

    fn carry_out(&mut self, operation: &str, body: &Value) -> Result<Value, Refusal> {
        let keys: Vec<(String, String)> = match operation {
            "BatchGetItem" => {
                let wanted = &body["RequestItems"]["control"];
                assert_eq!(wanted["ConsistentRead"], json!(true));
                wanted["Keys"].as_array().expect("keys").iter().map(key).collect()
            }
            "Query" => {
                assert_eq!(body["KeyConditionExpression"], "pk = :pk");
                vec![(text(&body["ExpressionAttributeValues"][":pk"]), String::new())]
            }
            "TransactWriteItems" => {
                let puts = body["TransactItems"].as_array().expect("items");
                puts.iter().map(|put| key(&put["Put"]["Item"])).collect()
            }
            _ => vec![key(&body["Key"])],
        };
        let named: Vec<&str> = keys.iter().map(|(pk, _)| pk.as_str()).collect();
        self.calls.push(format!("{operation} {}", named.join(" ")));
        if self.refusing {
            return Err(("AccessDeniedException", json!({})));
        }
        match operation {
            "GetItem" => {
                assert_eq!((&body["TableName"], &body["ConsistentRead"]), (&json!("control"), &json!(true)));
                Ok(self.items.get(&keys[0]).map_or(json!({}), |item| json!({"Item": item})))
            }
            "BatchGetItem" => {
                // Answers are in no order.
                let found: Vec<_> = keys.iter().rev().filter_map(|key| self.items.get(key)).collect();
                Ok(json!({"Responses": {"control": found}, "UnprocessedKeys": {}}))
            }
            "Query" => {
                let of_partition = self.items.iter().filter(|((pk, _), _)| *pk == keys[0].0);
                Ok(json!({"Items": of_partition.map(|(_, item)| item).collect::<Vec<_>>()}))
            }
            "TransactWriteItems" => self.write_all(&keys, body),
            "UpdateItem" => self.revoke(&keys[0], body),
            other => panic!("{other} is not used here"),
        }
    }

    fn write_all(&mut self, keys: &[(String, String)], body: &Value) -> Result<Value, Refusal> {
        let puts: Vec<&Value> =
            body["TransactItems"].as_array().expect("items").iter().map(|it| &it["Put"]).collect();
        let holds = |(put, key): (&&Value, &(String, String))| {
            let there = self.items.get(key);
            match put["ConditionExpression"].as_str() {
                None => true,
                Some("attribute_not_exists(pk)") => there.is_none(),
                Some("#id = :before") => {
                    assert_eq!(put["ExpressionAttributeNames"], json!({"#id": "id"}));
                    there.is_some_and(|it| it["id"] == put["ExpressionAttributeValues"][":before"])
                }
                Some(other) => panic!("{other} is not used here"),
            }
        };
        let all: Vec<bool> = puts.iter().zip(keys).map(holds).collect();
        if all.contains(&false) {
            let code = |held: &bool| json!({"Code": if *held { "None" } else { "ConditionalCheckFailed" }});
            let reasons: Vec<Value> = all.iter().map(code).collect();
            return Err(("TransactionCanceledException", json!({"CancellationReasons": reasons})));
        }
        for (put, key) in puts.iter().zip(keys) {
            assert_eq!(put["TableName"], "control");
            self.items.insert(key.clone(), put["Item"].as_object().expect("an item").clone());
        }
        Ok(json!({}))
    }

    fn revoke(&mut self, key: &(String, String), body: &Value) -> Result<Value, Refusal> {
        assert_eq!(body["UpdateExpression"], "SET #at = :at");
        assert_eq!(body["ConditionExpression"], "attribute_exists(#id) AND attribute_not_exists(#at)");
        assert_eq!(body["ExpressionAttributeNames"], json!({"#at": "revoked_at", "#id": "id"}));
        match self
            .items
            .get_mut(key)
            .filter(|item| item.contains_key("id") && !item.contains_key("revoked_at"))
        {
            Some(item) => {
                item.insert("revoked_at".to_owned(), body["ExpressionAttributeValues"][":at"].clone());
                Ok(json!({}))
            }
            None => Err(("ConditionalCheckFailedException", json!({}))),
        }
    }
}

fn text(value: &Value) -> String {
    value["S"].as_str().expect("a text").to_owned()
}

fn key(value: &Value) -> (String, String) {
    (text(&value["pk"]), text(&value["sk"]))
}
