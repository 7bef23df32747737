//! Endpoints that are gone: three of many are pruned, thirty of a hundred are kept.

use futures_util::stream::{self, StreamExt as _};
use redial_core::{
    endpoint::Endpoint, push_target::PushTarget, recipient::Recipient, subscription::Subscription,
};
use redial_tests::prelude::*;

/// Subscribes `all` browsers of tenant `acme`, of which the first `gone` have unsubscribed, and pushes to those.
async fn with_gone(all: usize, gone: usize) -> TestStack {
    let stack = TestStack::up_with_env([("SPIKE_WINDOW_SECONDS", "10")]).await;
    let store = stack.subscriptions().await;
    let some = push_target(&stack.browser());
    let subscriptions: Vec<Subscription> = (0..all)
        .map(|n| {
            let target = if n < gone {
                push_target(&stack.browser_answering(Answer::fixture(Fixture::MozillaGone)))
            } else {
                let endpoint = format!("{}/browser-{n}", stack.push.origin());
                PushTarget { endpoint: Endpoint::parse(&endpoint).expect("an endpoint"), ..some.clone() }
            };
            Subscription::new(stack.subscription_key(&format!("s{n}")), Recipient::WebPush(target))
        })
        .collect();
    // An emulator that gets them all at once answers nothing else for a while.
    stream::iter(&subscriptions)
        .for_each_concurrent(8, async |it| assert_eq!(store.put(it, System.now()).await, Ok(true)))
        .await;
    let message = |n| {
        json!({"tenant": "acme", "id": format!("m{n}"), "to": {"subscription": format!("s{n}")}}).to_string()
    };
    stack.send_all((0..gone).map(message)).await;
    stack.until_quiet().await;
    stack
}

/// Sweeps until `left` subscriptions are stored, `quarantined` of them in quarantine: candidates on the other side of a window's end are
/// decided a window later, and the schedule's own sweep may decide some of them.
async fn assert_swept(stack: &TestStack, left: usize, quarantined: usize) {
    let counted = async || {
        let items = stack.scan(&stack.tables().subscriptions).await;
        let states: Vec<&str> = items.iter().filter_map(|item| text(item, "state")).collect();
        (states.len(), states.iter().filter(|state| **state == "quarantined").count())
    };
    stack
        .until("the windows are over and decided", async || {
            stack.sweep("prune").await;
            (counted().await == (left, quarantined)).then_some(())
        })
        .await;
    // Nothing is left to decide.
    let again = stack.sweep("prune").await;
    assert_eq!((&again["pruned"], &again["quarantined"]), (&json!(0), &json!(0)), "{again}");
    assert_eq!(counted().await, (left, quarantined));
}

#[tokio::test]
async fn thirty_of_a_hundred_are_quarantined_and_none_is_deleted() {
    let stack = with_gone(100, 30).await;
    assert_swept(&stack, 100, 30).await;
}

#[tokio::test]
async fn three_of_a_thousand_are_pruned() {
    let stack = with_gone(1000, 3).await;
    assert_swept(&stack, 997, 0).await;
}
