//! Waits beyond what a queue can delay: many messages, one execution; and a lost execution strands nobody.

use std::time::Duration;

use redial_testkit::push_service::{Answer, Subscriber};
use redial_tests::deployment::{Deployment, text};
use serde_json::json;

/// Epoch milliseconds of now.
fn now_ms() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    u64::try_from(now).expect("it fits")
}

/// A message that is to be delivered at the second that begins so many seconds from now.
fn scheduled(id: &str, to: &Subscriber, at_ms: u64) -> serde_json::Value {
    let at = redial_core::time::Timestamp::from_ms(i64::try_from(at_ms).expect("it fits"));
    let mut message = Deployment::message(id, to, "later");
    message["deliver_at"] = json!(at.to_rfc3339());
    message
}

#[tokio::test]
async fn a_thousand_messages_due_in_one_bucket_make_one_execution_and_all_arrive_once() {
    const MANY: usize = 1000;
    let it = Deployment::up_with(|options| {
        options.env.insert("WAIT_BUCKET_SECONDS".to_owned(), "60".to_owned());
        options.env.insert("WAIT_SHARDS".to_owned(), "4".to_owned());
    })
    .await;
    let browser = it.subscriber();
    it.push.always(&browser.endpoint, Answer::created());
    // The next minute but one begins after all of them were parked.
    let at = (now_ms() / 60_000 + if now_ms() % 60_000 > 25_000 { 2 } else { 1 }) * 60_000;
    let ids: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
    for ten in ids.chunks(10) {
        let bodies: Vec<String> = ten.iter().map(|id| scheduled(id, &browser, at).to_string()).collect();
        it.send_batch(&bodies).await;
    }
    it.until("all are parked", async || {
        (it.scan(&it.description().tables.parked).await.len() == MANY).then_some(())
    })
    .await;
    let executions = it.sfn.list_executions().state_machine_arn(&it.description().state_machine).send().await;
    assert_eq!(executions.expect("Step Functions answers").executions.len(), 1);

    let patience = Duration::from_secs(150);
    let received = it.push.wait_for(&browser.endpoint, MANY, patience).await.expect("all arrive");
    assert!(received.iter().all(|push| push.at_ms >= at), "none before its time");
    it.until_quiet().await;
    assert_eq!(it.push.received(&browser.endpoint).len(), MANY, "none twice");
    assert!(it.scan(&it.description().tables.parked).await.is_empty());
}

/// Such bodies come from producers that escape all that is not ASCII: Python's `json.dumps` writes six bytes for three.
#[tokio::test]
async fn a_body_over_400_kb_waits_in_parts_and_arrives_whole() {
    let it = Deployment::up().await;
    let payload = format!(r#""{}""#, "\\u3042".repeat(80_000));
    let at = redial_core::time::Timestamp::from_ms(i64::try_from(now_ms() + 9_000).expect("it fits"));
    let url = it.webhooks.url("/long");
    it.send_body(&format!(
        r#"{{"tenant":"acme","id":"long","to":{{"webhook":{{"url":"{url}"}}}},"deliver_at":"{}","payload":{payload}}}"#,
        at.to_rfc3339()
    ))
    .await;
    it.until("its parts are stored", async || {
        (it.scan(&it.description().tables.parked).await.len() > 1).then_some(())
    })
    .await;
    it.until_state("long", "sent").await;
    let received = it.webhooks.requests("/long");
    assert_eq!(received.len(), 1);
    assert!(received[0].body == "あ".repeat(80_000), "{} bytes", received[0].body.len());
    it.until_quiet().await;
    assert!(it.scan(&it.description().tables.parked).await.is_empty());
}

#[tokio::test]
async fn with_the_execution_stopped_by_hand_the_sweep_releases() {
    let it = Deployment::up_with(|options| {
        options.env.insert("WAIT_LATE_SECONDS".to_owned(), "1".to_owned());
    })
    .await;
    let browser = it.subscriber();
    it.send(&scheduled("stranded", &browser, now_ms() + 5_000)).await;
    let execution = it
        .until("its execution runs", async || {
            let executions =
                it.sfn.list_executions().state_machine_arn(&it.description().state_machine).send().await;
            executions.expect("Step Functions answers").executions.pop()
        })
        .await;
    let stopped = it.sfn.stop_execution().execution_arn(&execution.execution_arn).send().await;
    stopped.expect("it can be stopped");

    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(it.push.received(&browser.endpoint).len(), 0, "nobody has released it");
    let swept = it.invoke(&it.description().functions.cleanup, &json!({"sweep": "waits"})).await;
    assert_eq!(swept["released"], 1, "{swept}");
    it.until_state("stranded", "sent").await;
    assert_eq!(it.push.received(&browser.endpoint).len(), 1);
    let swept = it.invoke(&it.description().functions.cleanup, &json!({"sweep": "waits"})).await;
    assert_eq!(swept["forgotten"], 1, "{swept}");
}

#[tokio::test]
async fn a_message_too_late_for_its_ttl_is_a_dead_letter_that_can_be_replayed() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    it.push.script(&browser.endpoint, [Answer::status(503).with_header("retry-after", "120")]);
    let mut message = Deployment::message("late", &browser, "soon worthless");
    message["ttl"] = json!(60);
    it.send(&message).await;
    let entry = it.until_state("late", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("ttl_exceeded"));
    let letters = it
        .until("letter and body are stored", async || {
            let letters = it.scan(&it.description().tables.dead_letters).await;
            let has = |name| letters.iter().any(|letter| letter.contains_key(name));
            (has("reason") && has("body")).then_some(letters)
        })
        .await;
    let body = letters.iter().find_map(|letter| text(letter, "body")).expect("the body is kept");
    assert!(body.contains("soon worthless") && body.contains("\"retry_count\":0"), "{body}");
}
