//! Subscriptions that time alone ends, removed by the real cleanup function: those that were not heard of for `StaleAfterDays`, and
//! those whose browser named an `expirationTime`.

use redial_core::subscription::{Renewal, SameEndpoint};
use redial_engine::ports::{Renewed, SubscriptionBook as _};
use redial_tests::{
    prelude::*,
    test_stack::{document, renewal},
};
use reqwest::Method;

use crate::latencies::metric_lines;

const DAY: Duration = Duration::from_secs(86_400);

/// Stores a browser's subscription as its page submitted it at this time.
async fn submitted(stack: &TestStack, id: &str, at: Timestamp) {
    let renewal = Renewal { seen_at: Some(at), ..renewal("acme", id, "news", &stack.browser()) };
    let renewed = stack.subscriptions().await.renew(renewal, SameEndpoint::Replace, at).await;
    assert!(matches!(renewed, Ok(Renewed::New(_))), "{id}");
}

/// Stores one by the HTTP API whose browser says that it ends in a moment, and waits until it has.
async fn expired(stack: &TestStack, id: &str) {
    let credential = stack.api_key("acme").await;
    let path = format!("/v1/subscriptions/{id}");
    let browser = stack.browser();
    // Where the call takes longer, it has ended before it comes.
    stack
        .until("it is stored before it ends", async || {
            let ends = System.now().plus(Duration::from_secs(5)).as_ms();
            let document = with_fields(document(&browser), &json!({"expirationTime": ends}));
            let (status, stored) = stack.call(Method::PUT, &path, &credential, &document.to_string()).await;
            assert!([201, 422].contains(&status), "{stored}");
            (status == 201).then_some(())
        })
        .await;
    stack
        .until("the API says that it has expired", async || {
            let (_, read) = stack.call(Method::GET, &path, &credential, "").await;
            (parsed(&read)["state"] == "expired").then_some(())
        })
        .await;
}

async fn stored_ids(stack: &TestStack) -> Vec<String> {
    let items = stack.scan(&stack.tables().subscriptions).await;
    let mut ids: Vec<String> = items
        .iter()
        .filter_map(|item| Some(format!("{} {}", text(item, "id")?, text(item, "state")?)))
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn stale_and_expired_subscriptions_are_removed_counted_and_announced() {
    let stack = TestStack::up_with(|options| {
        options.events = true;
        options.parameters.insert("StaleAfterDays".to_owned(), "30".to_owned());
    })
    .await;
    let now = System.now();
    submitted(&stack, "stale", now.minus(31 * DAY)).await;
    submitted(&stack, "seen", now.minus(29 * DAY)).await;
    expired(&stack, "expired").await;
    // Nothing is sent to it, even before it is removed.
    stack.send(&json!({"tenant": "acme", "id": "late", "to": {"subscription": "expired"}})).await;
    let entry = stack.until_state("late", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("subscription_expired"));
    stack.until_quiet().await;
    let events = stack.take_events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(stored_ids(&stack).await, ["expired active", "seen active", "stale active"]);

    assert_fields(&stack.sweep("prune").await, json!({"expired": 1, "stale": 1, "pruned": 0}));
    assert_eq!(stored_ids(&stack).await, ["seen active"]);
    let mut events = stack.take_events().await;
    events.sort_by_key(|event| event["subscription"].to_string());
    assert_eq!(events.len(), 2, "{events:?}");
    for (event, id) in events.iter().zip(["expired", "stale"]) {
        let reason = format!("subscription_{id}");
        assert_fields(event, json!({"subscription": id, "state": "pruned", "reason": reason, "id": null}));
    }
    let cleanup = &stack.description().functions.cleanup;
    for metric in ["SubscriptionsExpired", "SubscriptionsStale"] {
        let counted = stack
            .until(&format!("{metric} is written"), async || {
                metric_lines(&stack, cleanup).await.into_iter().find(|line| line[metric].is_u64())
            })
            .await;
        assert_eq!(counted[metric], 1, "{counted}");
    }

    // A walk a day is enough.
    submitted(&stack, "later", now.minus(31 * DAY)).await;
    assert_fields(&stack.sweep("prune").await, json!({"expired": 0, "stale": 0}));
    assert_eq!(stored_ids(&stack).await, ["later active", "seen active"]);
}
