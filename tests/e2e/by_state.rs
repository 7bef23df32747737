//! Asking for deliveries by their state on the deployed template: through its index and the HTTP API.

use redial_tests::prelude::*;
use reqwest::Method;

/// The ids of a tenant's deliveries in a state.
async fn listed(stack: &TestStack, credential: &str, state: &str) -> Vec<String> {
    let request = stack.request(Method::GET, &format!("/v1/messages?state={state}")).bearer_auth(credential);
    let answer = request.send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 200);
    let page = parsed(&answer.text().await.expect("text"));
    let items = page["items"].as_array().expect("items").iter();
    items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn what_waits_or_has_failed_is_found_by_its_state_and_a_success_is_not() {
    let stack = TestStack::up().await;
    stack.warm().await;
    let credential = stack.api_key(&stack.tenant).await;
    let accepts = stack.browser();
    let (fails, rejects) = (stack.browser(), stack.browser_answering(Answer::status(400)));
    stack.push.script(&fails.endpoint, [Answer::status(503)]);
    let at = System.now().plus(Duration::from_secs(45));
    stack.send(&stack.message_with("scheduled", &accepts, &json!({"deliver_at": at.to_rfc3339()}))).await;
    let policy = json!({
        "retry": {"max_retries": 3, "base_delay_ms": 45_000, "max_delay_ms": 45_000, "jitter": "none"},
        "tags": ["region:eu", "order"], "ttl": 3600,
    });
    stack.send(&stack.message_with("retried", &fails, &policy)).await;
    let before = System.now().as_ms();
    stack.send(&stack.message_with("rejected", &rejects, &json!({"tags": ["order"]}))).await;
    stack.send(&stack.message("sent", &accepts, "hello")).await;
    stack.until_state("retried", "retrying").await;
    stack.until_state("rejected", "failed").await;
    stack.until_state("sent", "sent").await;

    // It was never attempted, and is found by its state and by its id.
    let held = stack.until_state("scheduled", "deferred").await;
    assert_eq!(number(&held, "not_before"), Some(at.as_ms()));
    assert_eq!(listed(&stack, &credential, "deferred").await, ["scheduled"]);
    assert_eq!(listed(&stack, &credential, "retrying").await, ["retried"]);
    assert_eq!(listed(&stack, &credential, "failed").await, ["rejected"]);
    // By their tags, too: those that have all of them.
    assert_eq!(listed(&stack, &credential, "failed&tag=order").await, ["rejected"]);
    assert_eq!(listed(&stack, &credential, "retrying&tag=order&tag=region:eu").await, ["retried"]);
    assert_eq!(listed(&stack, &credential, "failed&tag=region:eu").await, [""; 0]);
    let retried = stack.entry("retried").await.expect("it waits");
    assert_eq!(
        (text(&retried, "tags"), number(&retried, "ttl_seconds")),
        (Some("order region:eu"), Some(3600))
    );
    assert!(number(&retried, "dispatched_at").is_some_and(|at| at > before - 60_000), "{retried:?}");
    assert!(!held.contains_key("dispatched_at"), "it was never attempted: {held:?}");
    let letter = stack.until("the dead letter is described", async || {
        let items = stack.scan(&stack.tables().dead_letters).await;
        items.into_iter().find(|item| text(item, "reason") == Some("rejected"))
    });
    assert_eq!(text(&letter.await, "tags"), Some("order"));
    let request = &stack.received(&rejects, 1).await[0];
    assert!(!format!("{request:?}").contains("order"), "no tag is in a push");
    let sent = stack.entry("sent").await.expect("it is kept");
    assert!(!sent.contains_key("found_by") && !sent.contains_key("found_at"), "{sent:?}");

    // Once it is sent, nothing finds it any more.
    for id in ["scheduled", "retried"] {
        let entry = stack.until_state(id, "sent").await;
        assert!(!entry.contains_key("found_by") && !entry.contains_key("found_at"), "{entry:?}");
    }
    stack.until_quiet().await;
    assert_eq!((stack.pushes(&accepts), stack.pushes(&fails)), (2, 2));
    for state in ["deferred", "retrying", "parked"] {
        assert_eq!(listed(&stack, &credential, state).await, [""; 0], "{state}");
    }
}
