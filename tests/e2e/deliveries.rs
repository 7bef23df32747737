//! Deliveries to browsers: what is decrypted, one POST however often a message comes, and the token that lets a browser report what its
//! user saw.

use redial_adapters::acks_dynamo::attribute;
use redial_core::{ack::AckEvent, webhook::SigningSecrets};
use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::{prelude::*, test_stack::queue_arn};
use reqwest::Method;

use crate::webhooks::{secret, subscribe};

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
async fn one_record_in_two_concurrent_invocations_and_a_third_is_one_post() {
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::created().after(Duration::from_secs(6))]);
    let body = stack.message("once", &browser, "hello").to_string();
    let record = SqsRecord::new("11111111-2222-3333-4444-555555555555", body)
        .sent_timestamp_ms(u64::try_from(System.now().as_ms()).expect("after 1970"))
        .queue_arn(queue_arn(&stack.queues().ingest));
    let event = sqs_event([record]);
    let dispatch = stack.description().functions.dispatch.clone();
    let during = async {
        stack.received(&browser, 1).await;
        stack.invoke(&dispatch, &event).await
    };
    let (first, second) = tokio::join!(stack.invoke(&dispatch, &event), during);
    let failures = |answer: &Value| answer["batchItemFailures"].as_array().map_or(0, Vec::len);
    assert_eq!((failures(&first), failures(&second)), (0, 1), "the second stands back: {first} {second}");
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
    assert_eq!(stack.own(&stack.tables().deliveries).await.len(), 1);
}

#[tokio::test]
async fn named_fields_are_stripped_from_pushes_and_not_from_webhooks() {
    let stack = TestStack::up_with(|options| {
        options.parameters.insert("StripPayloadFields".to_owned(), "trace,customer_id".to_owned());
    })
    .await;
    let browser = stack.browser();
    let payload = json!({"title": "Sent", "customer_id": "c-17", "order": {"trace": "kept"}, "trace": [1, 2], "n": 1.50});
    stack.send(&stack.message("object", &browser, payload.clone())).await;
    stack.until_state("object", "sent").await;
    // A text is no object, even where it is written like one.
    stack.send(&stack.message("text", &browser, payload.to_string())).await;
    stack.until_state("text", "sent").await;
    let received = stack.received(&browser, 2).await;
    let opened: Vec<Value> = received.iter().map(|push| parsed(push.text().expect("it decrypts"))).collect();
    assert_eq!(received[0].problems, []);
    assert_eq!(opened[0], json!({"title": "Sent", "order": {"trace": "kept"}, "n": 1.50}));
    assert_eq!(opened[1], payload);

    let secrets = SigningSecrets::new(vec![(secret(1), None)]).expect("one");
    subscribe(&stack, "hook", &stack.webhooks.url("/orders"), secrets).await;
    let to = json!({"subscription": "hook"});
    stack.send(&json!({"tenant": "acme", "id": "hooked", "to": to, "payload": payload})).await;
    stack.until_state("hooked", "sent").await;
    let body = stack.webhooks.requests("/orders")[0].body.clone();
    assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), payload);
}

#[tokio::test]
async fn a_notification_is_pushed_as_the_standard_has_it_and_acknowledged() {
    let stack = TestStack::up().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::status(503)]);
    let fields = json!({
        "notification": {
            "title": "Shipped", "navigate": "https://shop.example/o/17", "app_badge": 1, "data": {"order": 17},
        },
        "acks": true, "ttl": 600, "retry": {"max_retries": 2, "base_delay_ms": 100},
    });
    let mut message = stack.message_with("m1", &browser, &fields);
    message.as_object_mut().expect("an object").remove("payload");
    stack.send(&message).await;
    let entry = stack.until_state("m1", "sent").await;

    let pushes = stack.received(&browser, 2).await;
    let texts: Vec<&str> = pushes.iter().map(|push| push.text().expect("it is decrypted")).collect();
    assert_eq!(texts[0], texts[1]);
    let document = parsed(texts[0]);
    let about = &document["notification"]["data"]["redial"];
    let created = number(&entry, "created_at").expect("a time") / 1000;
    let until = about["until"].as_i64().expect("seconds");
    assert!(created < until && until <= created + 601, "{until} {created}");
    let expected = json!({
        "web_push": 8030,
        "notification": {
            "title": "Shipped", "navigate": "https://shop.example/o/17", "app_badge": 1,
            "data": {"redial": {"id": "m1", "until": until, "ack": about["ack"]}, "own": {"order": 17}},
        },
        "app_badge": 1,
        "mutable": true,
    });
    assert_eq!(document, expected);
    let body = json!({"token": about["ack"], "event": "displayed"}).to_string();
    let answer = stack.request(Method::POST, "/v1/acks").body(body).send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 202);
}

#[tokio::test]
async fn a_browser_acknowledges_a_retried_push_with_its_one_token() {
    let stack = TestStack::up().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::status(503)]);
    let fields = json!({
        "payload": {"title": "Your parcel is here"}, "acks": true,
        "retry": {"max_retries": 2, "base_delay_ms": 100},
    });
    stack.send(&stack.message_with("m1", &browser, &fields)).await;
    stack.until_state("m1", "sent").await;

    let pushes = stack.received(&browser, 2).await;
    let texts: Vec<&str> = pushes.iter().map(|push| push.text().expect("it is decrypted")).collect();
    assert_eq!(texts[0], texts[1]);
    let envelope = parsed(texts[0]);
    assert_fields(&envelope, json!({"redial": 1, "id": "m1", "payload": {"title": "Your parcel is here"}}));

    // As `navigator.sendBeacon` posts it: without another credential or a content type that needs a preflight.
    for (event, duplicate) in [("clicked", false), ("displayed", false), ("clicked", true)] {
        let body = json!({"token": envelope["ack"], "event": event}).to_string();
        let posted = stack.request(Method::POST, "/v1/acks").header("content-type", "text/plain").body(body);
        let answer = posted.send().await.expect("it answers");
        assert_eq!(answer.status().as_u16(), 202);
        let response = parsed(&answer.text().await.expect("text"));
        assert_eq!(response, json!({"id": "m1", "event": event, "duplicate": duplicate}));
    }
    let entry = stack.until_state("m1", "sent").await;
    let at = |event| number(&entry, attribute(event));
    assert!(at(AckEvent::Clicked) <= at(AckEvent::Displayed) && at(AckEvent::Clicked).is_some());
    assert_eq!(at(AckEvent::Closed), None);

    // A changed token is refused.
    let forged = envelope["ack"].as_str().expect("a text").replace(".m1.", ".m2.");
    let body = json!({"token": forged, "event": "closed"}).to_string();
    let answer = stack.request(Method::POST, "/v1/acks").body(body).send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 401);

    // Each first acknowledgement is counted, and no line holds the token.
    let mac = envelope["ack"].as_str().and_then(|token| token.rsplit('.').next()).expect("a MAC");
    let lines = stack
        .until("the metrics are written", async || {
            let lines = stack.log_lines(&stack.description().functions.ingest).await;
            let of = |name: &str| {
                let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                lines.filter_map(|line| line[name].as_u64()).sum::<u64>()
            };
            let counts = ["Displayed", "Clicked", "Closed", "AcksRepeated", "AcksUnknown"].map(of);
            (counts == [1, 1, 0, 1, 0]).then_some(lines)
        })
        .await;
    assert!(lines.iter().all(|line| !line.contains(mac)));
}
