//! Messages that ask for acknowledgements: what their browsers get, and what becomes of what they tell.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::access::AckToken;
use redial_core::ack::AckEvent;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_engine::acks::take;
use redial_engine::ports::{Acknowledged, Deliveries as _};
use redial_memory as memory;
use redial_memory::senders::answered;
use serde_json::{Value, json};

use crate::harness::{Harness, Whom};

const WITH_ACKS: &str = r#","acks":true,"ttl":600"#;

/// What was posted to the browser `m`.
fn posted(harness: &Harness) -> Vec<Vec<u8>> {
    harness.state().sent.iter().map(|push| push.payload.clone()).collect()
}

/// A message with acknowledgements that is sent at the third attempt.
fn sent_on_retry() -> Harness {
    let harness = Harness::finished(Whom::Browser, vec![answered(503), answered(429)], WITH_ACKS);
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    harness
}

#[test]
fn every_attempt_carries_the_same_envelope_whose_token_is_the_delivery_s() {
    let produced = Harness::new().now();
    let harness = sent_on_retry();
    let pushes = posted(&harness);
    assert_eq!(pushes.len(), 3);
    assert!(pushes.iter().all(|push| *push == pushes[0]));

    let envelope: Value = serde_json::from_slice(&pushes[0]).expect("JSON");
    let token = envelope["ack"].as_str().expect("a text");
    let until = produced.as_secs() + 600;
    let text = format!(r#"{{"redial":1,"id":"m","until":{until},"ack":"{token}","payload":"hello m"}}"#);
    assert_eq!(String::from_utf8_lossy(&pushes[0]), text);
    let AckToken { tenant, delivery, expires_at } =
        memory::dispatch_settings().token_keys.read_ack(token, harness.now()).expect("it is good");
    assert_eq!((tenant, delivery), (Harness::key("m").tenant, Harness::key("m").id));
    assert_eq!(expires_at, produced.plus(Duration::from_secs(600 + 7 * 86_400)));
}

#[test]
fn webhooks_and_messages_without_acknowledgements_carry_the_producer_s_payload() {
    for (whom, rest) in
        [(Whom::Browser, ""), (Whom::Browser, r#","acks":false"#), (Whom::Hook, r#","acks":true"#)]
    {
        let harness = Harness::finished(whom, vec![], rest);
        assert_eq!(harness.state_of("m"), Some(State::Sent));
        let state = harness.state();
        let pushed = state.sent.iter().map(|push| &push.payload);
        let payloads: Vec<_> = pushed.chain(state.webhooks.iter().map(|it| &it.body)).collect();
        assert_eq!(payloads, [b"hello m"], "{whom:?}, {rest}");
    }
}

#[test]
fn a_wait_and_a_replay_keep_the_token() {
    // Parked in between, for longer than a queue can hold it back.
    let fields = r#","acks":true,"ttl":86400,"retry":{"retry_delays":[7200],"jitter":"none"}"#;
    let mut harness = Harness::finished(Whom::Browser, vec![answered(503); 2], fields);
    assert_eq!(harness.state_of("m"), Some(State::Failed));
    let body = harness.state().bodies.values().next().expect("its body is kept").body.clone();
    let mut again: Value = serde_json::from_str(&body).expect("JSON");
    again["lineage"] = json!(1);
    again["retry_count"] = json!(0);
    again.as_object_mut().expect("an object").remove("not_before");
    harness.produce_retry(&again.to_string());
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Sent));
    let pushes = posted(&harness);
    assert_eq!(pushes.len(), 3);
    assert!(pushes.iter().all(|push| *push == pushes[0]));
}

#[test]
fn an_envelope_that_no_push_carries_is_a_dead_letter_with_both_lengths() {
    for (bytes, rest, detail) in [
        (3_891, WITH_ACKS, None),
        (
            3_892,
            WITH_ACKS,
            Some(
                "payload: 3894 bytes and 100 more for its id, its end and acknowledgements, and web push carries at \
                 most 3993",
            ),
        ),
        (3_994, "", Some("payload: 3994 bytes, and web push carries at most 3993")),
    ] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.deliver(&Harness::long_message(bytes, rest));
        assert_eq!(harness.ended("m").1, detail.map(|_| Reason::PayloadTooLarge));
        let described = harness.state().described.clone();
        assert_eq!(described.values().next().and_then(|it| it.detail.as_deref()), detail);
    }
}

/// The browser of a delivery acknowledges it.
fn acknowledge(harness: &Harness, id: &str, event: AckEvent) -> Acknowledged {
    let key = Harness::key(id);
    let expires_at = harness.now().plus(AckToken::GRACE);
    let token = AckToken { tenant: key.tenant, delivery: key.id, expires_at };
    let noted = take(&harness.memory, &token, event, harness.now());
    noted.now_or_never().expect("nothing kills it").expect("nothing fails")
}

#[test]
fn acknowledgements_in_any_order_repeated_or_late_are_noted_once_and_counted_apart() {
    for has_events in [false, true] {
        let mut harness = sent_on_retry();
        harness.state().has_events = has_events;
        let mut times = Vec::new();
        for (id, event, expected, later) in [
            ("m", AckEvent::Clicked, Acknowledged::First, 1),
            ("m", AckEvent::Displayed, Acknowledged::First, 5 * 86_400),
            ("m", AckEvent::Clicked, Acknowledged::Again, 1),
            ("m", AckEvent::Closed, Acknowledged::First, 1),
            ("forgotten", AckEvent::Displayed, Acknowledged::Unknown, 1),
        ] {
            assert_eq!(acknowledge(&harness, id, event), expected, "{event:?}");
            times.push(harness.now());
            harness.pass(Duration::from_secs(later));
        }
        let key = Harness::key("m");
        let found = harness.memory.find(&key).now_or_never().expect("nothing kills it");
        assert_eq!(
            found.expect("nothing fails").expect("it is known").acknowledged,
            [(AckEvent::Displayed, times[1]), (AckEvent::Clicked, times[0]), (AckEvent::Closed, times[3])]
        );
        assert_eq!(harness.state_of("m"), Some(State::Sent), "a state is never changed by it");
        for metric in
            [Metric::Displayed, Metric::Clicked, Metric::Closed, Metric::AcksRepeated, Metric::AcksUnknown]
        {
            assert_eq!(harness.count(metric), 1, "{metric:?}");
        }
        harness.run();
        let announced: Vec<_> = harness.events.iter().filter_map(|event| event["state"].as_str()).collect();
        assert_eq!(announced, if has_events { vec!["clicked", "displayed", "closed"] } else { Vec::new() });
    }
}
