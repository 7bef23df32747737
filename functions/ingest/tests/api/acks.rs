//! Acknowledgements, keys and health: the routes that need no API key.

use redial_core::ack::AckEvent;
use redial_core::queue::Queue;
use redial_memory::{Death, PortErrorKind};
use serde_json::{Value, json};

use crate::api::{Answer, Api, P256DH, delivery};

fn sent(api: &Api, id: &str) {
    let message = json!({"id": id, "to": {"subscription": "s1"}});
    assert_eq!(api.post("/v1/messages", &message).status, 202);
    api.memory.state().outbox.clear();
}

fn ack(api: &Api, id: &str, event: &str) -> Value {
    json!({"token": api.ack_token("acme", id, 60), "event": event})
}

/// As `navigator.sendBeacon` does.
fn beacon(api: &Api, body: &Value) -> Answer {
    let headers = [
        ("content-type", "text/plain;charset=UTF-8".to_owned()),
        ("origin", "https://shop.example".to_owned()),
    ];
    api.answer(Api::request("POST", "/v1/acks", &headers, body.to_string()))
}

#[test]
fn the_first_report_of_each_event_counts_in_any_order() {
    let api = Api::new();
    sent(&api, "m1");
    for (event, duplicate) in [("clicked", false), ("displayed", false), ("clicked", true), ("closed", false)]
    {
        let answer = beacon(&api, &ack(&api, "m1", event));
        let expected = json!({"id": "m1", "event": event, "duplicate": duplicate});
        assert_eq!((answer.status, answer.json()), (202, expected));
    }
    let known = api.get("/v1/messages/m1").json();
    for field in ["displayed_at", "clicked_at", "closed_at"] {
        assert_eq!(known[field], "2027-01-15T08:00:00.000Z");
    }
    assert_eq!(known["state"], "queued", "acknowledgements do not change the state");
}

#[test]
fn a_batch_of_acknowledgements_has_a_result_each() {
    let api = Api::new();
    sent(&api, "m1");
    let all = json!([ack(&api, "m1", "displayed"), {"token": "x", "event": "clicked"}, {"event": "seen"}]);
    let answer = beacon(&api, &all);
    assert_eq!(answer.status, 207);
    let items = &answer.json()["items"];
    assert_eq!([0, 1, 2].map(|n| items[n]["status"].clone()), [202, 401, 422]);
    let many = Value::from_iter((0..21).map(|_| ack(&api, "m1", "displayed")));
    assert_eq!(beacon(&api, &many).status, 422);
}

#[test]
fn an_invalid_token_records_nothing() {
    let api = Api::new();
    sent(&api, "m1");
    sent(&api, "m2");
    let before = api.snapshot();
    let good = api.ack_token("acme", "m1", 60);
    for token in [
        String::new(),
        "x".repeat(5000),
        good[1..].to_owned(),
        good.replacen("m1", "m2", 1),
        good.replacen("acme", "other", 1),
        api.ack_token("acme", "m1", 0),
        api.ack_token("acme", "m1", -1),
        api.token("acme", "m1", &[], 60),
    ] {
        let body = json!({"token": token, "event": "displayed"});
        beacon(&api, &body).is_problem(401, "unauthorized", token);
    }
    assert_eq!(api.snapshot(), before);
    // A valid token of a delivery that has expired.
    let late = beacon(&api, &ack(&api, "forgotten", "displayed"));
    assert_eq!((late.status, &late.json()["duplicate"]), (202, &json!(false)));
    assert_eq!(api.snapshot(), before);
}

#[test]
fn producers_get_an_event_for_the_first_report_of_a_known_delivery() {
    let api = Api::new();
    sent(&api, "m1");
    api.memory.state().has_events = true;
    for _ in 0..2 {
        beacon(&api, &ack(&api, "m1", "clicked"));
        beacon(&api, &ack(&api, "forgotten", "clicked"));
    }
    let state = api.memory.state();
    let [event] = state.outbox.as_slice() else { panic!("{:?}", state.outbox) };
    assert_eq!(event.queue, Queue::Events);
    let body: Value = serde_json::from_str(&event.body).expect("JSON");
    assert_eq!(["id", "state", "subscription"].map(|name| body[name].clone()), ["m1", "clicked", "s1"]);
}

#[test]
fn an_event_is_queued_before_it_is_recorded_wherever_the_worker_dies() {
    let report = |n, death: fn(usize) -> Death| {
        let api = Api::new();
        sent(&api, "m1");
        api.memory.state().has_events = true;
        api.memory.revive();
        api.memory.state().death = Some(death(n));
        let body = ack(&api, "m1", "displayed").to_string();
        let died = api.try_send(Api::request("POST", "/v1/acks", &[], body)).is_none();
        api.memory.revive();
        beacon(&api, &ack(&api, "m1", "displayed"));
        let state = api.memory.state();
        assert!((1..=2).contains(&state.outbox.len()), "{n}");
        assert!(state.acknowledged.contains_key(&(delivery("acme", "m1"), AckEvent::Displayed)), "{n}");
        died
    };
    let deaths = (1..=3).flat_map(|n| [report(n, Death::Before), report(n, Death::After)]);
    assert_eq!(deaths.filter(|died| *died).count(), 6);
}

#[test]
fn a_browser_that_reports_too_often_is_limited() {
    let api = Api::new();
    sent(&api, "m1");
    let statuses: Vec<u16> = (0..25).map(|_| beacon(&api, &ack(&api, "m1", "displayed")).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 20);
    assert_eq!(statuses[24], 429);
}

#[test]
fn keys_are_public_and_show_the_current_one() {
    let api = Api::new();
    let answer = api.send("GET", "/v1/keys", &[], "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["cache-control"], "public, max-age=300");
    let body = answer.json();
    assert_eq!(body["current"], "v2");
    assert_eq!(body["keys"][0], json!({"id": "default", "public_key": P256DH, "current": false}));
    assert_eq!(body["keys"][1]["current"], true);
    api.memory.fail("public_keys", 1, PortErrorKind::Broken);
    let answer = api.send("GET", "/v1/keys", &[], "");
    assert_eq!((answer.status, answer.headers["cache-control"].as_bytes()), (503, &b"no-store"[..]));
}

#[test]
fn health_calls_no_port() {
    let api = Api::new();
    let answer = api.send("GET", "/v1/health", &[], "");
    let expected = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!((answer.status, answer.json()), (200, expected));
    assert!(api.memory.state().trace.is_empty());
}
