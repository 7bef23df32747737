//! Events to a producer's own queue, sent by the real functions, and the README's consumer of them.

use std::collections::BTreeMap;

use redial_core::recipient::Recipient;
use redial_tests::prelude::*;
use tokio::process::Command;

use crate::readme;

async fn with_events() -> TestStack {
    TestStack::up_with(|options| {
        options.events = true;
        options.env.insert("SPIKE_WINDOW_SECONDS".to_owned(), "4".to_owned());
    })
    .await
}

/// A message to each of three browsers: one that works, one that is gone, and one whose push service always fails.
async fn three_ends(stack: &TestStack) {
    let answers = [Answer::created(), Answer::fixture(Fixture::MozillaGone), Answer::status(503)];
    for (n, answer) in (1..).zip(answers) {
        let target = push_target(&stack.browser_answering(answer));
        stack.subscribe(&format!("s{n}"), Recipient::WebPush(target)).await;
    }
    for n in 1..=3 {
        let message = json!({
            "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"), "payload": "hello",
            "to": {"subscription": format!("s{n}")}, "retry": {"max_retries": 1, "base_delay_ms": 100},
        });
        stack.send(&message).await;
    }
    stack.until_quiet().await;
}

#[tokio::test]
async fn each_end_and_a_pruned_subscription_are_reported() {
    let stack = with_events().await;
    three_ends(&stack).await;
    let events: BTreeMap<String, Value> =
        stack.take_events().await.into_iter().map(|event| (event["id"].to_string(), event)).collect();
    assert_eq!(events.len(), 3, "{events:?}");
    for (n, state, reason, status) in [
        (1, "sent", Value::Null, 201),
        (2, "gone", json!("gone"), 410),
        (3, "failed", json!("retries_exhausted"), 503),
    ] {
        let event = &events[&format!("\"m{n}\"")];
        let mut expected = json!({
            "v": 1, "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"),
            "subscription": format!("s{n}"), "state": state, "reason": reason, "status": status,
        });
        expected["at"] = event["at"].clone();
        assert_eq!(*event, expected);
        assert!(Timestamp::parse_rfc3339(event["at"].as_str().expect("a time")).is_some());
    }

    let pruned = stack
        .until("the window is over and the sweep has sent an event", async || {
            stack.sweep("prune").await;
            Some(stack.take_events().await).filter(|events| !events.is_empty())
        })
        .await;
    let [event] = pruned.as_slice() else { panic!("{pruned:?}") };
    assert_eq!((&event["subscription"], &event["state"]), (&json!("s2"), &json!("pruned")));
    assert_eq!(event["id"], Value::Null);
}

#[tokio::test]
async fn the_readme_s_consumer_prints_every_state_once() {
    let stack = with_events().await;
    three_ends(&stack).await;
    // Sent again, as after a crash.
    let url = stack.description().queues.events.clone().expect("it has a queue of events");
    let again = json!({
        "v": 1, "tenant": "acme", "id": "m1", "ref": "order 1", "subscription": "s1", "state": "sent",
        "reason": null, "status": 201, "at": "2026-11-21T10:00:00.000Z",
    });
    stack.sqs.send_message().queue_url(&url).message_body(again.to_string()).send().await.expect("sent");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut consumer = Command::new(readme::python());
    consumer.args(["-c", &readme::snippet("python consumer")]).current_dir(folder.path());
    let done = readme::with_access(&mut consumer, &stack)
        .env("EVENTS_QUEUE_URL", &url)
        .env("STOP_WHEN_EMPTY", "1")
        .output()
        .await
        .expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut lines: Vec<_> = std::str::from_utf8(&done.stdout).expect("text").lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["order 1: sent", "order 2: gone (gone)", "order 3: failed (retries_exhausted)"]);
    assert_eq!(stack.depth(&url).await, 0);
}
