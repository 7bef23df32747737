//! Random requests: none causes a 5xx, and no error repeats their values.

use std::cell::RefCell;

use axum::body::Body;
use http::Request;
use ingest::router;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use redial_memory::Memory;
use serde_json::{Value, json};

use crate::api::{Api, P256DH, bearer, document, key};

const CASES: u32 = 20_000;

/// A value that stands for a secret.
const MARKER: &str = "m4rk3r-9Kz4";

/// Texts that mean something to the API.
const KNOWN: &str =
    "acme other s1 m1 web_push otp campaign displayed news https://push.example/x 2027-01-15T08:00:00Z";

#[derive(Clone, Debug)]
struct Case {
    method: String,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        select(KNOWN.split(' ').chain([MARKER, P256DH]).collect::<Vec<_>>()).prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    let known = "v tenant id idempotency_key to subscription web_push webhook url endpoint keys p256dh auth \
                 vapid_key_id payload base64 ref class ttl urgency topic retry headers deliver_at event_type tags \
                 consent at prompt_version action origin token event expires_in acks lineage release";
    prop_oneof![9 => select(known.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned), 1 => "[a-z#.\u{0}é]{0,9}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..7).prop_map(Value::from_iter),
        ]
    })
}

/// A valid body with one value replaced.
fn nearly_right() -> impl Strategy<Value = Value> {
    let right = select(vec![
        json!({"id": "m2", "to": {"subscription": "s1"}, "payload": {"a": 1}, "ttl": 60, "class": "otp"}),
        json!({"idempotency_key": "k", "to": {"web_push": {"endpoint": "https://push.example/x", "keys": {"p256dh": P256DH, "auth": "BTBZMqHH6r4Tts7J_aSIgg"}}}}),
        json!({"to": {"webhook": {"url": "https://hooks.example/x"}}, "headers": {"x-a": "b"}, "deliver_at": "2027-01-15T09:00:00Z"}),
        json!([{"id": "a", "to": {"subscription": "s1"}}, {"id": "a", "to": {"subscription": "s1"}}]),
        document("fuzz"),
        json!({"subscription": "s2", "tags": ["news"], "expires_in": 60}),
        json!({"token": "k1.acme.m1.x.y", "event": "clicked", "at": "2027-01-15T08:00:00Z"}),
    ]);
    (right, any::<prop::sample::Index>(), any_json()).prop_map(|(mut body, place, value)| {
        let mut places = Vec::new();
        pointers(&body, String::new(), &mut places);
        let place = &places[place.index(places.len())];
        *body.pointer_mut(place).expect("it is there") = value;
        body
    })
}

fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    all.push(at.clone());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| pointers(value, format!("{at}/{name}"), all))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, value)| pointers(value, format!("{at}/{n}"), all))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => nearly_right().prop_map(|json| json.to_string().into_bytes()),
        3 => any_json().prop_map(|json| json.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (nearly_right(), any::<prop::sample::Index>()).prop_map(|(json, cut)| {
            let mut bytes = json.to_string().into_bytes();
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes
        }),
        1 => (0usize..40_000).prop_map(|n| vec![b'['; n]),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let known = router::routes::<Memory>().map(|(_, path, _)| path);
    let id = prop_oneof![select(vec!["s1", "m1", "x"]).prop_map(str::to_owned), "[A-Za-z0-9_%.~-]{1,70}"];
    prop_oneof![
        8 => (select(known.to_vec()), id).prop_map(|(path, id)| path.replace("{id}", &id)),
        1 => "/[a-z0-9/%._~-]{0,40}",
        1 => "/v1/[a-z-]{0,15}/?[?a-z=&%0-9]{0,20}",
    ]
}

fn credential(api: &Api) -> impl Strategy<Value = Vec<u8>> + use<> {
    let good = bearer(&key(1).expose())[0].1.clone();
    let tokens = [api.token("acme", "s1", &["news"], 86_400), api.token("acme", "x", &[], 86_400)];
    let [one, other] = tokens.map(|token| format!("Bearer {token}"));
    prop_oneof![
        6 => Just(good.into_bytes()),
        1 => Just(one.into_bytes()),
        1 => Just(other.into_bytes()),
        1 => "Bearer (rdk|rds)_[A-Za-z0-9_.-]{0,80}".prop_map(String::into_bytes),
        1 => prop::collection::vec(32u8..=255, 0..60),
    ]
}

fn case(api: &Api) -> impl Strategy<Value = Case> + use<> {
    let method = prop_oneof![
        9 => select(vec!["GET", "POST", "PUT", "DELETE"]).prop_map(str::to_owned),
        1 => select(vec!["HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT"]).prop_map(str::to_owned),
        1 => "[A-Z]{1,12}",
    ];
    let media = prop_oneof![
        8 => Just(b"application/json".to_vec()),
        1 => prop::collection::vec(32u8..=126, 0..40),
    ];
    let names = "origin access-control-request-method content-length transfer-encoding x-forwarded-for cookie accept host";
    let value = prop_oneof![Just(b"https://shop.example".to_vec()), prop::collection::vec(32u8..=255, 0..30)];
    let others = prop::collection::vec((select(names.split(' ').collect::<Vec<_>>()), value), 0..3);
    let (credential, media) =
        (prop::option::weighted(0.9, credential(api)), prop::option::weighted(0.9, media));
    (method, path(), credential, media, others, body()).prop_map(
        |(method, path, credential, media, mut headers, body)| {
            headers.extend(credential.map(|value| ("authorization", value)));
            headers.extend(media.map(|value| ("content-type", value)));
            Case { method, path, headers, body }
        },
    )
}

fn request(case: &Case) -> Option<Request<Body>> {
    let mut request = Request::builder().method(case.method.as_str()).uri(case.path.as_str());
    for (name, value) in &case.headers {
        request = request.header(*name, value.as_slice());
    }
    // Not every case can be written as a request.
    request.body(Body::from(case.body.clone())).ok()
}

#[test]
fn no_request_causes_a_5xx() {
    let api = RefCell::new(Api::new());
    let seen = RefCell::new(std::collections::BTreeMap::<u16, u32>::new());
    let mut runner = TestRunner::new_with_rng(
        Config { cases: CASES, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let strategy = case(&api.borrow());
    let run = runner.run(&strategy, |case| {
        let Some(request) = request(&case) else { return Ok(()) };
        // Few stored messages keep the checks fast.
        if api.borrow().memory.state().outbox.len() > 500 {
            *api.borrow_mut() = Api::new();
        }
        let api = api.borrow();
        let logged = api.logged().len();
        let answer = api.answer(request);
        let status = answer.status;
        *seen.borrow_mut().entry(status).or_default() += 1;
        prop_assert!(status < 500, "{status}: {}", answer.text);
        if status >= 400 {
            prop_assert!(!answer.text.contains(MARKER), "{}", answer.text);
        }
        prop_assert!(!api.logged()[logged..].contains(MARKER));
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    let seen = seen.into_inner();
    for status in [200, 201, 202, 207, 401, 403, 404, 405, 413, 415, 422] {
        assert!(seen.contains_key(&status), "no {status} among {seen:?}");
    }
}
