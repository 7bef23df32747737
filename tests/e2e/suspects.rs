//! Suspect subscriptions, by the real functions: refused again and again, announced, held but for a probe, and verified.

use redial_core::{recipient::Recipient, subscription::SameEndpoint};
use redial_engine::ports::SubscriptionBook as _;
use redial_tests::{
    prelude::*,
    test_stack::{renewal, set_env},
};

/// Dead letters count a second apart, and probes are hours apart.
async fn holding() -> TestStack {
    TestStack::up_with(|options| {
        options.events = true;
        set_env(options, [("SUSPECT_APART_SECONDS", "1"), ("SUSPECT_SUBSCRIPTIONS", "hold")]);
    })
    .await
}

async fn send(stack: &TestStack, id: &str, to: &str) {
    let message = json!({"tenant": "acme", "id": id, "to": {"subscription": to}, "payload": "hello"});
    stack.send(&message).await;
}

async fn stored(stack: &TestStack, id: &str) -> Item {
    let key = format!("acme#{id}");
    stack.item(&stack.tables().subscriptions, &[("pk", &key)]).await.expect("it is stored")
}

/// Sends messages to it until it is suspect.
async fn until_suspect(stack: &TestStack, id: &str) {
    let sent = std::cell::Cell::new(0);
    stack
        .until("it is suspect", async || {
            let item = stored(stack, id).await;
            if number(&item, "suspect_at").is_some() {
                // A release that knows no suspects goes on sending.
                assert_eq!((text(&item, "state"), number(&item, "doubts")), (Some("active"), Some(3)));
                return Some(());
            }
            // One at a time: the message after the third dead letter is the probe.
            send(stack, &format!("{id}-refused-{}", sent.replace(sent.get() + 1)), id).await;
            stack.until_quiet().await;
            None
        })
        .await;
}

#[tokio::test]
async fn a_refused_subscription_is_suspect_until_it_is_renewed_or_succeeds() {
    let stack = holding().await;
    let [one, two] = [400, 403].map(|status| stack.browser_answering(Answer::status(status)));
    stack.subscribe("s1", Recipient::WebPush(push_target(&one))).await;
    stack.subscribe("s2", Recipient::WebPush(push_target(&two))).await;
    for id in ["s1", "s2"] {
        until_suspect(&stack, id).await;
    }
    stack.until_quiet().await;
    let events: Vec<Value> =
        stack.take_events().await.into_iter().filter(|event| event["id"].is_null()).collect();
    assert_eq!(events.len(), 2, "{events:?}");
    for (event, (id, reason)) in events.iter().zip([("s1", "rejected"), ("s2", "forbidden")]) {
        assert_fields(event, json!({"subscription": id, "state": "suspect", "reason": reason}));
    }

    // The first message is the probe, and fails, too; the next one is held.
    send(&stack, "probe", "s1").await;
    assert_eq!(text(&stack.until_state("probe", "failed").await, "reason"), Some("rejected"));
    let item = stored(&stack, "s1").await;
    assert_eq!(text(&item, "probe_id"), Some("probe"));
    send(&stack, "held", "s1").await;
    assert_eq!(text(&stack.until_state("held", "failed").await, "reason"), Some("subscription_suspect"));

    // Its page submits it again.
    stack.push.always(&one.endpoint, Answer::created());
    let renewal = renewal("acme", "s1", "news", &one);
    let renewal = redial_core::subscription::Renewal { seen_at: Some(System.now()), ..renewal };
    let store = stack.subscriptions().await;
    store.renew(renewal, SameEndpoint::Replace, System.now()).await.expect("it is stored");
    let item = stored(&stack, "s1").await;
    for name in ["doubts", "doubted_since", "doubted_at", "suspect_at", "probe_id", "probed_at"] {
        assert!(!item.contains_key(name), "{name}");
    }
    for id in ["first", "second"] {
        send(&stack, id, "s1").await;
        stack.until_state(id, "sent").await;
    }

    // The probe of the other one is accepted.
    stack.push.always(&two.endpoint, Answer::created());
    send(&stack, "accepted", "s2").await;
    stack.until_state("accepted", "sent").await;
    stack.until_quiet().await;
    let item = stored(&stack, "s2").await;
    assert!(!item.contains_key("suspect_at") && !item.contains_key("doubts"));
    let events = stack.take_events().await;
    let verified: Vec<&Value> = events.iter().filter(|event| event["state"] == "verified").collect();
    assert_eq!(verified.len(), 1, "{events:?}");
    assert_fields(verified[0], json!({"subscription": "s2", "id": null}));
}

#[tokio::test]
async fn what_all_are_refused_makes_none_suspect() {
    let stack = holding().await;
    let ids: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    for id in &ids {
        let browser = stack.browser_answering(Answer::status(403));
        stack.subscribe(id, Recipient::WebPush(push_target(&browser))).await;
    }
    for round in 0..3 {
        let messages = ids.iter().map(|id| {
            json!({"tenant": "acme", "id": format!("{id}-{round}"), "to": {"subscription": id}}).to_string()
        });
        stack.send_all(messages).await;
        stack.until_quiet().await;
    }
    let items = stack.scan(&stack.tables().subscriptions).await;
    let suspects = items.iter().filter(|item| item.contains_key("suspect_at")).count();
    // The first two of each worker are taken for alone.
    assert_eq!(suspects, 0);
}
