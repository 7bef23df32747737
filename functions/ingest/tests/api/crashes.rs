//! The worker is killed at every effect, and its caller retries: the message is delivered once.

use std::time::Duration;

use redial_core::body::Body;
use redial_core::lane::Lane;
use redial_core::ledger::State;
use redial_core::message::QueueKind;
use redial_core::queue::Queue;
use redial_engine::deliver::{Incoming, Invocation, Settings};
use redial_engine::ports::{Clock, Receipt};
use redial_engine::protection::Guard;
use redial_memory::{self as memory, Death};
use serde_json::{Value, json};

use crate::api::{Api, delivery, document, json_type};

/// Dispatches every queued message.
fn dispatch(api: &Api) {
    let settings = Settings { push_hosts: api.settings.push_hosts.clone(), ..memory::dispatch_settings() };
    let worker = api.memory.dispatch(settings, Guard::default());
    let queued = std::mem::take(&mut api.memory.state().outbox);
    for (n, message) in queued.into_iter().enumerate() {
        assert_eq!(message.queue, Queue::Ingest(Lane::Transactional));
        let receipt = Receipt { lane: Lane::Transactional, kind: QueueKind::Ingest, handle: String::new() };
        let incoming = Incoming {
            receipt,
            body: Body::new(message.body),
            sent: Clock::now(&api.memory),
            receive_count: 1,
            traceparent: None,
            message_id: format!("sqs-{n}"),
        };
        let deadline = Clock::now(&api.memory).plus(Duration::from_secs(30));
        let invocation = Invocation { lease_token: format!("invocation-{n}"), deadline };
        let back = worker.deliver(&invocation, vec![incoming]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(back), [""; 0]);
    }
}

fn killed(requests: &[Value], death: fn(usize) -> Death) -> usize {
    let mut deaths = 0;
    for n in 1.. {
        let api = Api::new();
        assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
        api.memory.revive();
        api.memory.state().death = Some(death(n));
        let mut died = false;
        for body in requests {
            let headers = [&Api::acme()[..], &json_type()].concat();
            let send =
                |api: &Api| api.try_send(Api::request("POST", "/v1/messages", &headers, body.to_string()));
            if send(&api).is_none() {
                died = true;
                api.memory.revive();
                let answer = send(&api.again()).expect("the worker lives");
                assert!(answer.status < 300, "{n}: {answer:?}");
            }
        }
        api.memory.revive();
        let queued = api.memory.state().outbox.len();
        dispatch(&api);
        let state = api.memory.state();
        for id in ["m1", "m2"] {
            let entry = state.ledger.get(&delivery("acme", id));
            assert_eq!(entry.map(|it| it.state), Some(State::Sent), "{n}: {id}");
        }
        assert_eq!(state.sent.len(), 2, "{n}: {queued} were queued");
        assert!(!state.ledger.values().any(|entry| entry.in_doubt), "{n}");
        if !died {
            return deaths;
        }
        deaths += 1;
    }
    deaths
}

#[test]
fn messages_and_batches_sent_again_after_a_crash_are_delivered_once() {
    let message = |id: &str| json!({"id": id, "to": {"subscription": "s1"}, "payload": id});
    let batch = json!([message("m1"), message("m2"), message("m1")]);
    for death in [Death::Before, Death::After] {
        // Key, entry, queue; twice, or once for the batch.
        assert_eq!(killed(&[message("m1"), message("m2")], death), 6);
        assert_eq!(killed(std::slice::from_ref(&batch), death), 3);
    }
}
