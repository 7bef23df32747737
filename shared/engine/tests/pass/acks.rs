//! Messages that ask for acknowledgements: what their browsers get, and what becomes of what they tell.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::access::AckToken;
use redial_core::ack::AckEvent;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_engine::acks::take;
use redial_engine::ports::{Acknowledged, Clock as _, Deliveries as _};
use redial_testkit::memory::sender::answered;
use serde_json::{Value, json};

use crate::harness::Harness;

const WITH_ACKS: &str = r#","acks":true,"ttl":600"#;

/// What was posted to where the browser of an id is.
fn posted(harness: &Harness, id: &str) -> Vec<Vec<u8>> {
    let state = harness.memory.state();
    let to = Harness::endpoint(id);
    state.sent.iter().filter(|push| push.endpoint == to).map(|push| push.payload.clone()).collect()
}

fn token_of(plaintext: &[u8]) -> String {
    let envelope: Value = serde_json::from_slice(plaintext).expect("JSON");
    envelope["ack"].as_str().expect("a text").to_owned()
}

/// A message with acknowledgements that is sent at the third attempt.
fn sent_on_retry() -> Harness {
    let harness = Harness::with_push(vec![answered(503), answered(429)], WITH_ACKS).run_to_the_end();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    harness
}

#[test]
fn every_attempt_carries_the_same_envelope_whose_token_is_the_delivery_s() {
    let produced = Harness::new().memory.now();
    let harness = sent_on_retry();
    let pushes = posted(&harness, "m");
    assert_eq!(pushes.len(), 3);
    assert!(pushes.iter().all(|push| *push == pushes[0]));

    let token = token_of(&pushes[0]);
    let text = format!(r#"{{"redial":1,"id":"m","ack":"{token}","payload":"hello m"}}"#);
    assert_eq!(String::from_utf8_lossy(&pushes[0]), text);
    let AckToken { tenant, delivery, expires_at } =
        Harness::token_keys().read_ack(&token, harness.now()).expect("it is good");
    assert_eq!((tenant, delivery), (Harness::key("m").tenant, Harness::key("m").id));
    assert_eq!(expires_at, produced.plus(Duration::from_secs(600 + 7 * 86_400)));
}

#[test]
fn without_acknowledgements_the_payload_is_the_producer_s() {
    for rest in ["", r#","acks":false"#] {
        let harness = Harness::with_push(vec![], rest).run_to_the_end();
        assert_eq!(posted(&harness, "m"), [b"hello m"]);
    }
}

#[test]
fn a_wait_and_a_replay_keep_the_token() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    // Parked in between, for longer than a queue can hold it back.
    let retry = r#","acks":true,"ttl":86400,"retry":{"retry_delays":[7200],"jitter":"none"}"#;
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(503), answered(503)]);
    harness.produce(&Harness::message("m", retry));
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Failed));
    let body = harness.memory.state().bodies.values().next().expect("its body is kept").body.clone();
    let mut again: Value = serde_json::from_str(&body).expect("JSON");
    again["lineage"] = json!(1);
    again["retry_count"] = json!(0);
    again.as_object_mut().expect("an object").remove("not_before");
    harness.produce_retry(&again.to_string());
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    let pushes = posted(&harness, "m");
    assert_eq!(pushes.len(), 3);
    assert!(pushes.iter().all(|push| *push == pushes[0]));
}

#[test]
fn a_stored_webhook_gets_the_producer_s_payload() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.produce(&Harness::message("m", r#","acks":true"#));
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    assert_eq!(harness.memory.state().webhooks[0].body, b"hello m");
}

#[test]
fn an_envelope_that_no_push_carries_is_a_dead_letter_that_says_what_it_takes() {
    let of = |bytes: usize, rest: &str| {
        let mut harness = Harness::new();
        harness.subscribe("m");
        let payload = "x".repeat(bytes);
        harness.produce(&format!(
            r#"{{"tenant":"acme","id":"m","to":{{"subscription":"m"}},"payload":"{payload}"{rest}}}"#
        ));
        harness.run();
        let detail =
            harness.memory.state().described.values().next().and_then(|described| described.detail.clone());
        (harness.entry("m").and_then(|entry| entry.reason), detail)
    };
    let overhead = 81;
    assert_eq!(of(3993 - overhead - 2, WITH_ACKS), (None, None));
    assert_eq!(
        of(3993 - overhead - 1, WITH_ACKS),
        (
            Some(Reason::PayloadTooLarge),
            Some(
                "payload: 3913 bytes in an envelope for acknowledgements that takes 81 more, and web push carries at \
                 most 3993"
                    .to_owned()
            )
        )
    );
    assert_eq!(
        of(3994, ""),
        (
            Some(Reason::PayloadTooLarge),
            Some("payload: 3994 bytes, and web push carries at most 3993".to_owned())
        )
    );
}

/// The browser of a delivery acknowledges it.
fn acknowledge(harness: &Harness, id: &str, event: AckEvent) -> Acknowledged {
    let key = Harness::key(id);
    let memory = &harness.memory;
    let noted = take(memory, memory, memory, memory, &key, event, memory.now());
    noted.now_or_never().expect("nothing kills it").expect("nothing fails")
}

fn noted(harness: &Harness, id: &str) -> Vec<(AckEvent, Timestamp)> {
    let key = Harness::key(id);
    let found = harness.memory.find(&key).now_or_never();
    found.expect("nothing kills it").expect("nothing fails").expect("it is known").acknowledged
}

fn counted(harness: &Harness, metric: Metric) -> u64 {
    harness.memory.state().counts.get(&metric).copied().unwrap_or_default()
}

#[test]
fn what_is_told_in_any_order_again_or_late_is_noted_once_and_counted_apart() {
    for has_events in [false, true] {
        let mut harness = sent_on_retry();
        harness.memory.state().has_events = has_events;
        let clicked_at = harness.now();
        assert_eq!(acknowledge(&harness, "m", AckEvent::Clicked), Acknowledged::First);
        harness.memory.pass(Duration::from_secs(1));
        let displayed_at = harness.now();
        assert_eq!(acknowledge(&harness, "m", AckEvent::Displayed), Acknowledged::First);
        harness.memory.pass(Duration::from_secs(5 * 86_400));
        assert_eq!(acknowledge(&harness, "m", AckEvent::Clicked), Acknowledged::Again);
        let closed_at = harness.now();
        assert_eq!(acknowledge(&harness, "m", AckEvent::Closed), Acknowledged::First);
        assert_eq!(acknowledge(&harness, "forgotten", AckEvent::Displayed), Acknowledged::Unknown);

        assert_eq!(
            noted(&harness, "m"),
            [
                (AckEvent::Displayed, displayed_at),
                (AckEvent::Clicked, clicked_at),
                (AckEvent::Closed, closed_at)
            ]
        );
        assert_eq!(harness.state_of("m"), Some(State::Sent), "a state is never changed by it");
        for (metric, times) in [
            (Metric::Displayed, 1),
            (Metric::Clicked, 1),
            (Metric::Closed, 1),
            (Metric::AcksRepeated, 1),
            (Metric::AcksUnknown, 1),
        ] {
            assert_eq!(counted(&harness, metric), times, "{metric:?}");
        }
        harness.run();
        let announced: Vec<_> =
            harness.events.iter().filter_map(|event| event["state"].as_str().map(str::to_owned)).collect();
        assert_eq!(announced, if has_events { vec!["clicked", "displayed", "closed"] } else { Vec::new() });
    }
}
