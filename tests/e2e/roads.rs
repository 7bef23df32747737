//! Every road out of dispatch, each with a real push.

use redial_tests::prelude::*;

#[tokio::test]
async fn a_push_is_sent_and_decrypts_up_to_the_last_byte_that_fits() {
    let stack = TestStack::shared().await;
    let longest = "x".repeat(3993);
    for (id, payload) in [("short", "hello"), ("longest", longest.as_str()), ("empty", "")] {
        let browser = stack.browser();
        stack.send(&stack.message(id, &browser, payload)).await;
        let received = stack.received(&browser, 1).await;
        assert_eq!(received[0].problems, [], "{id}");
        assert_eq!(received[0].text().unwrap_or_default(), payload, "{id}");
        // Four hours, less what a busy machine has taken.
        let ttl = received[0].header("ttl").and_then(|ttl| ttl.parse().ok());
        assert!(ttl.is_some_and(|ttl: u32| (14_400 - 180..=14_400).contains(&ttl)), "{id}: {ttl:?}");
        let entry = stack.until_state(id, "sent").await;
        let headers = entry["headers"].as_m().expect("the answer's headers are kept");
        assert!(headers.contains_key("ttl") && !headers.contains_key("location"), "{headers:?}");
    }
    stack.until_quiet().await;
    assert_eq!(stack.stack().poller_failure(), None);
}

#[tokio::test]
async fn a_503_is_sent_again_and_a_410_is_gone() {
    let stack = TestStack::shared().await;
    let (flaky, gone) = (stack.browser(), stack.browser());
    stack.push.script(&flaky.endpoint, [Answer::status(503)]);
    stack.push.script(&gone.endpoint, [Answer::fixture(Fixture::MozillaGone)]);
    stack
        .send_all([
            stack.message("flaky", &flaky, "a").to_string(),
            stack.message("gone", &gone, "b").to_string(),
        ])
        .await;
    let entry = stack.until_state("flaky", "sent").await;
    assert_eq!(number(&entry, "attempt"), Some(1));
    let entry = stack.until_state("gone", "gone").await;
    assert_eq!((number(&entry, "status"), text(&entry, "reason")), (Some(410), Some("gone")));
    stack.until_quiet().await;
    assert_eq!(stack.pushes(&flaky), 2);
    assert_eq!(stack.pushes(&gone), 1);
}

#[tokio::test]
async fn a_long_retry_after_waits_in_an_execution_that_holds_no_payload() {
    let stack = TestStack::up().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::status(429).with_header("retry-after", "5")]);
    stack.send(&stack.message("long", &browser, json!({"canary": "s3cret-payload"}))).await;
    stack.until_state("long", "sent").await;
    let received = stack.push.received(&browser.endpoint);
    assert_eq!(received.len(), 2);
    assert!(received[1].at_ms >= received[0].at_ms + 5_000, "not before Retry-After");

    let executions = stack.sfn.list_executions().state_machine_arn(&stack.description().state_machine);
    let executions = executions.send().await.expect("Step Functions answers").executions;
    assert_eq!(executions.len(), 1);
    let name = &executions[0].name;
    assert!(
        name.len() <= 80 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
        "{name}"
    );
    let history = stack.history(&executions[0].execution_arn).await;
    assert!(history.contains("release") && !history.contains("s3cret"), "{history}");
    assert!(stack.scan(&stack.description().tables.parked).await.is_empty());
}
