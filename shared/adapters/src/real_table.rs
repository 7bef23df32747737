//! Amazon's own DynamoDB Local beside the stand-ins of unit tests, where `REDIAL_DYNAMODB_ENDPOINT` names one.
//!
//! Each call that a test makes of a stand-in is made there, too. So what the adapters send is what DynamoDB takes, and the stand-in
//! answers as DynamoDB would. `infra/ci/dynamodb_local.py` starts one.
//!
//! The calls block: a socket of the runtime's would let paused time outrun an answer.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt as _;
use redial_engine::ports::Randomness as _;
use serde_json::{Value, json};

use crate::stub_dynamo::Answer;
use crate::system::System;

/// The tables that have a partition key alone.
const WITHOUT_SORT_KEY: [&str; 2] = ["deliveries", "subscriptions"];
/// The table of tests that are about no table of Redial's: it has the keys that its first call seems to have.
const ANY_TABLE: &str = "table";

/// What a table holds, by partition and sort key.
pub(crate) type Items = BTreeMap<(String, String), serde_json::Map<String, Value>>;

/// A database of its own: DynamoDB Local has one for each access key id.
#[derive(Clone, Debug)]
pub(crate) struct RealTables {
    /// `127.0.0.1:PORT`
    authority: String,
    key_id: String,
    /// By name, what each table that was made is known to hold.
    tables: Arc<Mutex<BTreeMap<String, Items>>>,
}

impl RealTables {
    pub(crate) fn find() -> Option<Self> {
        let endpoint = std::env::var("REDIAL_DYNAMODB_ENDPOINT").ok()?;
        let authority = endpoint.strip_prefix("http://").expect("an address such as http://127.0.0.1:8000");
        let key_id = format!("TEST{:016X}", System.rng().random::<u64>());
        Some(Self { authority: authority.to_owned(), key_id, tables: Arc::default() })
    }

    /// Makes a call, and returns its answer.
    pub(crate) fn call(&self, operation: &str, request: &Value) -> Answer {
        let body = request.to_string();
        let Self { authority, key_id, .. } = self;
        let head = format!(
            "POST / HTTP/1.0\r\nHost: {authority}\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\
             Content-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential={key_id}/20270101/local/dynamodb/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(authority).expect("DynamoDB Local listens");
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(body.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let is_ok = head.split(' ').nth(1) == Some("200");
        let body = serde_json::from_str(body).expect("JSON");
        if is_ok { Ok(body) } else { Err(body) }
    }

    /// The call has to be refused with this error.
    pub(crate) fn refuses(&self, operation: &str, request: &Value, expected: &Value) {
        self.make_for(request);
        let answer = self.call(operation, request);
        assert_eq!(outcome(&answer), outcome(&Err(expected.clone())), "{operation}: {answer:?}");
    }

    /// The call has to be one that DynamoDB takes, with statements that are invalid only where `expected` has such.
    pub(crate) fn accepts(&self, operation: &str, request: &Value, expected: &Value) {
        self.make_for(request);
        let (Ok(answer) | Err(answer)) = self.call(operation, request);
        let is_invalid = |answer: &Value| answer.to_string().contains("Validation");
        assert!(is_invalid(expected) || !is_invalid(&answer), "{operation} {request}: {answer}");
    }

    /// The call has to end here as it did in a stand-in that held `before` and holds `after`.
    pub(crate) fn agrees(
        &self,
        operation: &str,
        request: &Value,
        before: &Items,
        after: &Items,
        expected: &Answer,
    ) {
        self.make_for(request);
        let table = tables_of(request).swap_remove(0);
        self.bring_to(&table, before);
        let answer = self.call(operation, request);
        let shortened = |text: String| text.chars().take(2_000).collect::<String>();
        let context = shortened(format!("{operation} {request}"));
        let (found, mocked) = (outcome(&answer), outcome(expected));
        assert!(
            found == mocked,
            "{context}:\n{}\n{}",
            shortened(found.to_string()),
            shortened(mocked.to_string())
        );
        // A page over 1 MB may have a key to go on from although nothing follows. DynamoDB Local has none then.
        let last = |answer: &Answer| answer.as_ref().ok().map(|body| body["LastEvaluatedKey"].clone());
        assert!([Some(Value::Null), None, last(expected)].contains(&last(&answer)), "{context}");
        assert!(self.scan(&table) == *after, "{context}: the tables differ");
        self.lock().insert(table, after.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Items>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the tables that the call names.
    fn make_for(&self, request: &Value) {
        let text = request.to_string();
        let seems_to = text.contains("\"sk\"") || text.contains(r#"\"sk\""#);
        for table in tables_of(request) {
            let is_sorted = !WITHOUT_SORT_KEY.contains(&&*table);
            self.make(&table, if table == ANY_TABLE { seems_to } else { is_sorted });
        }
    }

    fn make(&self, table: &str, has_sort_key: bool) {
        if self.lock().contains_key(table) {
            return;
        }
        self.lock().insert(table.to_owned(), Items::new());
        let attribute = |name: &str, kind: &str| json!({"AttributeName": name, "AttributeType": kind});
        let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
        let (mut attributes, mut keys) = (vec![attribute("pk", "S")], vec![key("pk", "HASH")]);
        if has_sort_key {
            attributes.push(attribute("sk", "S"));
            keys.push(key("sk", "RANGE"));
        }
        let mut request = json!({"TableName": table, "BillingMode": "PAY_PER_REQUEST", "KeySchema": keys});
        if table == "subscriptions" {
            attributes.extend([attribute("failing_tenant", "S"), attribute("failing_since", "N")]);
            request["GlobalSecondaryIndexes"] = json!([{
                "IndexName": "failing_by_tenant", "Projection": {"ProjectionType": "KEYS_ONLY"},
                "KeySchema": [key("failing_tenant", "HASH"), key("failing_since", "RANGE")],
            }]);
        }
        if table == "deliveries" {
            attributes.extend([attribute("found_by", "S"), attribute("found_at", "S")]);
            request["GlobalSecondaryIndexes"] = json!([{
                "IndexName": "by_state", "Projection": {"ProjectionType": "KEYS_ONLY"},
                "KeySchema": [key("found_by", "HASH"), key("found_at", "RANGE")],
            }]);
        }
        request["AttributeDefinitions"] = attributes.into();
        self.call("CreateTable", &request).expect("a table");
    }

    /// Tests write into their stand-in by hand, and take from it.
    fn bring_to(&self, table: &str, items: &Items) {
        let held = self.lock().get(table).cloned().unwrap_or_default();
        for (pk, sk) in held.keys().filter(|key| !items.contains_key(*key)) {
            let mut key = json!({"pk": {"S": pk}, "sk": {"S": sk}});
            if sk.is_empty() {
                key = json!({"pk": {"S": pk}});
            }
            self.call("DeleteItem", &json!({"TableName": table, "Key": key})).expect("it is deleted");
        }
        for (_, item) in items.iter().filter(|(key, item)| held.get(*key) != Some(*item)) {
            self.call("PutItem", &json!({"TableName": table, "Item": item}))
                .expect("an item that a table takes");
        }
    }

    fn scan(&self, table: &str) -> Items {
        let (mut items, mut after) = (Items::new(), Value::Null);
        loop {
            let mut request = json!({"TableName": table, "ConsistentRead": true});
            if after.is_object() {
                request["ExclusiveStartKey"] = after;
            }
            let mut page = self.call("Scan", &request).expect("it is read");
            for item in page["Items"].as_array().expect("items") {
                let key = |name: &str| item[name]["S"].as_str().unwrap_or_default().to_owned();
                items.insert((key("pk"), key("sk")), item.as_object().expect("an item").clone());
            }
            after = page["LastEvaluatedKey"].take();
            if after.is_null() {
                return items;
            }
        }
    }
}

/// The tables that a request names: one, or in a transaction some.
fn tables_of(request: &Value) -> Vec<String> {
    let of_batch = || Some(vec![request["RequestItems"].as_object()?.keys().next()?.clone()]);
    let of_statement = || {
        let statement = request["Statements"][0]["Statement"].as_str().or(request["Statement"].as_str())?;
        Some(vec![statement.split('"').nth(1)?.to_owned()])
    };
    let of_transaction = || {
        let writes = request["TransactItems"].as_array()?.iter().filter_map(Value::as_object);
        let named = |write: &Value| Some(write["TableName"].as_str()?.to_owned());
        Some(writes.flat_map(|write| write.values()).filter_map(named).collect())
    };
    let named = request["TableName"].as_str().map(|table| vec![table.to_owned()]);
    named.or_else(of_batch).or_else(of_statement).or_else(of_transaction).expect("a table")
}

/// What callers read of an answer; items are in no order.
fn outcome(answer: &Answer) -> Value {
    match answer {
        Ok(body) => {
            let mut found: Vec<String> = body["Responses"]
                .as_object()
                .into_iter()
                .flatten()
                .flat_map(|(_, items)| items.as_array())
                .flatten()
                .map(ToString::to_string)
                .collect();
            found.sort_unstable();
            let attributes =
                Some(&body["Attributes"]).filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
            let [item, items, count] = ["Item", "Items", "Count"].map(|name| &body[name]);
            let statements = body["Responses"].as_array().into_iter().flatten();
            let errors: Vec<_> = statements.map(|answer| &answer["Error"]["Code"]).collect();
            json!({
                "item": item, "items": items, "count": count, "found": found, "attributes": attributes, "errors": errors,
            })
        }
        Err(body) => {
            let code = body["__type"].as_str().and_then(|code| code.rsplit('#').next());
            let reasons = body["CancellationReasons"].as_array().into_iter().flatten();
            json!({"error": code, "reasons": reasons.map(|reason| &reason["Code"]).collect::<Vec<_>>()})
        }
    }
}
