//! With the real functions: a message that waits for its time, an origin that fails, and what each lane sent.

use std::{fs, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial::local::Options;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::{Answer, PushService, Subscriber};
use serde_json::{Value, json};

use super::harness::{Harness, parked, queue};

#[tokio::test]
async fn the_summary_shows_what_the_functions_do() {
    let push = PushService::start().expect("a free port");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, push.ca_pem()).expect("the folder is writable");
    let options =
        Options { egress_allow: vec![push.origin().to_owned()], egress_ca: Some(ca), ..Options::default() };
    let harness = Harness::with(options).await;
    let key = URL_SAFE_NO_PAD.decode(&harness.stack.description().vapid_public_key).expect("base64url");
    let browser = push.subscribe(&key);
    push.always(&browser.endpoint, Answer::status(503).with_header("retry-after", "300"));

    send(&harness, &browser, "later", Some(System.now().plus(Duration::from_secs(3_000)))).await;
    for n in 0..4 {
        send(&harness, &browser, &format!("now-{n}"), None).await;
    }
    let document = harness
        .until("it is parked, delayed and counted", |document| {
            parked(document, "transactional", "1h")["messages"] == 1
                && queue(document, Some("transactional"), "retry")["delayed"] == 4
                && failures(document).is_some_and(|failures| failures > 0)
        })
        .await;
    sent_and_failed_messages_are_counted_by_lane(&harness, &push).await;
    assert_eq!(document["parked"]["lanes"][0]["at_least"], false, "{document:#}");
    assert_eq!(document["origins"][0]["origin"], push.origin());
    assert_eq!(queue(&document, Some("transactional"), "ingest")["waiting"], 0);
    assert_eq!(document["parked"]["late_for_seconds"], Value::Null);
    assert_eq!(harness.stack.poller_failure(), None);
}

/// One message on the transactional lane, and two on the bulk lane of which one is refused; repeated until all of it is counted,
/// because the emulator may write a function's last lines only with its next invocation.
async fn sent_and_failed_messages_are_counted_by_lane(harness: &Harness, push: &PushService) {
    let key = URL_SAFE_NO_PAD.decode(&harness.stack.description().vapid_public_key).expect("base64url");
    let browser = |answer| {
        let browser = push.subscribe(&key);
        push.always(&browser.endpoint, answer);
        browser
    };
    let (well, refusing) = (browser(Answer::created()), browser(Answer::status(400)));
    let queues = &harness.stack.description().queues;
    let mut last = Value::Null;
    for n in 0..30 {
        for (queue, to, id) in [
            (&queues.ingest, &well, "code"),
            (&queues.bulk, &well, "news"),
            (&queues.bulk, &refusing, "refused"),
        ] {
            let id = format!("{id}-{n}");
            let message =
                json!({"tenant": "acme", "id": id, "to": {"web_push": to.json()}, "payload": "hello"});
            put(harness, queue, &message).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        last = harness.document()["last_minutes"].clone();
        let number = |lane: usize, what: &str| last["lanes"][lane][what].as_u64();
        if number(0, "sent") > Some(0) && number(1, "sent") > Some(0) && number(1, "failed") > Some(0) {
            assert_eq!(
                (&last["lanes"][0]["lane"], &last["lanes"][1]["lane"]),
                (&json!("transactional"), &json!("bulk"))
            );
            assert_eq!(last["lanes"][0]["failed"], 0, "{last:#}");
            return;
        }
    }
    panic!("not all is counted: {last:#}");
}

fn failures(document: &Value) -> Option<u64> {
    document["origins"][0]["failures"].as_u64()
}

async fn send(harness: &Harness, to: &Subscriber, id: &str, at: Option<Timestamp>) {
    let mut message =
        json!({"tenant": "acme", "id": id, "to": {"web_push": to.json()}, "payload": "hello", "ttl": 86_400});
    if let Some(at) = at {
        message["deliver_at"] = at.to_rfc3339().into();
    }
    put(harness, &harness.stack.description().queues.ingest, &message).await;
}

async fn put(harness: &Harness, queue: &str, message: &Value) {
    let sending = harness.sqs().send_message().queue_url(queue);
    let sending = sending.message_group_id("acme").message_body(message.to_string());
    sending.send().await.expect("the queue takes it");
}
