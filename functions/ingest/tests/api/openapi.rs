//! The API's description, checked against the router, the kinds of problems and its own examples.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use ingest::problem::{Kind, Problem};
use ingest::router;
use redial_core::erasure::ErasureId;
use redial_core::ledger::State;
use redial_engine::http_api::openapi;
use redial_memory::Memory;
use serde_json::{Map, Value, json};

use crate::api::{Answer, Api, bearer, document, id, key, tenant};
use crate::routes::routes;

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
    let routed = router::routes::<Memory>().map(|(method, path, _)| (path.to_owned(), method.to_owned()));
    assert_eq!(described, routed.into());
    // Every described route exists.
    let api = Api::new();
    for (path, method) in described {
        let answer = api.send(&method, &path.replace("{id}", "x"), &[], "{}");
        let is_routed = answer.status != 405 && (answer.status != 404 || answer.problem() != "no_route");
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
fn a_delivery_s_state_is_any_that_the_ledger_has() {
    let description = description();
    let item = "/components/schemas/Delivery/properties/state/enum";
    let taken = "/components/schemas/Taken/properties/state/enum";
    let states: Vec<&str> = State::ALL.iter().map(|state| state.label()).collect();
    for pointer in [item, taken] {
        assert_eq!(description.pointer(pointer), Some(&json!(states)), "{pointer}");
    }
    let lists = description.to_string().matches("\"failed_no_retries\",\"cancelled\",\"expanded\"").count();
    assert_eq!(lists, 3, "a batch's answer lists them, too");
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
        .flat_map(|answer| {
            let content = &answer["content"]["application/problem+json"];
            let several = content["examples"].as_object().into_iter().flatten().map(|(_, it)| &it["value"]);
            several.chain(content.get("example")).cloned().collect::<Vec<_>>()
        })
        .map(|mut problem| {
            let problem = problem.as_object_mut().expect("an example");
            for of_some in ["errors", "deleted_at", "quota", "state"] {
                problem.remove(of_some);
            }
            Value::from(problem.clone()).to_string()
        })
        .collect();
    let known: BTreeSet<String> =
        Kind::ALL.into_iter().map(|kind| Problem::new(kind).to_json().to_string()).collect();
    assert_eq!(described, known);
    let types = description["components"]["schemas"]["Problem"]["properties"]["type"]["enum"].clone();
    let slugs: BTreeSet<String> = serde_json::from_value(types).expect("texts");
    assert_eq!(slugs.len(), Kind::ALL.len());
    assert!(Kind::ALL.iter().all(|kind| Problem::new(*kind).status().as_u16() >= 400));
}

#[test]
fn responses_match_the_description() {
    let api = Api::new();
    let mut validator = Validator::new();
    let mut check = |method: &str, path: &str, answer: &Answer| {
        let (status, place) = (answer.status, format!("{}/{}", escaped(path), method.to_lowercase()));
        let described = &description()["paths"][path][method.to_lowercase()]["responses"][status.to_string()];
        assert!(!described.is_null(), "{method} {path} answers {status}, which is not described");
        if answer.text.is_empty() {
            return;
        }
        let at = match described["$ref"].as_str() {
            Some(reference) => reference.trim_start_matches('#').to_owned(),
            None => format!("/paths/{place}/responses/{status}"),
        };
        let media = escaped(answer.headers["content-type"].to_str().expect("text"));
        let checked = validator.check(&format!("{at}/content/{media}/schema"), &answer.json());
        checked.unwrap_or_else(|error| panic!("{method} {path}: {error}: {}", answer.text));
    };
    let message = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": 1});
    let conflict = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": 2});
    let ack = json!({"token": api.ack_token("acme", "m1", 60), "event": "displayed"});
    let erasure = ErasureId::of(&tenant("acme"), Some(&id("s1")), None);
    for (method, path, id, body) in [
        ("POST", "/v1/messages", "", message.clone()),
        ("POST", "/v1/messages", "", conflict.clone()),
        ("POST", "/v1/messages", "", json!([message, conflict, 1])),
        ("POST", "/v1/messages", "", json!({})),
        ("GET", "/v1/messages/{id}", "m1", Value::Null),
        ("GET", "/v1/messages/{id}", "m2", Value::Null),
        ("PUT", "/v1/subscriptions", "", document("a")),
        ("PUT", "/v1/subscriptions/{id}", "s1", document("a")),
        ("PUT", "/v1/subscriptions/{id}", "s1", document("b")),
        ("PUT", "/v1/subscriptions/{id}", "s1", json!({})),
        ("GET", "/v1/subscriptions/{id}", "s1", Value::Null),
        ("DELETE", "/v1/subscriptions/{id}", "s1", Value::Null),
        ("GET", "/v1/subscriptions/{id}", "s1", Value::Null),
        ("DELETE", "/v1/subscriptions/{id}", "s2", Value::Null),
        ("GET", "/v1/subscriptions/{id}", "s2", Value::Null),
        ("POST", "/v1/subscription-tokens", "", json!({"tags": ["a"]})),
        ("POST", "/v1/erasures", "", json!({"subscription": "s1"})),
        ("POST", "/v1/erasures", "", json!({})),
        ("GET", "/v1/erasures/{id}", erasure.as_str(), Value::Null),
        ("GET", "/v1/erasures/{id}", "unknown", Value::Null),
        ("GET", "/v1/keys", "", Value::Null),
        ("GET", "/v1/health", "", Value::Null),
        ("POST", "/v1/acks", "", ack.clone()),
        ("POST", "/v1/acks", "", json!([ack, {}])),
        ("POST", "/v1/acks", "", json!({"token": "x", "event": "displayed"})),
    ] {
        let answer = api.send(method, &path.replace("{id}", id), &Api::acme(), &body.to_string());
        check(method, path, &answer);
    }
    api.store(key(40), "acme", &[], |_| {});
    for route in routes(&api, "acme", "x") {
        for headers in [Vec::new(), bearer(&key(40).expose())] {
            check(route.method, route.pattern, &route.send(&api, &headers));
        }
    }
}
