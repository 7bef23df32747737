//! What the real functions leave: a message that waits for its time, an origin that fails, and what came through on which lane.

use std::{fs, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial::local::Options;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::{Answer, PushService, Subscriber};
use serde_json::{Value, json};

use super::world::{World, parked, queue};

#[tokio::test]
async fn what_the_functions_do_is_seen() {
    let push = PushService::start().expect("a free port");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, push.ca_pem()).expect("the folder is writable");
    let options =
        Options { egress_allow: vec![push.origin().to_owned()], egress_ca: Some(ca), ..Options::default() };
    let world = World::with(options).await;
    let key = URL_SAFE_NO_PAD.decode(&world.stack.description().vapid_public_key).expect("base64url");
    let browser = push.subscribe(&key);
    push.always(&browser.endpoint, Answer::status(503).with_header("retry-after", "300"));

    send(&world, &browser, "later", Some(System.now().plus(Duration::from_secs(3_000)))).await;
    for n in 0..4 {
        send(&world, &browser, &format!("now-{n}"), None).await;
    }
    let document = world
        .until("it is parked, delayed and counted", |document| {
            parked(document, "transactional", "1h")["messages"] == 1
                && queue(document, Some("transactional"), "retry")["delayed"] == 4
                && failures(document).is_some_and(|failures| failures > 0)
        })
        .await;
    what_came_through_is_told_by_lane(&world, &push).await;
    assert_eq!(document["parked"]["lanes"][0]["at_least"], false, "{document:#}");
    assert_eq!(document["origins"][0]["origin"], push.origin());
    assert_eq!(queue(&document, Some("transactional"), "ingest")["waiting"], 0);
    assert_eq!(document["parked"]["late_for_seconds"], Value::Null);
    assert_eq!(world.stack.poller_failure(), None);
}

/// One that is sent on the transactional lane, and of two on the bulk lane one that is refused; again until all of it is told: what a
/// function writes last, the emulator may take for its next invocation's.
async fn what_came_through_is_told_by_lane(world: &World, push: &PushService) {
    let key = URL_SAFE_NO_PAD.decode(&world.stack.description().vapid_public_key).expect("base64url");
    let browser = |answer| {
        let browser = push.subscribe(&key);
        push.always(&browser.endpoint, answer);
        browser
    };
    let (well, refusing) = (browser(Answer::created()), browser(Answer::status(400)));
    let queues = &world.stack.description().queues;
    let mut told = Value::Null;
    for n in 0..30 {
        for (queue, to, id) in [
            (&queues.ingest, &well, "code"),
            (&queues.bulk, &well, "news"),
            (&queues.bulk, &refusing, "refused"),
        ] {
            let id = format!("{id}-{n}");
            let message =
                json!({"tenant": "acme", "id": id, "to": {"web_push": to.json()}, "payload": "hello"});
            put(world, queue, &message).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        told = world.document()["last_minutes"].clone();
        let number = |lane: usize, what: &str| told["lanes"][lane][what].as_u64();
        if number(0, "sent") > Some(0) && number(1, "sent") > Some(0) && number(1, "failed") > Some(0) {
            assert_eq!(
                (&told["lanes"][0]["lane"], &told["lanes"][1]["lane"]),
                (&json!("transactional"), &json!("bulk"))
            );
            assert_eq!(told["lanes"][0]["failed"], 0, "{told:#}");
            return;
        }
    }
    panic!("it is not told: {told:#}");
}

fn failures(document: &Value) -> Option<u64> {
    document["origins"][0]["failures"].as_u64()
}

async fn send(world: &World, to: &Subscriber, id: &str, at: Option<Timestamp>) {
    let mut message =
        json!({"tenant": "acme", "id": id, "to": {"web_push": to.json()}, "payload": "hello", "ttl": 86_400});
    if let Some(at) = at {
        message["deliver_at"] = at.to_rfc3339().into();
    }
    put(world, &world.stack.description().queues.ingest, &message).await;
}

async fn put(world: &World, queue: &str, message: &Value) {
    let sending = world.sqs().send_message().queue_url(queue);
    let sending = sending.message_group_id("acme").message_body(message.to_string());
    sending.send().await.expect("the queue takes it");
}
