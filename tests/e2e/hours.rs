//! Hours on the deployed template: a message waits parked until they begin, by its own clock or its subscription's, and is sent within them;
//! what has none before its end expires.

use redial_core::{subscription::SameEndpoint, zone::Zone};
use redial_engine::ports::SubscriptionBook as _;
use redial_tests::{prelude::*, test_stack::renewal};

/// What the clock of a zone shows after some seconds, as a message names it.
fn shown(zone: &str, at: Timestamp) -> String {
    let second = Zone::parse(zone).expect("a zone").clock().second_of_day(at);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Hours that begin at this moment and last for one.
fn hours(zone: &str, from: Timestamp) -> Value {
    json!({"from": shown(zone, from), "to": shown(zone, from.plus(Duration::from_secs(3_600)))})
}

#[tokio::test]
async fn messages_wait_for_their_hours_and_are_sent_within_them() {
    let stack = TestStack::up().await;
    stack.warm().await;
    let book = stack.subscriptions_in(stack.dynamodb.clone(), stack.tables()).await;
    let (own, stored, late) = (stack.browser(), stack.browser(), stack.browser());
    let mut renewed = renewal(&stack.tenant, "s1", "news", &stored);
    renewed.document.time_zone = Zone::parse("Asia/Kathmandu");
    book.renew(renewed, SameEndpoint::Replace, System.now()).await.expect("the table answers");

    let from = Timestamp::from_secs(System.now().as_secs() + 45);
    let mut of_message = hours("America/Bogota", from);
    of_message["time_zone"] = "America/Bogota".into();
    stack.send(&stack.message_with("own", &own, &json!({"deliver_between": of_message}))).await;
    let mut of_subscription =
        stack.message_with("stored", &stored, &json!({"deliver_between": hours("Asia/Kathmandu", from)}));
    of_subscription["to"] = json!({"subscription": "s1"});
    stack.send(&of_subscription).await;
    stack.send(&stack.message_with("late", &late, &json!({"deliver_between": of_message, "ttl": 10}))).await;

    stack.until_state("late", "expired").await;
    stack
        .until("both are parked", async || {
            (stack.scan(&stack.tables().parked).await.len() == 2).then_some(())
        })
        .await;
    for id in ["own", "stored"] {
        let entry = stack.entry(id).await.expect("it is noted");
        assert_eq!(text(&entry, "state"), Some("deferred"), "{id}");
        assert_eq!(text(&entry, "held_by"), Some(&*format!("hours {}", from.as_ms())), "{id}");
    }

    let from_ms = u64::try_from(from.as_ms()).expect("after 1970");
    for browser in [&own, &stored] {
        let patience = from.since(System.now()) + PATIENCE;
        let received = stack.push.wait_for(&browser.endpoint, 1, patience).await.expect("it arrives");
        assert!(received.iter().all(|push| push.at_ms >= from_ms), "not before its hours");
    }
    stack.until_state("own", "sent").await;
    stack.until_state("stored", "sent").await;
    stack.until_quiet().await;
    assert_eq!((stack.pushes(&own), stack.pushes(&stored), stack.pushes(&late)), (1, 1, 0));
    assert!(stack.scan(&stack.tables().parked).await.is_empty());
}
