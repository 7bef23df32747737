//! The API's description, checked against the router, the kinds of problems and its own examples.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use http::Method;
use ingest::problem::Kind;
use ingest::router::Operation;
use redial_core::access::Scope;
use redial_engine::http_api::openapi;
use serde_json::{Map, Value, json};

use crate::api::{Answer, Api, document};

/// The URI of the description for the validator.
const PLACE: &str = "https://redial.invalid/openapi.json";

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

fn description() -> Value {
    serde_json::from_str(&openapi()).expect("JSON")
}

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

/// Validates against any part of the description.
struct Validator {
    compiler: Compiler,
    schemas: Schemas,
}

impl Validator {
    fn new() -> Self {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler.add_resource(PLACE, description()).expect("a URI");
        Self { compiler, schemas: Schemas::new() }
    }

    /// Against the schema at this pointer.
    fn check(&mut self, pointer: &str, value: &Value) -> Result<(), String> {
        let at = format!("{PLACE}#{pointer}");
        let index =
            self.compiler.compile(&at, &mut self.schemas).map_err(|error| format!("{at}: {error:#}"))?;
        self.schemas.validate(value, index).map_err(|error| format!("{at}: {error:#}"))
    }
}

fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1").replace('{', "%7B").replace('}', "%7D")
}

/// Every media type of requests and answers: its pointer, and what it holds.
fn contents() -> Vec<(String, Value)> {
    let description = description();
    let mut found = Vec::new();
    let mut add = |at: String, content: &Value| {
        for (media, it) in content.as_object().into_iter().flatten() {
            found.push((format!("{at}/content/{}", escaped(media)), it.clone()));
        }
    };
    for (path, item) in map(&description["paths"]) {
        for (method, operation) in map(item).iter().filter(|(name, _)| METHODS.contains(&name.as_str())) {
            let at = format!("/paths/{}/{method}", escaped(path));
            add(format!("{at}/requestBody"), &operation["requestBody"]["content"]);
            for (status, answer) in map(&operation["responses"]) {
                add(format!("{at}/responses/{status}"), &answer["content"]);
            }
        }
    }
    for (name, answer) in map(&description["components"]["responses"]) {
        add(format!("/components/responses/{name}"), &answer["content"]);
    }
    found
}

#[test]
fn the_description_lists_exactly_the_routes() {
    let description = description();
    let described: BTreeSet<(String, String)> = map(&description["paths"])
        .iter()
        .flat_map(|(path, item)| {
            map(item)
                .keys()
                .filter(|name| METHODS.contains(&name.as_str()))
                .map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let routed = Operation::ALL.map(|it| (it.path().to_owned(), it.method().to_string()));
    assert_eq!(described, routed.into());
    // Every described route exists.
    let api = Api::new();
    for (path, method) in described {
        let answer = api.send(&method, &path.replace("{id}", "x"), &[], "{}");
        let is_routed = answer.status.as_u16() != 405
            && (answer.status.as_u16() != 404 || answer.problem() != "no_route");
        assert!(is_routed, "{method} {path}");
    }
}

#[test]
fn every_reference_resolves_and_every_component_is_used() {
    fn references(value: &Value, all: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                all.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, all));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, all)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let description = description();
    let mut all = BTreeSet::new();
    references(&description, &mut all);
    for reference in &all {
        let pointer =
            reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out of the document"));
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
    for part in ["schemas", "responses"] {
        for name in map(&description["components"][part]).keys() {
            // Returned outside of any operation.
            let is_outside = ["NoRoute", "MethodNotAllowed"].contains(&name.as_str());
            let reference = format!("#/components/{part}/{name}");
            assert!(is_outside || all.contains(&reference), "nothing refers to {reference}");
        }
    }
}

#[test]
fn every_body_has_valid_examples() {
    let mut validator = Validator::new();
    let mut checked = 0;
    for (at, content) in contents() {
        let examples = content["examples"].as_object().into_iter().flatten().map(|(_, it)| &it["value"]);
        let examples: Vec<&Value> = examples.chain(content.get("example")).collect();
        assert!(!examples.is_empty(), "{at} has no example");
        for example in examples {
            validator.check(&format!("{at}/schema"), example).unwrap_or_else(|error| panic!("{error}"));
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn invalid_bodies_do_not_match_their_schemas() {
    let mut validator = Validator::new();
    let sends = "/paths/~1v1~1messages/post";
    for (at, wrong) in [
        ("requestBody", json!({"payload": 1})),
        ("requestBody", json!({"to": {"subscription": "s1"}, "lineage": 1})),
        ("requestBody", json!([])),
        ("responses/202", json!({"id": "m1", "state": "queued"})),
        ("responses/202", json!({"id": "m1", "state": "lost", "duplicate": false})),
    ] {
        let schema = format!("{sends}/{at}/content/application~1json/schema");
        assert!(validator.check(&schema, &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_kind_of_problem_is_described_verbatim() {
    let description = description();
    let described: BTreeSet<String> = map(&description["components"]["responses"])
        .values()
        .map(|answer| {
            let mut problem = answer["content"]["application/problem+json"]["example"].clone();
            let problem = problem.as_object_mut().expect("an example");
            problem.remove("errors");
            problem.remove("deleted_at");
            Value::from(problem.clone()).to_string()
        })
        .collect();
    let known: BTreeSet<String> =
        Kind::ALL.into_iter().map(|kind| ingest::problem::Problem::new(kind).to_json().to_string()).collect();
    assert_eq!(described, known);
    let types = &description["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
    assert_eq!(types.as_array().expect("types").len(), Kind::ALL.len());
}

#[test]
fn responses_match_the_description() {
    let api = Api::new();
    let mut validator = Validator::new();
    let mut check = |operation: Operation, answer: &Answer| {
        let description = description();
        let method = operation.method().to_string().to_lowercase();
        let described = &description["paths"][operation.path()][&method]["responses"][answer.status.as_str()];
        assert!(!described.is_null(), "{operation:?} answers {}, which is not described", answer.status);
        if answer.text.is_empty() {
            return;
        }
        let (path, media) =
            (escaped(operation.path()), answer.headers["content-type"].to_str().expect("text"));
        let at = match described["$ref"].as_str() {
            Some(reference) => reference.trim_start_matches('#').to_owned(),
            None => format!("/paths/{path}/{method}/responses/{}", answer.status.as_str()),
        };
        let at = format!("{at}/content/{}/schema", escaped(media));
        validator
            .check(&at, &answer.json())
            .unwrap_or_else(|error| panic!("{operation:?}: {error}: {}", answer.text));
    };
    let message = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": 1});
    let conflict = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": 2});
    for body in [message.clone(), conflict.clone(), json!([message, conflict, 1]), json!({})] {
        check(Operation::SendMessages, &api.post("/v1/messages", &body));
    }
    for id in ["m1", "m2"] {
        check(Operation::GetMessage, &api.get(&format!("/v1/messages/{id}")));
    }
    check(Operation::CreateSubscription, &api.put("/v1/subscriptions", &document("a")));
    for body in [document("a"), document("b"), json!({})] {
        check(Operation::PutSubscription, &api.put("/v1/subscriptions/s1", &body));
    }
    check(Operation::GetSubscription, &api.get("/v1/subscriptions/s1"));
    for path in ["/v1/subscriptions/s1", "/v1/subscriptions/s2"] {
        check(Operation::DeleteSubscription, &api.send("DELETE", path, &Api::acme(), ""));
        check(Operation::GetSubscription, &api.get(path));
    }
    check(Operation::CreateToken, &api.post("/v1/subscription-tokens", &json!({"tags": ["a"]})));
    check(Operation::ListKeys, &api.get("/v1/keys"));
    check(Operation::Health, &api.get("/v1/health"));
    let ack = json!({"token": api.ack_token("acme", "m1", 60), "event": "displayed"});
    for body in [ack.clone(), json!([ack, {}]), json!({"token": "x", "event": "displayed"})] {
        check(Operation::Acknowledge, &api.post("/v1/acks", &body));
    }
    for operation in Operation::ALL {
        let path = operation.path().replace("{id}", "x");
        let body = if operation.method() == Method::GET { "" } else { "{}" };
        check(operation, &api.send(operation.method().as_str(), &path, &[], body));
        let key = crate::api::key(40);
        api.store(key.clone(), "acme", &[] as &[Scope], |_| {});
        check(
            operation,
            &api.send(operation.method().as_str(), &path, &crate::api::bearer(&key.expose()), body),
        );
    }
}
