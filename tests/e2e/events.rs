//! Events to a producer's own queue, sent by the real functions, and the README's consumer of them.

use redial_core::recipient::Recipient;
use redial_tests::{prelude::*, test_stack::set_env};
use tokio::process::Command;

use crate::readme;

/// A message to each of three browsers: one that works, one that is gone, and one whose push service always fails.
async fn three_ends(stack: &TestStack) {
    let answers = [Answer::created(), Answer::fixture(Fixture::MozillaGone), Answer::status(503)];
    for (n, answer) in (1..).zip(answers) {
        let target = push_target(&stack.browser_answering(answer));
        stack.subscribe(&format!("s{n}"), Recipient::WebPush(target)).await;
    }
    for n in 1..=3 {
        let message = json!({
            "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"), "payload": "hello", "tags": ["order", "eu"],
            "to": {"subscription": format!("s{n}")}, "retry": {"max_retries": 1, "base_delay_ms": 100},
        });
        stack.send(&message).await;
    }
    stack.until_quiet().await;
}

#[tokio::test]
async fn each_end_and_a_pruned_subscription_are_reported() {
    let stack = TestStack::up_with(|options| {
        options.events = true;
        set_env(options, [("SPIKE_WINDOW_SECONDS", "4")]);
    })
    .await;
    three_ends(&stack).await;
    let mut events = stack.take_events().await;
    events.sort_by_key(|event| event["id"].to_string());
    assert_eq!(events.len(), 3, "{events:?}");
    let ends = [("sent", None, 201), ("gone", Some("gone"), 410), ("failed", Some("retries_exhausted"), 503)];
    for ((n, event), (state, reason, status)) in (1..).zip(&events).zip(ends) {
        let expected = json!({
            "v": 1, "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"), "at": event["at"],
            "subscription": format!("s{n}"), "state": state, "reason": reason, "status": status,
            "tags": ["eu", "order"], "traceparent": null,
        });
        assert_eq!(*event, expected);
        assert!(Timestamp::parse_rfc3339(event["at"].as_str().expect("a time")).is_some());
    }

    the_readme_s_consumer_prints_every_state_once(&stack, &events).await;
    let pruned = stack
        .until("the window is over and the sweep has sent an event", async || {
            stack.sweep("prune").await;
            Some(stack.take_events().await).filter(|events| !events.is_empty())
        })
        .await;
    let [event] = pruned.as_slice() else { panic!("{pruned:?}") };
    assert_fields(event, json!({"subscription": "s2", "state": "pruned", "id": null}));
}

async fn the_readme_s_consumer_prints_every_state_once(stack: &TestStack, events: &[Value]) {
    let url = stack.queues().events.as_deref().expect("it has a queue of events");
    // One of them twice, as after a crash.
    for event in events.iter().chain(&events[..1]) {
        stack.sqs.send_message().queue_url(url).message_body(event.to_string()).send().await.expect("sent");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut consumer = Command::new(readme::python());
    consumer.args(["-c", &readme::snippet("python consumer")]).current_dir(folder.path());
    let done = readme::with_access(&mut consumer, stack)
        .env("EVENTS_QUEUE_URL", url)
        .env("STOP_WHEN_EMPTY", "1")
        .output()
        .await
        .expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut lines: Vec<_> = std::str::from_utf8(&done.stdout).expect("text").lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["order 1: sent", "order 2: gone (gone)", "order 3: failed (retries_exhausted)"]);
    assert_eq!(stack.depth(url).await, 0);
}
