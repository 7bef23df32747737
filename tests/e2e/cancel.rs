//! Cancelling on the deployed template: through the HTTP API, of what is scheduled, retried and not received yet.

use redial_tests::prelude::*;
use reqwest::Method;

async fn cancel(stack: &TestStack, credential: &str, id: &str) -> (u16, Value) {
    let request = stack.request(Method::DELETE, &format!("/v1/messages/{id}")).bearer_auth(credential);
    let answer = request.send().await.expect("it answers");
    let status = answer.status().as_u16();
    (status, parsed(&answer.text().await.expect("text")))
}

#[tokio::test]
async fn what_waits_is_cancelled_and_is_never_sent() {
    let stack = TestStack::up_with(|options| options.events = true).await;
    stack.warm().await;
    let credential = stack.api_key(&stack.tenant).await;
    let (accepts, fails) = (stack.browser(), stack.browser_answering(Answer::status(503)));
    let at = System.now().plus(Duration::from_secs(45));
    let scheduled = json!({"deliver_at": at.to_rfc3339(), "ref": "order 17"});
    stack.send(&stack.message_with("scheduled", &accepts, &scheduled)).await;
    let policy = json!({"retry": {"max_retries": 3, "base_delay_ms": 40_000, "max_delay_ms": 40_000, "jitter": "none"}});
    stack.send(&stack.message_with("retried", &fails, &policy)).await;
    stack.send(&stack.message("sent", &accepts, "hello")).await;
    stack
        .until("the scheduled one is parked", async || {
            let parked = stack.scan(&stack.tables().parked).await;
            (!parked.is_empty()).then_some(())
        })
        .await;
    stack.until_state("retried", "retrying").await;
    stack.until_state("sent", "sent").await;

    let (status, answer) = cancel(&stack, &credential, "scheduled").await;
    assert_eq!(status, 200, "{answer}");
    assert_fields(&answer, json!({"id": "scheduled", "state": "cancelled", "in_doubt": false}));
    assert_eq!(
        cancel(&stack, &credential, "scheduled").await,
        (200, answer),
        "the same request, the same answer"
    );
    let (status, answer) = cancel(&stack, &credential, "retried").await;
    assert_eq!((status, &answer["known"]), (200, &json!(true)), "{answer}");
    let (status, problem) = cancel(&stack, &credential, "sent").await;
    let expected = json!({"type": "urn:redial:problem:already_ended", "state": "sent"});
    assert_eq!(status, 409);
    assert_fields(&problem, expected);
    // Its message comes later.
    let (status, answer) = cancel(&stack, &credential, "early").await;
    assert_eq!((status, &answer["known"]), (200, &json!(false)), "{answer}");
    stack.send(&stack.message("early", &accepts, "too late")).await;

    tokio::time::sleep(at.since(System.now()) + Duration::from_secs(1)).await;
    stack.until_quiet().await;
    assert_eq!(
        (stack.pushes(&accepts), stack.pushes(&fails)),
        (1, 1),
        "the one that was sent, and a first attempt"
    );
    assert!(stack.scan(&stack.tables().parked).await.is_empty());
    for id in ["scheduled", "retried", "early"] {
        let entry = stack.entry(id).await.expect("it is kept");
        assert_eq!(text(&entry, "state"), Some("cancelled"), "{id}");
    }
    let events = stack.take_events().await;
    let ends = |id: &str| {
        let of = events.iter().filter(|event| event["id"] == id);
        of.map(|event| event["state"].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    for (id, end) in
        [("scheduled", "cancelled"), ("retried", "cancelled"), ("early", "cancelled"), ("sent", "sent")]
    {
        assert_eq!(ends(id), [end], "{id}");
    }
    let of_scheduled = events.iter().find(|event| event["id"] == "scheduled").expect("it was announced");
    assert_fields(of_scheduled, json!({"ref": "order 17", "reason": "cancelled"}));
}
