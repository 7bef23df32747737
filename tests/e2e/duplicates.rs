//! One delivery is one POST, however often it comes and however many copies come at once.

use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::prelude::*;
use redial_tests::test_stack::queue_arn;

#[tokio::test]
async fn one_record_in_two_concurrent_invocations_and_a_third_is_one_post() {
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::created().after(Duration::from_millis(1_500))]);
    let body = stack.message("once", &browser, "hello").to_string();
    let record = SqsRecord::new("11111111-2222-3333-4444-555555555555", body)
        .sent_timestamp_ms(u64::try_from(System.now().as_ms()).expect("after 1970"))
        .queue_arn(queue_arn(&stack.description().queues.ingest));
    let event = sqs_event([record]);
    let dispatch = stack.description().functions.dispatch.clone();
    let (first, second) = tokio::join!(stack.invoke(&dispatch, &event), stack.invoke(&dispatch, &event));
    let failures = |answer: &Value| answer["batchItemFailures"].as_array().map_or(0, Vec::len);
    assert_eq!(failures(&first) + failures(&second), 1, "one of two stands back: {first} {second}");
    let third = stack.invoke(&dispatch, &event).await;
    assert_eq!(failures(&third), 0, "its hand-off is repeated, and it is acknowledged: {third}");
    assert_eq!(stack.pushes(&browser), 1);
    stack.until_state("once", "sent").await;
}

#[tokio::test]
async fn an_id_belongs_to_its_tenant_and_a_repeated_message_is_one() {
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    let one = stack.message("same", &browser, "hello").to_string();
    let mut other = stack.message("same", &browser, "hello");
    other["tenant"] = json!(format!("{}-other", stack.tenant));
    stack.send_all([one.clone(), one, other.to_string()]).await;
    stack.received(&browser, 2).await;
    stack.until_quiet().await;
    assert_eq!(stack.pushes(&browser), 2);
    assert_eq!(stack.own(&stack.description().tables.deliveries).await.len(), 1);
}

#[tokio::test]
async fn a_used_id_with_other_content_is_a_dead_letter() {
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    stack.send(&stack.message("id", &browser, "the first")).await;
    stack.until_state("id", "sent").await;
    stack.send(&stack.message("id", &browser, "the second")).await;
    let dead_letter = stack
        .until("the conflict is described", async || {
            let dead_letters = stack.own(&stack.description().tables.dead_letters).await;
            dead_letters.into_iter().find(|it| text(it, "reason") == Some("id_conflict"))
        })
        .await;
    assert_eq!(text(&dead_letter, "id"), Some("id"));
    assert_eq!(stack.pushes(&browser), 1);
}
