//! A DynamoDB table that reads the expressions it is sent, as far as they are used here, and is as strict as the real one: it
//! refuses what names or values an expression leaves unused, reserved words, keys that are asked for twice or are too long.

use std::collections::{BTreeMap, BTreeSet};

use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Map, Value, json};

/// An item as DynamoDB writes it in JSON.
pub(super) type Attributes = Map<String, Value>;

/// The table, and what it was asked.
#[derive(Default)]
pub(super) struct Table {
    pub(super) items: BTreeMap<(String, String), Attributes>,
    /// Each call's operation, and the partition keys that it named.
    pub(super) calls: Vec<(String, Vec<String>)>,
    /// Each BatchGetItem's ConsistentRead.
    pub(super) consistent: Vec<bool>,
    /// The operation that is refused, and the beginning of the partition keys for which it is.
    pub(super) refusing: Option<(&'static str, &'static str)>,
}

/// What it refuses with.
type Refusal = (&'static str, String);

fn invalid(what: impl Into<String>) -> Refusal {
    ("ValidationException", what.into())
}

impl Table {
    pub(super) fn answer(&mut self, request: &http::Request<Bytes>) -> http::Response<Full<Bytes>> {
        let target = request.headers()["x-amz-target"].to_str().expect("text");
        let operation = target.strip_prefix("DynamoDB_20120810.").expect("its version").to_owned();
        let body: Value = serde_json::from_slice(request.body()).expect("JSON");
        match self.carry_out(&operation, &body) {
            Ok(answer) => http::Response::new(Full::from(answer.to_string())),
            Err((code, message)) => {
                let refusal =
                    json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message});
                let mut response = http::Response::new(Full::from(refusal.to_string()));
                *response.status_mut() = http::StatusCode::BAD_REQUEST;
                response
            }
        }
    }

    fn carry_out(&mut self, operation: &str, body: &Value) -> Result<Value, Refusal> {
        let keys = match operation {
            "BatchGetItem" => {
                let wanted = &body["RequestItems"]["control"];
                self.consistent.push(wanted["ConsistentRead"] == json!(true));
                wanted["Keys"].as_array().expect("keys").iter().map(key).collect::<Result<Vec<_>, _>>()?
            }
            "Query" => {
                assert_eq!(body["KeyConditionExpression"], "pk = :pk");
                vec![(text(&body["ExpressionAttributeValues"][":pk"]), String::new())]
            }
            _ => {
                assert_eq!(body["TableName"], "control");
                vec![key(&body["Key"])?]
            }
        };
        let named: Vec<String> = keys.iter().map(|(pk, _)| pk.clone()).collect();
        let refused = self.refusing.is_some_and(|(refused, prefix)| {
            refused == operation && named.iter().any(|pk| pk.starts_with(prefix))
        });
        self.calls.push((operation.to_owned(), named));
        if refused {
            return Err(("AccessDeniedException", "refused".to_owned()));
        }
        match operation {
            "BatchGetItem" => {
                let distinct: BTreeSet<_> = keys.iter().collect();
                if keys.len() > 100 || distinct.len() < keys.len() {
                    return Err(invalid("too many keys, or one of them twice"));
                }
                // Answers are in no order.
                let found: Vec<&Attributes> =
                    keys.iter().rev().filter_map(|key| self.items.get(key)).collect();
                Ok(json!({"Responses": {"control": found}, "UnprocessedKeys": {}}))
            }
            "GetItem" => {
                assert_eq!(body["ConsistentRead"], json!(true));
                Ok(self.items.get(&keys[0]).map_or(json!({}), |item| json!({"Item": item})))
            }
            "Query" => {
                let of_partition = self.items.iter().filter(|((pk, _), _)| *pk == keys[0].0);
                Ok(json!({"Items": of_partition.map(|(_, item)| item).collect::<Vec<_>>()}))
            }
            "DeleteItem" => {
                assert_eq!(body["ReturnValues"], "ALL_OLD");
                Ok(self.items.remove(&keys[0]).map_or(json!({}), |item| json!({"Attributes": item})))
            }
            "UpdateItem" => self.update(&keys[0], body),
            other => panic!("{other} is not used here"),
        }
    }

    fn update(&mut self, key: &(String, String), body: &Value) -> Result<Value, Refusal> {
        let expression = body["UpdateExpression"].as_str().expect("an expression");
        let condition = body["ConditionExpression"].as_str().unwrap_or_default();
        let scope = Scope {
            names: &body["ExpressionAttributeNames"],
            values: &body["ExpressionAttributeValues"],
            item: self.items.get(key).cloned().unwrap_or_default(),
        };
        scope.check_use(&format!("{expression} {condition}"))?;
        if !condition.is_empty() && !scope.holds(condition) {
            return Err(("ConditionalCheckFailedException", String::new()));
        }
        let mut item = scope.item.clone();
        let (set, add) = expression.split_once(" ADD ").unwrap_or((expression, ""));
        for step in set.strip_prefix("SET ").expect("it begins with SET").split(", ") {
            let (name, value) = step.split_once(" = ").expect("an assignment");
            item.insert(scope.name(name), scope.sum(value)?);
        }
        for step in add.split(", ").filter(|step| !step.is_empty()) {
            let (name, value) = step.split_once(' ').expect("a name and a value");
            let before = item.get(&scope.name(name)).map_or(Some(0), number);
            let before = before.ok_or_else(|| invalid("no number to add to"))?;
            let more = scope.value(value).as_ref().and_then(number).expect("a number");
            item.insert(scope.name(name), json!({"N": (before + more).to_string()}));
        }
        item.insert("pk".to_owned(), json!({"S": key.0}));
        item.insert("sk".to_owned(), json!({"S": key.1}));
        self.items.insert(key.clone(), item.clone());
        let units = json!({"TableName": "control", "CapacityUnits": 1.0});
        Ok(match body["ReturnValues"].as_str() {
            None => json!({"ConsumedCapacity": units}),
            Some("ALL_NEW") => json!({"ConsumedCapacity": units, "Attributes": item}),
            Some("UPDATED_OLD") if scope.item.is_empty() => json!({"ConsumedCapacity": units}),
            Some("UPDATED_OLD") => {
                let before = scope.item.iter().filter(|(name, _)| *name != "pk" && *name != "sk");
                let before: BTreeMap<_, _> = before.collect();
                json!({"ConsumedCapacity": units, "Attributes": before})
            }
            Some(other) => panic!("{other} is not used here"),
        })
    }
}

/// What the words of an expression stand for.
struct Scope<'a> {
    names: &'a Value,
    values: &'a Value,
    item: Attributes,
}

impl Scope<'_> {
    fn name(&self, word: &str) -> String {
        self.names[word].as_str().unwrap_or_else(|| panic!("{word} is named")).to_owned()
    }

    fn value(&self, word: &str) -> Option<Value> {
        if word.starts_with(':') {
            return Some(self.values.get(word).unwrap_or_else(|| panic!("{word} is given")).clone());
        }
        self.item.get(&self.name(word)).cloned()
    }

    /// Everything that is given is used, and every attribute goes by another name than its own, which may be reserved.
    fn check_use(&self, expressions: &str) -> Result<(), Refusal> {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | ':');
        let words: BTreeSet<&str> = expressions.split(|c| !is_of_word(c)).collect();
        let given = [self.names, self.values].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
        for given in given {
            if !words.contains(given.as_str()) {
                return Err(invalid(format!("{given} is unused")));
            }
        }
        Ok(())
    }

    /// A value, or the sum of two.
    fn sum(&self, words: &str) -> Result<Value, Refusal> {
        let absent = || invalid("an attribute that does not exist");
        let Some((a, b)) = words.split_once(" + ") else { return self.value(words).ok_or_else(absent) };
        let number = |word| self.value(word).as_ref().map(number).ok_or_else(absent);
        match (number(a)?, number(b)?) {
            (Some(a), Some(b)) => Ok(json!({"N": (a + b).to_string()})),
            _ => Err(invalid("an operand of a type that has no sum")),
        }
    }

    fn holds(&self, condition: &str) -> bool {
        condition.split(" OR ").any(|all| all.split(" AND ").all(|one| self.one_holds(one)))
    }

    fn one_holds(&self, condition: &str) -> bool {
        if let Some(condition) = condition.strip_prefix("NOT ") {
            return !self.one_holds(condition);
        }
        if let Some((function, words)) = condition.strip_suffix(')').and_then(|it| it.split_once('(')) {
            let mut words = words.split(", ");
            let value = self.value(words.next().expect("a first argument"));
            return match function {
                "attribute_not_exists" => value.is_none(),
                "attribute_type" => {
                    let of = self.value(words.next().expect("a type")).expect("it is given");
                    value.is_some_and(|value| value.get(text(&of)).is_some())
                }
                other => panic!("{other} is not used here"),
            };
        }
        let words: Vec<&str> = condition.split(' ').collect();
        let &[a, operator, b] = words.as_slice() else { panic!("{condition} is not used here") };
        let (a, b) = (self.value(a).as_ref().and_then(number), self.value(b).as_ref().and_then(number));
        // What is absent, or of another type, is neither less nor more nor the same.
        let (Some(a), Some(b)) = (a, b) else { return false };
        match operator {
            "=" => a == b,
            "<" => a < b,
            "<=" => a <= b,
            ">=" => a >= b,
            other => panic!("{other} is not used here"),
        }
    }
}

fn number(value: &Value) -> Option<i128> {
    value["N"].as_str()?.parse().ok()
}

fn text(value: &Value) -> String {
    value["S"].as_str().expect("a text").to_owned()
}

fn key(value: &Value) -> Result<(String, String), Refusal> {
    let (pk, sk) = (text(&value["pk"]), text(&value["sk"]));
    if pk.len() > 2048 || sk.len() > 1024 {
        return Err(invalid("a key that is too long"));
    }
    Ok((pk, sk))
}
