//! Every road out of dispatch, each with a real push.

use redial_testkit::push_service::{Answer, Fixture};
use redial_tests::deployment::{Deployment, PATIENCE, number, text};
use serde_json::json;

#[tokio::test]
async fn a_push_is_sent_and_decrypts_up_to_the_last_byte_that_fits() {
    let it = Deployment::up().await;
    let longest = "x".repeat(3993);
    for (id, payload) in [("short", "hello"), ("longest", longest.as_str()), ("empty", "")] {
        let browser = it.subscriber();
        it.send(&Deployment::message(id, &browser, payload)).await;
        let received = it.push.wait_for(&browser.endpoint, 1, PATIENCE).await.expect("it arrives");
        assert_eq!(received[0].problems, [], "{id}");
        assert_eq!(received[0].text().unwrap_or_default(), payload, "{id}");
        assert_eq!(received[0].header("ttl"), Some("14400"));
        let entry = it.until_state(id, "sent").await;
        let headers = entry["headers"].as_m().expect("what the answer said is kept");
        assert!(headers.contains_key("ttl") && !headers.contains_key("location"), "{headers:?}");
    }
    it.until_quiet().await;
    assert_eq!(it.stack().poller_failure(), None);
}

#[tokio::test]
async fn a_503_is_sent_again_and_a_410_is_gone() {
    let it = Deployment::up().await;
    let (flaky, gone) = (it.subscriber(), it.subscriber());
    it.push.script(&flaky.endpoint, [Answer::status(503)]);
    it.push.script(&gone.endpoint, [Answer::fixture(Fixture::MozillaGone)]);
    it.send_batch(&[
        Deployment::message("flaky", &flaky, "a").to_string(),
        Deployment::message("gone", &gone, "b").to_string(),
    ])
    .await;
    let entry = it.until_state("flaky", "sent").await;
    assert_eq!(number(&entry, "attempt"), Some(1));
    let entry = it.until_state("gone", "gone").await;
    assert_eq!((number(&entry, "status"), text(&entry, "reason")), (Some(410), Some("gone")));
    it.until_quiet().await;
    assert_eq!(it.push.received(&flaky.endpoint).len(), 2);
    assert_eq!(it.push.received(&gone.endpoint).len(), 1);
}

#[tokio::test]
async fn a_long_retry_after_waits_in_an_execution_that_holds_no_payload() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    it.push.script(&browser.endpoint, [Answer::status(429).with_header("retry-after", "5")]);
    it.send(&Deployment::message("long", &browser, json!({"canary": "s3cret-payload"}))).await;
    it.until_state("long", "sent").await;
    let received = it.push.received(&browser.endpoint);
    assert_eq!(received.len(), 2);
    let apart = received[1].at.duration_since(received[0].at);
    assert!(apart >= std::time::Duration::from_secs(5), "{apart:?}");

    let executions = it.sfn.list_executions().state_machine_arn(&it.description().state_machine).send().await;
    let executions = executions.expect("Step Functions answers").executions;
    assert_eq!(executions.len(), 1);
    let name = &executions[0].name;
    assert!(
        name.len() <= 80 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
        "{name}"
    );
    let history = it.history(&executions[0].execution_arn).await;
    assert!(history.contains("release") && !history.contains("s3cret"), "{history}");
    assert!(it.scan(&it.description().tables.parked).await.is_empty());
}
