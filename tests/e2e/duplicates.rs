//! One delivery is one POST, however often and however simultaneously it comes.

use redial_testkit::push_service::Answer;
use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::deployment::{Deployment, PATIENCE, text};
use std::time::Duration;

/// The event source of a queue, from its URL.
fn arn(url: &str) -> String {
    let name = url.rsplit('/').next().unwrap_or_default();
    format!("arn:aws:sqs:us-east-1:000000000000:{name}")
}

#[tokio::test]
async fn the_same_record_in_three_invocations_two_of_them_at_once_is_one_post() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    it.push.script(&browser.endpoint, [Answer::created().after(Duration::from_millis(800))]);
    let body = Deployment::message("once", &browser, "hello").to_string();
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let record = SqsRecord::new("11111111-2222-3333-4444-555555555555", body)
        .sent_timestamp_ms(u64::try_from(now).expect("it fits"))
        .queue_arn(arn(&it.description().queues.ingest));
    let event = sqs_event([record]);
    let dispatch = it.description().functions.dispatch.clone();
    let (first, second) = tokio::join!(it.invoke(&dispatch, &event), it.invoke(&dispatch, &event));
    let failures = |answer: &serde_json::Value| answer["batchItemFailures"].as_array().map_or(0, Vec::len);
    assert_eq!(failures(&first) + failures(&second), 1, "one of two stands back: {first} {second}");
    let third = it.invoke(&dispatch, &event).await;
    assert_eq!(failures(&third), 0, "its hand-off is repeated, and it is acknowledged: {third}");
    assert_eq!(it.push.received(&browser.endpoint).len(), 1);
    it.until_state("once", "sent").await;
}

#[tokio::test]
async fn two_tenants_with_the_same_id_are_two_and_the_same_message_twice_is_one() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    let one = Deployment::message("same", &browser, "hello").to_string();
    let other = one.replace("acme", "other");
    it.send_batch(&[one.clone(), one, other]).await;
    it.push.wait_for(&browser.endpoint, 2, PATIENCE).await.expect("both tenants' arrive");
    it.until_quiet().await;
    assert_eq!(it.push.received(&browser.endpoint).len(), 2);
    assert_eq!(it.scan(&it.description().tables.deliveries).await.len(), 2);
}

#[tokio::test]
async fn the_same_id_with_another_content_is_a_dead_letter() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    it.send(&Deployment::message("id", &browser, "the first")).await;
    it.until_state("id", "sent").await;
    it.send(&Deployment::message("id", &browser, "the second")).await;
    let letter = it
        .until("the conflict is described", async || {
            let letters = it.scan(&it.description().tables.dead_letters).await;
            letters.into_iter().find(|letter| text(letter, "reason") == Some("id_conflict"))
        })
        .await;
    assert_eq!(text(&letter, "id"), Some("id"));
    assert_eq!(it.push.received(&browser.endpoint).len(), 1);
}
