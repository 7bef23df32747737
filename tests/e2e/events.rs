//! Events out: what a producer's own queue is told, by the real functions, and the README's consumer over it.

use std::collections::BTreeMap;
use std::process::Stdio;

use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;
use redial_testkit::push_service::{Answer, Fixture, Subscriber};
use redial_tests::deployment::Deployment;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::readme;

async fn telling() -> Deployment {
    Deployment::up_with(|options| {
        options.events = true;
        options.env.insert("SPIKE_WINDOW_SECONDS".to_owned(), "4".to_owned());
    })
    .await
}

async fn subscribe(it: &Deployment, id: &str, browser: &Subscriber) {
    let target = PushTarget {
        endpoint: Endpoint::parse(&browser.endpoint).expect("valid"),
        keys: PushKeys::parse(&browser.p256dh, &browser.auth).expect("valid"),
        vapid_key_id: None,
    };
    let key = SubscriptionKey {
        tenant: Tenant::parse("acme").expect("valid"),
        id: SubscriptionId::parse(id).expect("valid"),
    };
    let subscription = Subscription::new(key, Recipient::WebPush(target));
    let stored = it.subscriptions().await.put(&subscription, Timestamp::from_secs(1_800_000_000)).await;
    assert_eq!(stored, Ok(true));
}

/// A browser that is well, one that is gone, and one whose push service always fails; a message to each.
async fn three_ends(it: &Deployment) {
    let (well, gone, failing) = (it.subscriber(), it.subscriber(), it.subscriber());
    it.push.always(&gone.endpoint, Answer::fixture(Fixture::MozillaGone));
    it.push.always(&failing.endpoint, Answer::status(503));
    subscribe(it, "s1", &well).await;
    subscribe(it, "s2", &gone).await;
    subscribe(it, "s3", &failing).await;
    for n in 1..=3 {
        let message = json!({
            "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"), "payload": "hello",
            "to": {"subscription": format!("s{n}")}, "retry": {"max_retries": 1, "base_delay_ms": 100},
        });
        it.send(&message).await;
    }
    it.until_quiet().await;
}

#[tokio::test]
async fn each_end_is_told_with_its_reference_and_a_pruned_subscription_after_it() {
    let it = telling().await;
    three_ends(&it).await;
    let told: BTreeMap<String, Value> =
        it.take_events().await.into_iter().map(|event| (event["id"].to_string(), event)).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    for (n, state, reason, status) in [
        (1, "sent", Value::Null, 201),
        (2, "gone", json!("gone"), 410),
        (3, "failed", json!("retries_exhausted"), 503),
    ] {
        let event = &told[&format!("\"m{n}\"")];
        let mut expected = json!({
            "v": 1, "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"),
            "subscription": format!("s{n}"), "state": state, "reason": reason, "status": status,
        });
        expected["at"] = event["at"].clone();
        assert_eq!(*event, expected);
        assert!(Timestamp::parse_rfc3339(event["at"].as_str().expect("a time")).is_some());
    }

    let pruned = it
        .until("the window is over and the sweep has told", async || {
            it.invoke(&it.description().functions.cleanup, &json!({"sweep": "prune"})).await;
            Some(it.take_events().await).filter(|events| !events.is_empty())
        })
        .await;
    let [event] = pruned.as_slice() else { panic!("{pruned:?}") };
    assert_eq!((&event["subscription"], &event["state"]), (&json!("s2"), &json!("pruned")));
    assert_eq!(event["id"], Value::Null);
}

#[tokio::test]
async fn the_readme_s_consumer_learns_every_state_once() {
    let it = telling().await;
    three_ends(&it).await;
    // Told again, as after a crash: the consumer must not mind.
    let url = it.description().queues.events.clone().expect("it tells events");
    let again = json!({
        "v": 1, "tenant": "acme", "id": "m1", "ref": "order 1", "subscription": "s1", "state": "sent",
        "reason": null, "status": 201, "at": "2026-11-21T10:00:00.000Z",
    });
    it.sqs.send_message().queue_url(&url).message_body(again.to_string()).send().await.expect("sent");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let done = Command::new(readme::python())
        .args(["-c", &readme::snippet("python consumer")])
        .current_dir(folder.path())
        .env("AWS_ENDPOINT_URL", &it.description().endpoint)
        .env("AWS_DEFAULT_REGION", &it.description().region)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("EVENTS_QUEUE_URL", &url)
        .env("STOP_WHEN_EMPTY", "1")
        .stdin(Stdio::null())
        .output()
        .await
        .expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut lines: Vec<_> = std::str::from_utf8(&done.stdout).expect("text").lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["order 1: sent", "order 2: gone (gone)", "order 3: failed (retries_exhausted)"]);
    assert_eq!(it.depth(&url).await, 0);
}
