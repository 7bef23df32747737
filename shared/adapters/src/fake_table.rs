//! A DynamoDB table for tests, inside the process. It evaluates the expressions that the adapters send, and is as strict as the real one:
//! it refuses unused names and values, keys that are named twice or are too long, and items over 400 KB. Beside a DynamoDB Local
//! (`real_table`), each call has to end as it does there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use serde_json::{Map, Value, json};

use crate::fake_statement::Statement;
use crate::real_table::RealTables;
use crate::stub_dynamo::{Answer, StubDynamo, error};

const MOST_ITEM_BYTES: usize = 400 * 1024;
const MOST_PAGE_BYTES: usize = 1024 * 1024;

/// An item as DynamoDB writes it in JSON.
pub(crate) type Attributes = Map<String, Value>;

type Key = (String, String);

#[derive(Clone, Default)]
pub(crate) struct FakeTable(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) items: BTreeMap<Key, Attributes>,
    /// Each call's operation, and the partition keys that it named.
    pub(crate) calls: Vec<(String, Vec<String>)>,
    /// Each BatchGetItem's ConsistentRead.
    pub(crate) consistent: Vec<bool>,
    /// The operations that are refused (`""`: all), and the beginning of the partition keys for which they are.
    pub(crate) refusing: Option<(&'static str, &'static str)>,
    /// Sort keys that contain this are left unprocessed by BatchWriteItem.
    pub(crate) throttled: Option<&'static str>,
    /// How long an answer takes.
    pub(crate) delay: Duration,
}

impl FakeTable {
    pub(crate) fn client(&self) -> Client {
        let (table, real) = (self.clone(), RealTables::find());
        let script = move |operation: &str, call: &Value| {
            let mut state = table.state();
            // What a test makes fail, DynamoDB would not.
            let real = real.as_ref().filter(|_| state.refusing.is_none() && state.throttled.is_none());
            let before = real.map(|_| state.items.clone()).unwrap_or_default();
            let answer = state.answer(operation, call);
            if let Some(real) = real {
                real.agrees(operation, call, &before, &state.items, &answer);
            }
            (answer, state.delay)
        };
        StubDynamo::delayed(script).client()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    /// Writes an item by hand; without a sort key, into a table that has none.
    pub(crate) fn write(&self, pk: &str, sk: &str, attributes: &Value) {
        let mut item = attributes.as_object().expect("attributes").clone();
        item.insert("pk".to_owned(), json!({"S": pk}));
        if !sk.is_empty() {
            item.insert("sk".to_owned(), json!({"S": sk}));
        }
        self.state().items.insert((pk.to_owned(), sk.to_owned()), item);
    }

    /// An item without its key.
    pub(crate) fn item(&self, pk: &str, sk: &str) -> Option<Value> {
        let mut item = self.state().items.get(&(pk.to_owned(), sk.to_owned()))?.clone();
        item.retain(|name, _| !["pk", "sk"].contains(&name.as_str()));
        Some(item.into())
    }

    /// The operations since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls_with_partitions().into_iter().map(|(operation, _)| operation).collect()
    }

    /// The same, with the partition keys that they named.
    pub(crate) fn calls_with_partitions(&self) -> Vec<(String, Vec<String>)> {
        std::mem::take(&mut self.state().calls)
    }
}

/// The one table of a batch.
fn of_batch(batch: &Value) -> (&String, &Value) {
    batch.as_object().and_then(|tables| tables.iter().next()).expect("a table")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

/// Names and values, binary ones as they are.
fn size(item: &Value) -> usize {
    let of = |(name, value): (&String, &Value)| {
        let (kind, value) = value.as_object().and_then(|value| value.iter().next()).expect("a value");
        let text = value.as_str().map_or(0, str::len);
        name.len() + if kind == "B" { text / 4 * 3 } else { text }
    };
    item.as_object().into_iter().flatten().map(of).sum()
}

/// The item of a put, or the key of a delete.
fn written(request: &Value) -> &Value {
    let put = &request["PutRequest"]["Item"];
    if put.is_object() { put } else { &request["DeleteRequest"]["Key"] }
}

impl State {
    fn answer(&mut self, operation: &str, body: &Value) -> Answer {
        let keys: Result<Vec<Key>, Value> = match operation {
            "BatchGetItem" => {
                let (_, wanted) = of_batch(&body["RequestItems"]);
                self.consistent.push(wanted["ConsistentRead"] == true);
                list(&wanted["Keys"]).map(key).collect()
            }
            "BatchWriteItem" => list(of_batch(&body["RequestItems"]).1).map(|it| key(written(it))).collect(),
            "Query" => Ok(vec![(text(&body["ExpressionAttributeValues"][":pk"]), String::new())]),
            "TransactWriteItems" => {
                list(&body["TransactItems"]).map(|put| key(&put["Put"]["Item"])).collect()
            }
            "BatchExecuteStatement" => {
                list(&body["Statements"]).map(|one| key(&Statement::read(one).keys())).collect()
            }
            _ => key(&body["Key"]).map(|key| vec![key]),
        };
        let keys = keys?;
        let partitions: Vec<String> = keys.iter().map(|(pk, _)| pk.clone()).collect();
        let refused = self.refusing.is_some_and(|(refused, prefix)| {
            operation.contains(refused) && partitions.iter().any(|pk| pk.starts_with(prefix))
        });
        self.calls.push((operation.to_owned(), partitions));
        if refused {
            return Err(error("AccessDeniedException"));
        }
        match operation {
            "BatchGetItem" => {
                if keys.len() > 100 || keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
                    return Err(error("ValidationException"));
                }
                // Items are in no order.
                let found: Vec<&Attributes> =
                    keys.iter().rev().filter_map(|key| self.items.get(key)).collect();
                let (table, _) = of_batch(&body["RequestItems"]);
                Ok(json!({"Responses": {table: found}, "UnprocessedKeys": {}}))
            }
            "BatchWriteItem" => self.write_all(&keys, &body["RequestItems"]),
            "GetItem" => {
                assert_eq!(body["ConsistentRead"], true);
                Ok(self.items.get(&keys[0]).map_or(json!({}), |item| json!({"Item": item})))
            }
            "Query" => self.query(&keys[0].0, body),
            "DeleteItem" => {
                assert_eq!(body["ReturnValues"], "ALL_OLD");
                let condition = body["ConditionExpression"].as_str().unwrap_or_default();
                if !self.scope(&keys[0], body, condition)?.holds(condition) {
                    return Err(error("ConditionalCheckFailedException"));
                }
                Ok(self.items.remove(&keys[0]).map_or(json!({}), |item| json!({"Attributes": item})))
            }
            "TransactWriteItems" => self.transact(keys, body),
            "UpdateItem" => self.update(&keys[0], body),
            "BatchExecuteStatement" => {
                let each = list(&body["Statements"]).zip(keys);
                let carried_out = each.map(|(one, key)| Statement::read(one).carry_out(&mut self.items, key));
                let code = |code: &str| json!({"Error": {"Code": code}});
                let answers = carried_out.map(|done| done.map_or_else(code, |()| json!({})));
                Ok(json!({"Responses": answers.collect::<Vec<_>>()}))
            }
            other => panic!("{other} is not supported"),
        }
    }

    fn write_all(&mut self, keys: &[Key], batch: &Value) -> Answer {
        let (table, requests) = of_batch(batch);
        if list(requests).any(|request| size(written(request)) > MOST_ITEM_BYTES) {
            return Err(error("ValidationException"));
        }
        let mut left = Vec::new();
        for (request, key) in list(requests).zip(keys) {
            let put = &request["PutRequest"]["Item"];
            if self.throttled.is_some_and(|sort| key.1.contains(sort)) {
                left.push(request);
            } else if let Some(item) = put.as_object() {
                self.items.insert(key.clone(), item.clone());
            } else {
                self.items.remove(key);
            }
        }
        Ok(json!({"UnprocessedItems": if left.is_empty() { json!({}) } else { json!({table: left}) }}))
    }

    fn query(&self, pk: &str, body: &Value) -> Answer {
        let after = &body["ExclusiveStartKey"];
        let after = if after.is_object() { key(after)? } else { (pk.to_owned(), String::new()) };
        let limit = body["Limit"].as_u64().map_or(usize::MAX, |limit| usize::try_from(limit).expect("fits"));
        let (mut page, mut bytes) = (Vec::new(), 0);
        let value = |name: &str| text(&body["ExpressionAttributeValues"][name]);
        let within: Box<dyn Fn(&str) -> bool> = match body["KeyConditionExpression"].as_str() {
            Some("pk = :pk") => Box::new(|_| true),
            Some("pk = :pk AND sk < :before") => {
                let before = value(":before");
                Box::new(move |sk| *sk < *before)
            }
            Some(condition) if condition.starts_with("pk = :pk AND begins_with(sk, ") => {
                let name = condition.trim_end_matches(')').rsplit(' ').next();
                let prefix = value(name.expect("it has a name"));
                Box::new(move |sk| sk.starts_with(&prefix))
            }
            Some("pk = :pk AND sk BETWEEN :from AND :to") => {
                let range = value(":from")..=value(":to");
                Box::new(move |sk| range.contains(&sk.to_owned()))
            }
            other => panic!("{other:?} is not supported"),
        };
        let is_found = |key: &Key| key.0 == pk && *key > after && within(&key.1);
        let mut found: Vec<_> = self.items.iter().filter(|(key, _)| is_found(key)).collect();
        if body["ScanIndexForward"] == false {
            found.reverse();
        }
        let mut last = None;
        for (key, item) in found {
            page.push(item);
            bytes += size(&json!(item));
            if page.len() >= limit || bytes > MOST_PAGE_BYTES {
                last = Some(json!({"pk": {"S": key.0}, "sk": {"S": key.1}}));
                break;
            }
        }
        let mut answer = json!({"Count": page.len(), "LastEvaluatedKey": last});
        if body["Select"] != "COUNT" {
            answer["Items"] = json!(page);
        }
        Ok(answer)
    }

    fn transact(&mut self, keys: Vec<Key>, body: &Value) -> Answer {
        let puts = || list(&body["TransactItems"]).map(|write| &write["Put"]).zip(&keys);
        let mut hold = Vec::new();
        for (put, key) in puts() {
            let condition = put["ConditionExpression"].as_str().unwrap_or_default();
            hold.push(self.scope(key, put, condition)?.holds(condition));
        }
        if hold.contains(&false) {
            let code = |held: &bool| json!({"Code": if *held { "None" } else { "ConditionalCheckFailed" }});
            let mut cancelled = error("TransactionCanceledException");
            cancelled["CancellationReasons"] = hold.iter().map(code).collect();
            return Err(cancelled);
        }
        let items: Vec<_> =
            puts().map(|(put, _)| put["Item"].as_object().expect("an item").clone()).collect();
        self.items.extend(keys.into_iter().zip(items));
        Ok(json!({}))
    }

    fn scope<'a>(&self, key: &Key, body: &'a Value, expressions: &str) -> Result<Scope<'a>, Value> {
        let scope = Scope {
            names: &body["ExpressionAttributeNames"],
            values: &body["ExpressionAttributeValues"],
            item: self.items.get(key).cloned().unwrap_or_default(),
        };
        scope.check_use(expressions)?;
        Ok(scope)
    }

    fn update(&mut self, key: &Key, body: &Value) -> Answer {
        let expression = body["UpdateExpression"].as_str().expect("an expression");
        let condition = body["ConditionExpression"].as_str().unwrap_or_default();
        let scope = self.scope(key, body, &format!("{expression} {condition}"))?;
        if !scope.holds(condition) {
            return Err(error("ConditionalCheckFailedException"));
        }
        let (mut item, mut changed) = (scope.item.clone(), BTreeSet::new());
        let (set, add) = expression.split_once(" ADD ").unwrap_or((expression, ""));
        let (set, remove) = match set.strip_prefix("REMOVE ") {
            Some(remove) => ("", remove),
            None => {
                let set = set.strip_prefix("SET ").expect("it begins with SET");
                set.split_once(" REMOVE ").unwrap_or((set, ""))
            }
        };
        for step in steps(set) {
            let (name, value) = step.split_once(" = ").expect("an assignment");
            changed.insert(scope.name(name));
            item.insert(scope.name(name), scope.sum(value)?);
        }
        for name in remove.split(", ").filter(|name| !name.is_empty()) {
            changed.insert(scope.name(name));
            item.remove(&scope.name(name));
        }
        for step in add.split(", ").filter(|step| !step.is_empty()) {
            let (name, value) = step.split_once(' ').expect("a name and a value");
            let before = item.get(&scope.name(name)).map_or(Some(0), number);
            let before = before.ok_or_else(|| error("ValidationException"))?;
            let more = scope.value(value).as_ref().and_then(number).expect("a number");
            item.insert(scope.name(name), json!({"N": (before + more).to_string()}));
        }
        item.insert("pk".to_owned(), json!({"S": key.0}));
        if !key.1.is_empty() {
            item.insert("sk".to_owned(), json!({"S": key.1}));
        }
        self.items.insert(key.clone(), item.clone());
        let attributes = match body["ReturnValues"].as_str() {
            None => Attributes::new(),
            Some("ALL_NEW") => item,
            Some("ALL_OLD") => scope.item,
            Some("UPDATED_OLD") => {
                scope.item.into_iter().filter(|(name, _)| changed.contains(name)).collect()
            }
            Some(other) => panic!("{other} is not supported"),
        };
        let consumed = json!({"TableName": "table", "CapacityUnits": 1.0});
        Ok(json!({"ConsumedCapacity": consumed, "Attributes": attributes}))
    }
}

/// The steps of a SET, whose functions have commas, too.
fn steps(set: &str) -> Vec<&str> {
    outside(set, ", ").into_iter().filter(|step| !step.is_empty()).collect()
}

/// The parts between a separator that stands outside of brackets.
fn outside<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 && text[at..].starts_with(separator) {
            parts.push(&text[from..at]);
            from = at + separator.len();
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The meaning of names and values in an expression.
struct Scope<'a> {
    names: &'a Value,
    values: &'a Value,
    item: Attributes,
}

impl Scope<'_> {
    fn name(&self, word: &str) -> String {
        if !word.starts_with('#') {
            return word.to_owned();
        }
        self.names[word].as_str().unwrap_or_else(|| panic!("{word} has no name")).to_owned()
    }

    fn value(&self, word: &str) -> Option<Value> {
        if word.starts_with(':') {
            return Some(self.values.get(word).unwrap_or_else(|| panic!("{word} has no value")).clone());
        }
        self.item.get(&self.name(word)).cloned()
    }

    /// Every name and value is used.
    fn check_use(&self, expressions: &str) -> Result<(), Value> {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | ':');
        let words: BTreeSet<&str> = expressions.split(|c| !is_of_word(c)).collect();
        let mut given =
            [self.names, self.values].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
        let unused = given.any(|given| !words.contains(given.as_str()));
        if unused { Err(error("ValidationException")) } else { Ok(()) }
    }

    /// A value, the sum of two, or a value for want of the item's.
    fn sum(&self, words: &str) -> Result<Value, Value> {
        let invalid = || error("ValidationException");
        let arguments = words.strip_prefix("if_not_exists(").and_then(|words| words.strip_suffix(')'));
        if let Some((name, other)) = arguments.and_then(|words| words.split_once(", ")) {
            return self.value(name).or_else(|| self.value(other)).ok_or_else(invalid);
        }
        let Some((a, b)) = words.split_once(" + ") else { return self.value(words).ok_or_else(invalid) };
        let number = |word| self.value(word).as_ref().and_then(number).ok_or_else(invalid);
        Ok(json!({"N": (number(a)? + number(b)?).to_string()}))
    }

    fn holds(&self, condition: &str) -> bool {
        let all_hold = |all: &str| outside(all, " AND ").into_iter().all(|one| self.one_holds(one));
        condition.is_empty() || outside(condition, " OR ").into_iter().any(all_hold)
    }

    fn one_holds(&self, condition: &str) -> bool {
        if let Some(condition) = condition.strip_prefix("NOT ") {
            return !self.one_holds(condition);
        }
        if let Some(inner) = condition.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            return self.holds(inner);
        }
        if let Some((function, words)) = condition.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let mut words = words.split(", ");
            let value = self.value(words.next().expect("a first argument"));
            return match function {
                "attribute_exists" => value.is_some(),
                "attribute_not_exists" => value.is_none(),
                "attribute_type" => {
                    let of = self.value(words.next().expect("a type")).expect("a value");
                    value.is_some_and(|value| value.get(text(&of)).is_some())
                }
                other => panic!("{other} is not supported"),
            };
        }
        let words: Vec<&str> = condition.split(' ').collect();
        let &[a, operator, b] = words.as_slice() else { panic!("{condition} is not supported") };
        let (a, b) = (self.value(a), self.value(b));
        if operator == "=" {
            return a.is_some() && a == b;
        }
        // An absent attribute, or one of another type, is neither less nor more.
        let (Some(a), Some(b)) = (a.as_ref().and_then(number), b.as_ref().and_then(number)) else {
            return false;
        };
        match operator {
            "<" => a < b,
            "<=" => a <= b,
            ">=" => a >= b,
            other => panic!("{other} is not supported"),
        }
    }
}

fn number(value: &Value) -> Option<i128> {
    value["N"].as_str()?.parse().ok()
}

fn text(value: &Value) -> String {
    value["S"].as_str().expect("a text").to_owned()
}

fn key(value: &Value) -> Result<Key, Value> {
    let sk = if value["sk"].is_null() { String::new() } else { text(&value["sk"]) };
    let pk = text(&value["pk"]);
    if pk.len() > 2048 || sk.len() > 1024 { Err(error("ValidationException")) } else { Ok((pk, sk)) }
}
